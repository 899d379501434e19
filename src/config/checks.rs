//! Typed reading of keys: each reader returns a value in range, or a placeholder and one more problem.
//!
//! A placeholder never escapes: [`super::validate`] gives no configuration when there is a problem.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::address;
use super::problem::{Found, Problem, is_secret, shown};
use super::reader::Key;
use super::units::{ByteSize, HumanDuration, Ratio, Similarity};

/// Collects problems while keys are read.
#[derive(Clone)]
pub(super) struct Checks {
    /// Folder of the configuration file, absolute: what relative paths are relative to.
    base: PathBuf,
    problems: Vec<Problem>,
}

impl Checks {
    pub(super) fn new(base: PathBuf, problems: Vec<Problem>) -> Self {
        Self { base, problems }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Takes over the problems that each of some trials found, and no other: what is wrong in any case.
    pub(super) fn take_common(&mut self, trials: &[Self]) {
        let Some((first, others)) = trials.split_first() else {
            return;
        };
        let is_common =
            |problem: &&Problem| others.iter().all(|other| other.problems.contains(problem));
        for problem in first.problems.iter().filter(is_common) {
            if !self.problems.contains(problem) {
                self.problems.push(problem.clone());
            }
        }
    }

    fn add(&mut self, field: &str, value: Found, allowed: impl Into<String>) {
        let problem = Problem {
            field: field.to_owned(),
            value,
            allowed: allowed.into(),
        };
        // A key of [pass] is read once for every store.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Refuses what is written at `key`, or that nothing is.
    pub(super) fn refuse(&mut self, key: &Key, allowed: impl Into<String>) {
        let found = match &key.value {
            Some(value) => Found::Value(shown_at(&key.field, value)),
            None => Found::Nothing,
        };
        self.add(&key.field, found, allowed);
    }

    /// Refuses the effective value at `field`, which may be a default.
    pub(super) fn refuse_value(
        &mut self,
        field: &str,
        value: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.add(field, Found::Value(value.into()), allowed);
    }

    /// Says that a table or list is missing.
    pub(super) fn missing(&mut self, field: &str, allowed: impl Into<String>) {
        self.add(field, Found::Nothing, allowed);
    }

    /// Whether `field` has no problem.
    pub(super) fn is_sound(&self, field: &str) -> bool {
        self.problems.iter().all(|problem| problem.field != field)
    }

    /// Whether none of `keys` has a problem, so that they can be compared.
    pub(super) fn are_sound(&self, keys: &[&Key]) -> bool {
        keys.iter().all(|key| self.is_sound(&key.field))
    }

    /// Whether nothing in the table at `field` has a problem.
    pub(super) fn is_sound_below(&self, field: &str) -> bool {
        let is_below = |problem: &Problem| {
            let below = problem.field.strip_prefix(field);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !self.problems.iter().any(is_below)
    }

    /// What `read` makes of the value, or the default where nothing is written.
    pub(super) fn value<T>(
        &mut self,
        key: &Key,
        default: T,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> T {
        match key.value.as_ref().map(read) {
            None => default,
            Some(Some(value)) => value,
            Some(None) => {
                self.refuse(key, allowed);
                default
            }
        }
    }

    pub(super) fn flag(&mut self, key: &Key, default: bool) -> bool {
        self.value(key, default, "true or false", Value::as_bool)
    }

    pub(super) fn count(&mut self, key: &Key, default: u32, range: RangeInclusive<u32>) -> u32 {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.value(key, default, &allowed, |value| {
            let number = u32::try_from(value.as_integer()?).ok()?;
            range.contains(&number).then_some(number)
        })
    }

    pub(super) fn number(
        &mut self,
        key: &Key,
        default: f64,
        allowed: &str,
        accepts: impl FnOnce(f64) -> bool,
    ) -> f64 {
        self.value(key, default, allowed, |value| {
            Some(as_number(value)?).filter(|number| accepts(*number))
        })
    }

    pub(super) fn ratio(&mut self, key: &Key, default: Ratio) -> Ratio {
        self.value(key, default, "a number from 0 to 1", |value| {
            Ratio::new(as_number(value)?)
        })
    }

    pub(super) fn similarity(&mut self, key: &Key, default: Similarity) -> Similarity {
        self.value(key, default, "a number from -1 to 1", |value| {
            Similarity::new(as_number(value)?)
        })
    }

    pub(super) fn bytes(&mut self, key: &Key, default: ByteSize) -> ByteSize {
        self.value(key, default, ByteSize::ALLOWED, |value| match value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok().map(ByteSize),
            other => other.as_str()?.parse().ok(),
        })
    }

    pub(super) fn duration(&mut self, key: &Key, default: Duration) -> Duration {
        self.value(key, default, HumanDuration::ALLOWED, as_duration)
    }

    pub(super) fn positive_duration(&mut self, key: &Key, default: Duration) -> Duration {
        let allowed = format!("{}, more than zero", HumanDuration::ALLOWED);
        self.value(key, default, &allowed, |value| {
            as_duration(value).filter(|duration| !duration.is_zero())
        })
    }

    /// One of the names of `choices`.
    pub(super) fn choice<T: Copy>(&mut self, key: &Key, default: T, choices: &[(&str, T)]) -> T {
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("{name:?}"))
            .collect();
        self.value(key, default, &either(&names), |value| {
            let text = value.as_str()?;
            let (_, choice) = choices.iter().find(|(name, _)| *name == text)?;
            Some(*choice)
        })
    }

    /// Text that is not empty.
    pub(super) fn text(&mut self, key: &Key, default: &str, allowed: &str) -> String {
        self.value(key, default.to_owned(), allowed, |value| {
            value.as_str().filter(|text| is_clean(text)).map(Into::into)
        })
    }

    /// Text, where an empty one is as good as none.
    pub(super) fn optional_text(&mut self, key: &Key, allowed: &str) -> Option<String> {
        self.value(key, None, allowed, |value| {
            let text = value.as_str()?;
            (text.is_empty() || is_clean(text)).then(|| Some(text.to_owned()))
        })
        .filter(|text| !text.is_empty())
    }

    /// A path, made absolute.
    pub(super) fn path(&mut self, key: &Key, default: &str) -> PathBuf {
        let path = self.text(key, default, "a path");
        self.absolute(&path)
    }

    /// A path, made absolute, or none.
    pub(super) fn optional_path(&mut self, key: &Key) -> Option<PathBuf> {
        let path = self.optional_text(key, "a path, or \"\"")?;
        Some(self.absolute(&path))
    }

    /// A path seen from the folder of the configuration file, without `.` in it.
    pub(super) fn absolute(&self, path: &str) -> PathBuf {
        self.base.join(path).components().collect()
    }
}

/// A written value as a message may repeat it: an API key not at all, an address without its user.
fn shown_at(field: &str, value: &Value) -> String {
    if is_secret(field) {
        return "***".into();
    }
    match value.as_str() {
        Some(url) if field.ends_with("url") => address::without_user(url),
        _ => shown(value),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Not empty, and without control characters (a line break in a name is a slip of the hand).
fn is_clean(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "an integer that an f64 cannot hold is out of every range"
)]
fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        other => other.as_float(),
    }
}

pub(super) fn as_duration(value: &Value) -> Option<Duration> {
    let duration: HumanDuration = value.as_str()?.parse().ok()?;
    Some(duration.get())
}
