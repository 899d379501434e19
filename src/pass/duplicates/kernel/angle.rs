//! What the integers of two vectors say about the angle between the vectors.
//!
//! Let `x` and `y` be vectors, `p` and `q` their integers. Angles are a metric on directions, so
//! `|angle(x, y) - angle(p, q)| <= angle(x, p) + angle(y, q)`. Hence, with `theta` the angle of the threshold and
//! `slack` the sum on the right, which is known for each vector,
//!
//! - `angle(p, q) > theta + slack` means that the pair is below the threshold,
//! - `angle(p, q) <= theta - slack` that it is not,
//!
//! and `cos(angle(p, q))` is the product of the integers, which is exact, over the product of their lengths. (The bound
//! by Cauchy and Schwarz is wider: it does not know that an error across the plane of both hardly turns them.)

use std::f64::consts::PI;

/// Added to each measured angle, in radians: what rounding in `f64` can have taken from it. The cosine is right to
/// 1.4e-12 in the worst case (three sums of 4,096 terms a lane), so a sine near zero, `sqrt(1 - cos^2)`, to 1.7e-6.
const MARGIN: f64 = 2e-6;

/// An angle between 0 and pi, by which integers may be off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slack {
    sin: f64,
    cos: f64,
}

impl Slack {
    /// No slack: what an empty place of a block has.
    pub(super) const NONE: Self = Self { sin: 0.0, cos: 1.0 };

    /// The angle with this cosine, and a margin.
    pub(super) fn from_cosine(cosine: f64) -> Self {
        let cos = cosine.clamp(-1.0, 1.0);
        let sin = (1.0 - cos * cos).sqrt();
        Self { sin, cos }.plus(Self {
            sin: MARGIN,
            cos: 1.0,
        })
    }

    fn angle(self) -> f64 {
        self.sin.atan2(self.cos)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            sin: self.sin * other.cos + self.cos * other.sin,
            cos: self.cos * other.cos - self.sin * other.sin,
        }
    }

    /// The larger one.
    pub(super) fn max(self, other: Self) -> Self {
        if other.cos < self.cos { other } else { self }
    }
}

/// The angle of a threshold, and which products of integers reach it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    cosine: f64,
    sin: f64,
    /// Whether the angle is so wide that with the slack of some pair it passes pi: then no pair is surely below.
    is_wide: bool,
    /// Whether it is so narrow that the slack of some pair exceeds it: then no pair is surely at or above.
    is_narrow: bool,
}

/// What the integers of a pair say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Below,
    AtOrAbove,
    /// Too close to tell.
    Close,
}

impl Threshold {
    /// The threshold `cosine` for vectors none of which has more slack than `widest`.
    pub(super) fn new(cosine: f64, widest: Slack) -> Self {
        let (angle, slack) = (cosine.acos(), 2.0 * widest.angle());
        Self {
            cosine,
            sin: angle.sin(),
            is_wide: angle + slack >= PI,
            is_narrow: angle <= slack,
        }
    }

    pub(super) fn cosine(&self) -> f64 {
        self.cosine
    }

    /// The cosine of the integers under which a pair is below the threshold for sure.
    fn least(&self, slack: Slack) -> f64 {
        if self.is_wide {
            f64::NEG_INFINITY
        } else {
            self.cosine * slack.cos - self.sin * slack.sin
        }
    }

    /// The cosine of the integers from which on a pair reaches the threshold for sure.
    fn enough(&self, slack: Slack) -> f64 {
        if self.is_narrow {
            f64::INFINITY
        } else {
            self.cosine * slack.cos + self.sin * slack.sin
        }
    }

    /// What the integers say of a pair with the product of integers `product`, whose lengths multiply to `1 / inverse`.
    pub(super) fn judge(&self, product: i32, inverse: f64, slack: Slack) -> Verdict {
        let cosine = f64::from(product) * inverse;
        if cosine < self.least(slack) {
            Verdict::Below
        } else if cosine >= self.enough(slack) {
            Verdict::AtOrAbove
        } else {
            Verdict::Close
        }
    }

    /// The least product with which any pair of two blocks may reach the threshold.
    pub(super) fn floor(&self, a: &Extent, b: &Extent) -> i32 {
        let least = self.least(a.slack.plus(b.slack));
        let lengths = if least >= 0.0 {
            a.shortest * b.shortest
        } else {
            a.longest * b.longest
        };
        to_product((least * lengths).floor())
    }

    /// A product with which every pair of two blocks reaches the threshold for sure.
    pub(super) fn ceiling(&self, a: &Extent, b: &Extent) -> i32 {
        let enough = self.enough(a.slack.plus(b.slack));
        let lengths = if enough >= 0.0 {
            a.longest * b.longest
        } else {
            a.shortest * b.shortest
        };
        to_product((enough * lengths).ceil() + 1.0)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a product of integers fits; what does not is meant to saturate"
)]
fn to_product(product: f64) -> i32 {
    product as i32
}

/// What is common to the vectors of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    slack: Slack,
    shortest: f64,
    longest: f64,
}

impl Extent {
    /// Of no vector at all.
    pub(super) const EMPTY: Self = Self {
        slack: Slack::NONE,
        shortest: f64::INFINITY,
        longest: 0.0,
    };

    /// Takes a vector in whose integers have this length.
    pub(super) fn take(&mut self, slack: Slack, length: f64) {
        self.slack = self.slack.max(slack);
        self.shortest = self.shortest.min(length);
        self.longest = self.longest.max(length);
    }

    /// The most slack that one of its vectors has.
    pub(super) fn slack(&self) -> Slack {
        self.slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slack(angle: f64) -> Slack {
        Slack::from_cosine(angle.cos())
    }

    /// A product of integers `thousandths` of a radian apart, whose lengths multiply to a million.
    fn product_at(thousandths: f64) -> i32 {
        to_product(1e6 * (thousandths / 1000.0).cos())
    }

    #[test]
    fn slack_is_the_angle_and_a_margin_and_adds_up() {
        for angle in [0.0, 1e-9, 0.01, 0.5, 1.5] {
            let measured = slack(angle).angle();
            assert!(
                (angle..angle + 2.0 * MARGIN).contains(&measured),
                "{angle} {measured}"
            );
        }
        let sum = slack(0.2).plus(slack(0.3)).angle();
        assert!((0.5..0.5 + 3.0 * MARGIN).contains(&sum), "{sum}");
        assert!(slack(0.2).max(slack(0.3)).angle() >= 0.3);
        assert!(slack(0.3).max(slack(0.2)).angle() >= 0.3);
    }

    #[test]
    fn only_what_is_closer_than_the_slack_is_close() {
        let threshold = Threshold::new(1.0_f64.cos(), slack(0.02));
        for (thousandths, expected) in [
            (0.0, Verdict::AtOrAbove),
            (969.0, Verdict::AtOrAbove),
            (971.0, Verdict::Close),
            (1029.0, Verdict::Close),
            (1031.0, Verdict::Below),
            (3000.0, Verdict::Below),
        ] {
            let verdict = threshold.judge(product_at(thousandths), 1e-6, slack(0.03));
            assert_eq!(verdict, expected, "{thousandths}");
        }
    }

    #[test]
    fn nothing_is_sure_when_the_slack_passes_the_ends() {
        let narrow = Threshold::new(0.01_f64.cos(), slack(0.01));
        assert_eq!(
            narrow.judge(product_at(0.0), 1e-6, slack(0.02)),
            Verdict::Close
        );
        let wide = Threshold::new(-(0.01_f64.cos()), slack(0.01));
        assert_eq!(
            wide.judge(-product_at(0.0), 1e-6, slack(0.02)),
            Verdict::Close
        );
        for (threshold, floor, ceiling) in
            [(narrow, None, Some(i32::MAX)), (wide, Some(i32::MIN), None)]
        {
            let mut extent = Extent::EMPTY;
            extent.take(slack(0.01), 1000.0);
            assert!(floor.is_none_or(|floor| threshold.floor(&extent, &extent) == floor));
            assert!(ceiling.is_none_or(|ceiling| threshold.ceiling(&extent, &extent) == ceiling));
        }
    }

    /// Whatever the vectors of two blocks are, a product under the floor is below for each of them, and one at the
    /// ceiling at or above.
    #[test]
    fn floor_and_ceiling_hold_for_every_pair_of_two_blocks() {
        let vectors = [(0.001, 130.0), (0.004, 900.0), (0.02, 1500.0)];
        let mut extent = Extent::EMPTY;
        for (angle, length) in vectors {
            extent.take(slack(angle), length);
        }
        for cosine in [-0.9, -0.3, 0.0, 0.3, 0.7, 0.99] {
            let threshold = Threshold::new(cosine, extent.slack());
            let (floor, ceiling) = (
                threshold.floor(&extent, &extent),
                threshold.ceiling(&extent, &extent),
            );
            for (a, long) in vectors {
                for (b, short) in vectors {
                    let judge = |product| {
                        threshold.judge(product, 1.0 / (long * short), slack(a).plus(slack(b)))
                    };
                    assert_eq!(judge(floor - 1), Verdict::Below, "{cosine}");
                    assert_eq!(judge(ceiling), Verdict::AtOrAbove, "{cosine}");
                }
            }
        }
    }
}
