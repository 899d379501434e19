//! Settings of the passes.

use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::days;
use crate::config::checks::{Checks, as_duration};
use crate::config::raw;
use crate::config::reader::Key;
use crate::config::units::{ByteSize, HumanDuration, Ratio, Similarity};
use crate::config::{
    Contradictions, Decay, Duplicates, Orphans, Passes, Review, Scoring, SignalWeights, Snapshot,
    Ttl, Vacuum,
};

/// Reads the settings of one store, all layers already laid over each other.
pub(super) fn passes(raw: &raw::Pass, checks: &mut Checks) -> Passes {
    Passes {
        ttl: ttl(&raw.ttl, checks),
        orphans: orphans(&raw.orphans, checks),
        duplicates: duplicates(&raw.duplicates, checks),
        decay: decay(&raw.decay, checks),
        contradictions: contradictions(&raw.contradictions, checks),
        review: review(&raw.review, checks),
        vacuum: vacuum(&raw.vacuum, checks),
        snapshot: snapshot(&raw.snapshot, checks),
    }
}

/// The settings where nothing is configured.
#[must_use]
pub fn default_passes() -> Passes {
    let nothing = raw::Pass::empty("pass");
    passes(&nothing, &mut Checks::new(PathBuf::new(), Vec::new()))
}

fn ttl(raw: &raw::Ttl, checks: &mut Checks) -> Ttl {
    let allowed = format!("\"never\", or {}", HumanDuration::ALLOWED);
    Ttl {
        enabled: checks.flag(&raw.enabled, true),
        superseded_retention: checks.value(
            &raw.superseded_retention,
            Some(days(180)),
            &allowed,
            |value| match value.as_str()? {
                "never" => Some(None),
                _ => as_duration(value).map(Some),
            },
        ),
    }
}

fn orphans(raw: &raw::Orphans, checks: &mut Checks) -> Orphans {
    Orphans {
        enabled: checks.flag(&raw.enabled, true),
        grace: checks.duration(&raw.grace, Duration::ZERO),
        settle: checks.duration(&raw.settle, Duration::from_hours(20)),
        min_age: checks.duration(&raw.min_age, Duration::from_hours(1)),
    }
}

fn duplicates(raw: &raw::Duplicates, checks: &mut Checks) -> Duplicates {
    let cluster_at = checks.similarity(&raw.cluster_at, const { Similarity::new(0.70).unwrap() });
    let merge_at = checks.similarity(&raw.merge_at, const { Similarity::new(0.92).unwrap() });
    let are_sound = checks.are_sound(&[&raw.cluster_at, &raw.merge_at]);
    if are_sound && cluster_at > merge_at {
        if raw.cluster_at.is_given() {
            let allowed = format!("a number up to merge_at ({merge_at})");
            checks.refuse(&raw.cluster_at, allowed);
        } else {
            let allowed = format!("a number from cluster_at ({cluster_at}) to 1");
            checks.refuse(&raw.merge_at, allowed);
        }
    }
    Duplicates {
        enabled: checks.flag(&raw.enabled, true),
        cluster_at,
        merge_at,
    }
}

fn decay(raw: &raw::Decay, checks: &mut Checks) -> Decay {
    let between = "a number between 0 and 1, neither of them";
    let floor = checks.value(
        &raw.floor,
        const { Ratio::new(0.05).unwrap() },
        between,
        |value| {
            let number = value
                .as_float()
                .filter(|number| *number > 0.0 && *number < 1.0)?;
            Ratio::new(number)
        },
    );
    let above_zero = "a finite number above 0";
    Decay {
        enabled: checks.flag(&raw.enabled, true),
        floor,
        default_scale: checks.positive_duration(&raw.default_scale, Duration::from_hours(2160)),
        scale: scale(&raw.scale, checks),
        shape: checks.number(&raw.shape, 1.0, above_zero, |number| {
            number.is_finite() && number > 0.0
        }),
        exempt_types: exempt_types(&raw.exempt_types, checks),
        max_fraction: checks.ratio(&raw.max_fraction, const { Ratio::new(0.05).unwrap() }),
    }
}

fn scale(key: &Key, checks: &mut Checks) -> Vec<(String, Duration)> {
    let Some(value) = &key.value else {
        return vec![
            ("fact".to_owned(), Duration::from_hours(2160)),
            ("observation".to_owned(), Duration::from_hours(336)),
        ];
    };
    let Some(table) = value.as_table() else {
        checks.refuse(key, "a table of types and durations");
        return Vec::new();
    };
    let mut scale = Vec::new();
    for (name, value) in table {
        let entry = Key {
            field: format!("{}.{name}", key.field),
            value: Some(value.clone()),
        };
        scale.push((
            name.clone(),
            checks.positive_duration(&entry, Duration::ZERO),
        ));
    }
    scale
}

fn exempt_types(key: &Key, checks: &mut Checks) -> Vec<String> {
    let default = ["preference", "procedure", "error_pattern"].map(str::to_owned);
    let allowed = "a list of types, each a string that is not empty";
    checks.value(key, default.to_vec(), allowed, |value| {
        let name = |value: &Value| {
            let name = value.as_str().filter(|name| !name.is_empty())?;
            Some(name.to_owned())
        };
        value.as_array()?.iter().map(name).collect()
    })
}

fn contradictions(raw: &raw::Contradictions, checks: &mut Checks) -> Contradictions {
    let weights = SignalWeights {
        negation: checks.count(&raw.weights.negation, 35, 0..=100),
        antonym: checks.count(&raw.weights.antonym, 25, 0..=100),
        numeric: checks.count(&raw.weights.numeric, 25, 0..=100),
        temporal: checks.count(&raw.weights.temporal, 15, 0..=100),
    };
    let topic_weight = checks.count(&raw.topic_weight, 15, 0..=100);
    let scorings = [("topic", Scoring::Topic), ("sum", Scoring::Sum)];
    let scoring = checks.choice(&raw.scoring, Scoring::Topic, &scorings);
    let topic = match scoring {
        Scoring::Topic => topic_weight,
        Scoring::Sum => 0,
    };
    let highest = weights.negation + weights.antonym + weights.numeric + weights.temporal + topic;
    let threshold = checks.count(&raw.threshold, 40, 1..=500);
    let parts = [
        &raw.threshold,
        &raw.topic_weight,
        &raw.scoring,
        &raw.weights.negation,
        &raw.weights.antonym,
        &raw.weights.numeric,
        &raw.weights.temporal,
    ];
    if checks.are_sound(&parts) && threshold > highest {
        let allowed = format!(
            "what lets a pair reach the threshold ({threshold}): all signals together give {highest}"
        );
        let written = parts.into_iter().find(|key| key.is_given());
        checks.refuse(written.unwrap_or(&raw.threshold), allowed);
    }
    Contradictions {
        enabled: checks.flag(&raw.enabled, true),
        window: checks.positive_duration(&raw.window, days(7)),
        threshold,
        weights,
        topic_weight,
        scoring,
    }
}

fn review(raw: &raw::Review, checks: &mut Checks) -> Review {
    Review {
        enabled: checks.flag(&raw.enabled, true),
        stale_after: checks.positive_duration(&raw.stale_after, days(90)),
        unused_after: checks.positive_duration(&raw.unused_after, days(180)),
        per_week: checks.count(&raw.per_week, 20, 1..=10_000),
    }
}

fn vacuum(raw: &raw::Vacuum, checks: &mut Checks) -> Vacuum {
    Vacuum {
        enabled: checks.flag(&raw.enabled, true),
        min_free_fraction: checks.ratio(&raw.min_free_fraction, const { Ratio::new(0.1).unwrap() }),
        min_free_bytes: checks.bytes(&raw.min_free_bytes, ByteSize(16 << 20)),
        max_stall: checks.positive_duration(&raw.max_stall, Duration::from_secs(5)),
    }
}

fn snapshot(raw: &raw::Snapshot, checks: &mut Checks) -> Snapshot {
    let keep_daily = checks.count(&raw.keep_daily, 7, 0..=10_000);
    let keep_weekly = checks.count(&raw.keep_weekly, 4, 0..=10_000);
    let keep_monthly = checks.count(&raw.keep_monthly, 6, 0..=10_000);
    let keys = [&raw.keep_daily, &raw.keep_weekly, &raw.keep_monthly];
    if checks.are_sound(&keys) && keep_daily + keep_weekly + keep_monthly == 0 {
        checks.refuse_value(
            &raw.keep_daily.field,
            "0",
            "1 or more when keep_weekly and keep_monthly are 0, or every pair would go",
        );
    }
    Snapshot {
        enabled: checks.flag(&raw.enabled, true),
        keep_daily,
        keep_weekly,
        keep_monthly,
    }
}
