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
//!
//! Integers may stand for what a projection keeps of the vectors. Let `x` and `y` have length 1, `u` and `v` be what is
//! kept, at most `rest(x)` and `rest(y)` long what is left out, and `error` that of projecting. Then
//! `|x . y - u . v| <= rest(x) rest(y) + error`, so that for `x . y` to reach the threshold `t`, the cosine of `u` and `v`
//! must reach `(t - rest(x) rest(y) - error) / (|u| |v|)`; and from `(t + rest(x) rest(y) + error) / (|u| |v|)` on,
//! `x . y` does reach it. The angles of these take the place of `theta`.

use super::quantise::Rounding;

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
    /// A right angle. Integers that are all zero count as at right angles to everything, and no angle is farther from one.
    pub(super) const RIGHT: Self = Self { sin: 1.0, cos: 0.0 };

    /// The angle with this cosine, and a margin.
    pub(super) fn from_cosine(cosine: f64) -> Self {
        let cos = cosine.clamp(-1.0, 1.0);
        let sin = (1.0 - cos * cos).sqrt();
        Self { sin, cos }.plus(Self {
            sin: MARGIN,
            cos: 1.0,
        })
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

    /// The cosine of an angle wider by this than `least`: no integers under it can stand for what reaches `least`. Minus
    /// infinity when nothing can be said.
    fn below(self, least: Angle) -> f64 {
        if least.cos >= -self.cos {
            least.cos * self.cos - least.sin * self.sin
        } else {
            f64::NEG_INFINITY
        }
    }

    /// The cosine of an angle narrower by this than `enough`: integers from it on stand for what reaches `enough`.
    /// Infinity when nothing can be said.
    fn above(self, enough: Angle) -> f64 {
        if enough.cos <= self.cos {
            enough.cos * self.cos + enough.sin * self.sin
        } else {
            f64::INFINITY
        }
    }
}

/// The angle of a cosine that is to be reached.
#[derive(Debug, Clone, Copy)]
struct Angle {
    cos: f64,
    sin: f64,
}

impl Angle {
    /// `None` when it is no cosine.
    fn new(cos: f64) -> Option<Self> {
        let sin = (1.0 - cos * cos).sqrt();
        (!sin.is_nan()).then_some(Self { cos, sin })
    }
}

/// What is known of the integers of a vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounded {
    /// Their length, as of a vector.
    pub(super) length: f64,
    /// The angle between them and what they stand for.
    pub(super) slack: Slack,
}

impl Rounded {
    /// Of numbers of the length `length`.
    pub(super) fn new(rounding: &Rounding, length: f64) -> Self {
        let integers = rounding.square.sqrt();
        let slack = if integers > 0.0 {
            Slack::from_cosine(rounding.product / (length * integers))
        } else {
            Slack::RIGHT
        };
        Self {
            length: integers,
            slack,
        }
    }
}

/// How much of a vector of length 1 its integers stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    /// The length of it.
    pub(super) kept: f64,
    /// How long what is left out can be.
    pub(super) rest: f64,
}

impl Part {
    /// All of it.
    pub(super) const WHOLE: Self = Self {
        kept: 1.0,
        rest: 0.0,
    };
}

/// Which products of integers reach the threshold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    angle: Angle,
    /// By how much the inner product of what the integers of blocks stand for may be off.
    error: f64,
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
    /// `None` when `cosine` is none; `error` is that of projecting.
    pub(super) fn new(cosine: f64, error: f64) -> Option<Self> {
        let angle = Angle::new(cosine)?;
        Some(Self { angle, error })
    }

    pub(super) fn cosine(&self) -> f64 {
        self.angle.cos
    }

    /// What the integers of whole vectors say of a pair with the product of integers `product`, whose lengths multiply to
    /// `1 / inverse`.
    pub(super) fn judge(&self, product: i32, inverse: f64, slack: Slack) -> Verdict {
        let cosine = f64::from(product) * inverse;
        if cosine < slack.below(self.angle) {
            Verdict::Below
        } else if cosine >= slack.above(self.angle) {
            Verdict::AtOrAbove
        } else {
            Verdict::Close
        }
    }

    /// The least product with which any pair of two blocks may reach the threshold.
    pub(super) fn floor(&self, a: &Extent, b: &Extent) -> i32 {
        let needed = self.angle.cos - a.rest * b.rest - self.error;
        let kept = if needed >= 0.0 {
            a.kept.most * b.kept.most
        } else {
            a.kept.least * b.kept.least
        };
        let least = match Angle::new(needed / kept) {
            Some(least) => a.slack.plus(b.slack).below(least),
            None if needed > kept => f64::INFINITY,
            None => f64::NEG_INFINITY,
        };
        let lengths = if least >= 0.0 {
            a.length.least * b.length.least
        } else {
            a.length.most * b.length.most
        };
        to_product(least, lengths, f64::floor)
    }

    /// A product with which every pair of two blocks reaches the threshold for sure.
    pub(super) fn ceiling(&self, a: &Extent, b: &Extent) -> i32 {
        let needed = self.angle.cos + a.rest * b.rest + self.error;
        let kept = if needed >= 0.0 {
            a.kept.least * b.kept.least
        } else {
            a.kept.most * b.kept.most
        };
        let enough = match Angle::new(needed / kept) {
            Some(enough) => a.slack.plus(b.slack).above(enough),
            None if needed < -kept => f64::NEG_INFINITY,
            None => f64::INFINITY,
        };
        let lengths = if enough >= 0.0 {
            a.length.most * b.length.most
        } else {
            a.length.least * b.length.least
        };
        to_product(enough, lengths, |product| product.ceil() + 1.0)
    }
}

/// The product of integers with this cosine, whose lengths multiply to `lengths`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a product of integers fits; what does not is meant to saturate"
)]
fn to_product(cosine: f64, lengths: f64, rounded: impl Fn(f64) -> f64) -> i32 {
    // Infinite, it is no product of anything; times zero it would be no number.
    if cosine.is_infinite() {
        return cosine as i32;
    }
    rounded(cosine * lengths) as i32
}

/// The least and the largest of some numbers.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    const EMPTY: Self = Self {
        least: f64::INFINITY,
        most: 0.0,
    };

    fn take(&mut self, number: f64) {
        self.least = self.least.min(number);
        self.most = self.most.max(number);
    }
}

/// What is common to the vectors of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    slack: Slack,
    /// The lengths of the integers.
    length: Range,
    kept: Range,
    rest: f64,
}

impl Extent {
    /// Of no vector at all.
    pub(super) const EMPTY: Self = Self {
        slack: Slack::NONE,
        length: Range::EMPTY,
        kept: Range::EMPTY,
        rest: 0.0,
    };

    /// Takes a vector in, of which so much is kept in such integers.
    pub(super) fn take(&mut self, part: Part, integers: &Rounded) {
        self.slack = self.slack.max(integers.slack);
        self.length.take(integers.length);
        self.kept.take(part.kept);
        self.rest = self.rest.max(part.rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slack(angle: f64) -> Slack {
        Slack::from_cosine(angle.cos())
    }

    fn angle(slack: Slack) -> f64 {
        slack.sin.atan2(slack.cos)
    }

    fn threshold(cosine: f64) -> Threshold {
        Threshold::new(cosine, 0.0).unwrap()
    }

    /// A product of integers `thousandths` of a radian apart, whose lengths multiply to a million.
    fn product_at(thousandths: f64) -> i32 {
        to_product((thousandths / 1000.0).cos(), 1e6, f64::round)
    }

    #[test]
    fn slack_is_the_angle_and_a_margin_and_adds_up() {
        for measured in [0.0, 1e-9, 0.01, 0.5, 1.5] {
            let slack = angle(slack(measured));
            assert!(
                (measured..measured + 2.0 * MARGIN).contains(&slack),
                "{measured} {slack}"
            );
        }
        let sum = angle(slack(0.2).plus(slack(0.3)));
        assert!((0.5..0.5 + 3.0 * MARGIN).contains(&sum), "{sum}");
        assert!(angle(slack(0.2).max(slack(0.3))) >= 0.3);
        assert!(angle(slack(0.3).max(slack(0.2))) >= 0.3);
    }

    #[test]
    fn only_what_is_closer_than_the_slack_is_close() {
        for (thousandths, expected) in [
            (0.0, Verdict::AtOrAbove),
            (969.0, Verdict::AtOrAbove),
            (971.0, Verdict::Close),
            (1029.0, Verdict::Close),
            (1031.0, Verdict::Below),
            (3000.0, Verdict::Below),
        ] {
            let threshold = threshold(1.0_f64.cos());
            let verdict = threshold.judge(product_at(thousandths), 1e-6, slack(0.03));
            assert_eq!(verdict, expected, "{thousandths}");
        }
    }

    #[test]
    fn nothing_is_sure_when_the_slack_passes_the_ends() {
        let narrow = threshold(0.01_f64.cos());
        assert_eq!(
            narrow.judge(product_at(0.0), 1e-6, slack(0.02)),
            Verdict::Close
        );
        let wide = threshold(-(0.01_f64.cos()));
        assert_eq!(
            wide.judge(-product_at(0.0), 1e-6, slack(0.02)),
            Verdict::Close
        );
        for (threshold, floor, ceiling) in
            [(narrow, None, Some(i32::MAX)), (wide, Some(i32::MIN), None)]
        {
            let mut extent = Extent::EMPTY;
            let (length, slack) = (1000.0, slack(0.01));
            extent.take(Part::WHOLE, &Rounded { length, slack });
            assert!(floor.is_none_or(|floor| threshold.floor(&extent, &extent) == floor));
            assert!(ceiling.is_none_or(|ceiling| threshold.ceiling(&extent, &extent) == ceiling));
        }
    }

    #[test]
    fn a_threshold_is_a_cosine() {
        for cosine in [-1.0, 0.0, 1.0] {
            assert!(Threshold::new(cosine, 0.0).is_some());
        }
        for cosine in [1.0 + f64::EPSILON, -1.1, f64::INFINITY, f64::NAN] {
            assert!(Threshold::new(cosine, 0.0).is_none(), "{cosine}");
        }
    }

    #[test]
    fn integers_that_are_all_zero_say_nothing() {
        let zero = Rounding {
            square: 0.0,
            product: 0.0,
        };
        let zero = Rounded::new(&zero, 0.0);
        let one = Rounding {
            square: 4.0,
            product: 2.0,
        };
        let one = Rounded::new(&one, 1.0);
        assert_eq!((zero.length, one.length), (0.0, 2.0));
        let mut extent = Extent::EMPTY;
        let part = Part {
            kept: 0.0,
            rest: 1.0,
        };
        extent.take(part, &zero);
        extent.take(Part::WHOLE, &one);
        for cosine in [-1.0, -0.5, 0.0, 0.5, 1.0] {
            let threshold = Threshold::new(cosine, 0.001).unwrap();
            assert!(threshold.floor(&extent, &extent) <= -4, "{cosine}");
            assert!(threshold.ceiling(&extent, &extent) > 4, "{cosine}");
        }
    }

    /// Whatever the vectors of two blocks are and whatever of them is kept, a product under the floor is below for each
    /// of them, and one at the ceiling at or above.
    #[test]
    fn floor_and_ceiling_hold_for_every_pair_of_two_blocks() {
        let part = |kept: f64| Part {
            kept,
            rest: (1.0 - kept * kept).sqrt(),
        };
        let whole = [(0.001, 130.0), (0.004, 900.0), (0.02, 1500.0)].map(|(angle, length)| {
            let slack = slack(angle);
            (Part::WHOLE, Rounded { length, slack })
        });
        let kept = [(0.9, 0.01, 900.0), (0.95, 0.02, 940.0), (0.7, 0.03, 1000.0)];
        let kept = kept.map(|(kept, angle, length)| {
            let slack = slack(angle);
            (part(kept), Rounded { length, slack })
        });
        for (vectors, error) in [(whole, 0.0), (kept, 0.001)] {
            let mut extent = Extent::EMPTY;
            for (part, rounded) in &vectors {
                extent.take(*part, rounded);
            }
            for cosine in [-0.9, -0.3, 0.0, 0.3, 0.7, 0.99] {
                let threshold = Threshold::new(cosine, error).unwrap();
                let (floor, ceiling) = (
                    threshold.floor(&extent, &extent),
                    threshold.ceiling(&extent, &extent),
                );
                for (a, x) in &vectors {
                    for (b, y) in &vectors {
                        // The angle of two vectors whose integers have such a product, at its ends.
                        let ends = |product: i32, ahead: f64| -> f64 {
                            let lengths = x.length * y.length;
                            let integers = (f64::from(product) / lengths).clamp(-1.0, 1.0).acos();
                            let slack = angle(x.slack) + angle(y.slack);
                            let kept = (integers - ahead * slack).clamp(0.0, std::f64::consts::PI);
                            let off = a.rest * b.rest + error;
                            a.kept * b.kept * kept.cos() + ahead * off
                        };
                        if let Some(under) = floor.checked_sub(1) {
                            assert!(ends(under, 1.0) < cosine, "{cosine} {floor}");
                        }
                        if ceiling < i32::MAX {
                            assert!(ends(ceiling, -1.0) >= cosine, "{cosine} {ceiling}");
                        }
                    }
                }
            }
        }
    }
}
