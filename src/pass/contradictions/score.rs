//! The contradiction score of a pair.
//!
//! ```text
//! score = sum(weights of the signals that speak) + topic_weight * topic
//! ```
//!
//! Policy: a signal speaks when its disagreement is about the same thing, by the agreement that comes with it. From that
//! agreement follows the topic, along one [`Ramp`] per signal, calibrated on labelled pairs so that with the default
//! weights a negation is queued when the other text asserts half of what is denied, opposite words and numbers when half
//! of one text is about the other, and a time alone never. A pair without a signal scores 0, whatever its topic.

use crate::config::{Contradictions, Scoring};
use crate::text::{Comparison, Disagreements, Possible};

/// From which agreement a signal speaks, and at which its topic is full.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    from: f32,
    full: f32,
}

const NEGATION: Ramp = Ramp {
    from: 0.4,
    full: 0.7,
};
const ANTONYM: Ramp = Ramp {
    from: 0.4,
    full: 0.5,
};
const NUMERIC: Ramp = Ramp {
    from: 0.3,
    full: 0.45,
};
const TEMPORAL: Ramp = Ramp {
    from: 0.3,
    full: 0.5,
};

impl Ramp {
    /// The topic of an agreement, in `[0, 1]`; `None` when it is too little for the signal to speak.
    fn topic(self, agreement: Option<f32>) -> Option<f32> {
        let agreement = agreement.filter(|agreement| *agreement >= self.from)?;
        Some(((agreement - self.from) / (self.full - self.from)).clamp(0.0, 1.0))
    }
}

/// What a pair scores, and why.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// The score; 0 when no signal speaks.
    pub total: u32,
    /// How far the texts speak of the same thing, in `[0, 1]`.
    pub topic: f32,
    /// Which signals speak.
    pub signals: Signals,
}

/// Which signals speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each is the signal of that name")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub struct Signals {
    pub negation: bool,
    pub antonym: bool,
    pub numeric: bool,
    pub temporal: bool,
}

impl Score {
    /// Scores a pair.
    #[must_use]
    pub fn of(comparison: &Comparison<'_>, settings: &Contradictions) -> Self {
        let Disagreements {
            negation,
            antonym,
            numeric,
            temporal,
        } = comparison.disagreements();
        let topics = [
            NEGATION.topic(negation),
            ANTONYM.topic(antonym),
            NUMERIC.topic(numeric),
            TEMPORAL.topic(temporal),
        ];
        let Some(topic) = topics.into_iter().flatten().reduce(f32::max) else {
            return Self::default();
        };
        let weights = settings.weights;
        let weights = [
            weights.negation,
            weights.antonym,
            weights.numeric,
            weights.temporal,
        ];
        let signals: u32 = topics
            .iter()
            .zip(weights)
            .filter(|(topic, _)| topic.is_some())
            .map(|(_, weight)| weight)
            .sum();
        let common = match settings.scoring {
            Scoring::Topic => share(settings.topic_weight, topic),
            Scoring::Sum => 0,
        };
        let [negation, antonym, numeric, temporal] = topics.map(|topic| topic.is_some());
        Self {
            total: signals + common,
            topic,
            signals: Signals {
                negation,
                antonym,
                numeric,
                temporal,
            },
        }
    }

    /// The most that a pair can score which could disagree in so many ways.
    #[must_use]
    pub fn most(possible: Possible, settings: &Contradictions) -> u32 {
        let weights = settings.weights;
        let signals: u32 = [
            (possible.negation, weights.negation),
            (possible.antonym, weights.antonym),
            (possible.numeric, weights.numeric),
            (possible.temporal, weights.temporal),
        ]
        .into_iter()
        .filter_map(|(could_speak, weight)| could_speak.then_some(weight))
        .sum();
        match settings.scoring {
            Scoring::Topic if possible != Possible::default() => signals + settings.topic_weight,
            _ => signals,
        }
    }

    /// Whether the pair is one to ask a person about.
    #[must_use]
    pub fn is_contradiction(&self, settings: &Contradictions) -> bool {
        self.total >= settings.threshold
    }
}

/// A share of a weight, rounded down: what is nearly enough is not enough.
fn share(weight: u32, topic: f32) -> u32 {
    let whole = f64::from(weight) * f64::from(topic);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a weight of at most 100"
    )]
    let share = (whole + 1e-3) as u32;
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{SignalWeights, default_passes};
    use crate::text::{Analysis, Context, verdict};

    fn settings() -> Contradictions {
        default_passes().contradictions
    }

    fn score(a: &str, b: &str, settings: &Contradictions) -> Score {
        let (a, b) = (Analysis::of(a), Analysis::of(b));
        Score::of(&Comparison::of(&a, &b, Context::default()), settings)
    }

    #[test]
    fn contradictions_are_queued_and_other_pairs_are_not() {
        for (a, b, queued) in [
            ("Ana eats meat", "Ana does not eat meat", true),
            ("usa docker em producao", "nao usa docker em producao", true),
            (
                "you took a course on soil chemistry",
                "you have never taken any courses",
                true,
            ),
            ("the office door is open", "the office door is closed", true),
            ("Ana has two cats", "Ana has three cats", true),
            (
                "the standup is on Monday",
                "the standup is on Tuesday",
                false,
            ),
            (
                "the review costs $50 on Monday",
                "the review costs $70 on Tuesday",
                true,
            ),
            ("Ana does not eat meat", "Bruno eats meat", false),
            (
                "Ana does not eat meat",
                "Ana plays the harp on Sundays",
                false,
            ),
            ("Ana likes tea", "Ana likes tea", false),
            ("Ana likes tea", "ANA likes, tea!", false),
            ("Ana likes tea", "Ana likes the sea", false),
            ("", "not", false),
        ] {
            let settings = settings();
            let score = score(a, b, &settings);
            assert_eq!(
                score.is_contradiction(&settings),
                queued,
                "{score:?}: {a} | {b}"
            );
        }
    }

    #[test]
    fn the_literal_sum_has_no_topic() {
        let sum = Contradictions {
            scoring: Scoring::Sum,
            ..settings()
        };
        for (a, b, total) in [
            ("Ana eats meat", "Ana does not eat meat", 35),
            ("the office door is open", "the office door is closed", 25),
            ("Ana has two cats", "Ana has three cats", 25),
            ("the standup is on Monday", "the standup is on Tuesday", 15),
            (
                "the review costs $50 on Monday",
                "the review costs $70 on Tuesday",
                40,
            ),
            ("Ana likes tea", "Ana likes the sea", 0),
        ] {
            assert_eq!(score(a, b, &sum).total, total, "{a} | {b}");
        }
    }

    #[test]
    fn weights_and_threshold_are_settings() {
        let (a, b) = ("Ana has two cats", "Ana has three cats");
        let settings = Contradictions {
            weights: SignalWeights {
                numeric: 7,
                ..settings().weights
            },
            topic_weight: 10,
            threshold: 18,
            ..settings()
        };
        let score = score(a, b, &settings);
        assert_eq!(score.total, 17, "7 and a full topic of 10");
        assert!(!score.is_contradiction(&settings));
        assert!(score.signals.numeric && !score.signals.negation);
    }

    #[test]
    fn nothing_that_scores_can_be_merged_even_at_the_lowest_threshold() {
        let settings = Contradictions {
            threshold: 1,
            topic_weight: 100,
            ..settings()
        };
        for (a, b) in [
            ("Ana eats meat", "Ana does not eat meat"),
            ("Ana likes tea", "Ana likes tea"),
            ("Ana likes tea", "Ana likes tea with rum"),
            ("Ana has two cats", "Ana has three cats"),
        ] {
            let (a, b) = (Analysis::of(a), Analysis::of(b));
            let pair = Comparison::of(&a, &b, Context::default());
            let queued = Score::of(&pair, &settings).is_contradiction(&settings);
            assert!(!(queued && verdict(&pair).may_merge(Some(1.0), 0.0)));
        }
    }
}
