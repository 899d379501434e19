//! The file of a language as it is written; what its keys say is told in [`super`].

use std::collections::HashMap;

use serde::Deserialize;

use crate::text::wording::RawRewording;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) stemmer: String,
    pub(super) decimal: String,
    pub(super) function: String,
    pub(super) indefinite: String,
    pub(super) fillers: String,
    pub(super) light: String,
    pub(super) negators: RawNegators,
    pub(super) contractions: HashMap<String, String>,
    pub(super) suffixes: HashMap<String, String>,
    pub(super) qualifiers: toml::Table,
    pub(super) words: RawWords,
    pub(super) rewording: RawRewording,
    pub(super) opposites: RawOpposites,
    pub(super) numbers: HashMap<String, u64>,
    pub(super) ordinals: RawOrdinals,
    pub(super) time: RawTime,
    pub(super) units: HashMap<String, String>,
    pub(super) versions: RawVersions,
}

/// `[negators]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNegators {
    pub(super) not: String,
    pub(super) none: String,
    pub(super) never: String,
    pub(super) without: String,
    pub(super) implied: String,
    pub(super) harmless: String,
    pub(super) ends: String,
}

/// `[words]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWords {
    pub(super) lemmas: String,
    pub(super) same: String,
    pub(super) kinds: String,
}

/// `[opposites]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOpposites {
    pub(super) pairs: String,
    pub(super) against: String,
    pub(super) exclusive: String,
}

/// `[ordinals]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOrdinals {
    pub(super) words: String,
    pub(super) suffixes: String,
}

/// `[time]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTime {
    pub(super) weekdays: String,
    pub(super) weekdays_short: String,
    pub(super) months: String,
    pub(super) months_short: String,
    pub(super) relative: String,
    pub(super) am: String,
    pub(super) pm: String,
    pub(super) hour_marks: String,
}

/// `[versions]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVersions {
    pub(super) before: String,
    pub(super) identifiers: String,
}
