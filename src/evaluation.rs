//! Measuring the judgement of pairs against labels that people gave.
//!
//! Mechanics: a TSV file with a header that names at least `id`, `text_a`, `text_b`, `label` and `lang`, and perhaps
//! `cosine`, in any order; other columns are passed over. Each distinct text is analysed once, as in a store.
//!
//! Policy: a file is measured whole or not at all, so that a figure never stands for part of it. What comes out holds
//! ids and counts, no text.

use std::collections::HashMap;

use crate::config::{Contradictions, Duplicates};
use crate::pass::contradictions::Score;
use crate::text::{Analysis, Comparison, Context, verdict};

/// A labelled pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair<'a> {
    /// Its name in the file.
    pub id: &'a str,
    /// One text.
    pub a: &'a str,
    /// The other.
    pub b: &'a str,
    /// What people call it.
    pub label: &'a str,
    /// The language, as the file says; it decides only where the words do not.
    pub language: &'a str,
    /// The cosine of the vectors, where the file has it.
    pub cosine: Option<f32>,
}

/// Why a file cannot be measured.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairsError {
    /// The file has no header.
    #[error("line 1: no header")]
    Empty,
    /// The header lacks a column.
    #[error("line 1: no column named {0}")]
    NoColumn(&'static str),
    /// A line is shorter or longer than the header.
    #[error("line {line}: {found} columns where the header has {expected}")]
    Columns {
        /// Where.
        line: usize,
        /// Columns of the line.
        found: usize,
        /// Columns of the header.
        expected: usize,
    },
    /// A line without an id or a label.
    #[error("line {line}: no {column}")]
    Missing {
        /// Where.
        line: usize,
        /// Which column is empty.
        column: &'static str,
    },
    /// A cosine that is none.
    #[error("line {line}: the cosine is no number from -1 to 1")]
    Cosine {
        /// Where.
        line: usize,
    },
}

const COLUMNS: [&str; 5] = ["id", "text_a", "text_b", "label", "lang"];
/// How far rounding may carry a cosine beyond 1.
const ROUNDING: f32 = 1e-3;

/// Reads the pairs of a file.
///
/// # Errors
///
/// At the first line that is not as the header promises.
pub fn read(text: &str) -> Result<Vec<Pair<'_>>, PairsError> {
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    let (header, _) = lines.next().ok_or(PairsError::Empty)?;
    let names: Vec<&str> = header.split('\t').map(str::trim).collect();
    let place = |name: &'static str| {
        let place = names.iter().position(|known| *known == name);
        place.ok_or(PairsError::NoColumn(name))
    };
    let places = [
        place(COLUMNS[0])?,
        place(COLUMNS[1])?,
        place(COLUMNS[2])?,
        place(COLUMNS[3])?,
        place(COLUMNS[4])?,
    ];
    let cosine = place("cosine").ok();
    lines
        .map(|(text, line)| {
            let fields: Vec<&str> = text.split('\t').collect();
            if fields.len() != names.len() {
                return Err(PairsError::Columns {
                    line,
                    found: fields.len(),
                    expected: names.len(),
                });
            }
            pair(&fields, places, cosine, line)
        })
        .collect()
}

fn pair<'a>(
    fields: &[&'a str],
    places: [usize; 5],
    cosine: Option<usize>,
    line: usize,
) -> Result<Pair<'a>, PairsError> {
    let [id, a, b, label, language] = places.map(|place| fields[place]);
    for (value, column) in [(id, COLUMNS[0]), (label, COLUMNS[3])] {
        if value.trim().is_empty() {
            return Err(PairsError::Missing { line, column });
        }
    }
    let cosine = match cosine.map(|place| fields[place].trim()) {
        None | Some("") => None,
        Some(number) => {
            let number = number.parse::<f32>().ok();
            // Written so that NaN is refused.
            let number = number.filter(|cosine| cosine.abs() <= 1.0 + ROUNDING);
            Some(number.ok_or(PairsError::Cosine { line })?)
        }
    };
    Ok(Pair {
        id: id.trim(),
        a,
        b,
        label: label.trim(),
        language: language.trim(),
        cosine,
    })
}

/// How judgement and labels agree. Rates without a denominator are 0.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the standard names")]
pub struct Measure<'a> {
    pub n: u64,
    pub tp: u64,
    pub fp: u64,
    pub fn_: u64,
    pub tn: u64,
    /// Ids judged positive that are not.
    pub false_positives: Vec<&'a str>,
    /// Ids judged negative that are positive.
    pub false_negatives: Vec<&'a str>,
}

impl<'a> Measure<'a> {
    fn of(
        pairs: &[Pair<'a>],
        positive: &str,
        judge: impl Fn(&Comparison<'_>, Option<f32>) -> bool,
    ) -> Self {
        let mut texts = Texts::default();
        for pair in pairs {
            texts.add(pair.a, pair.language);
            texts.add(pair.b, pair.language);
        }
        let mut measure = Self {
            n: 0,
            tp: 0,
            fp: 0,
            fn_: 0,
            tn: 0,
            false_positives: Vec::new(),
            false_negatives: Vec::new(),
        };
        for pair in pairs {
            let context = Context {
                cosine: pair.cosine,
                frequencies: None,
            };
            let (a, b) = (
                texts.get(pair.a, pair.language),
                texts.get(pair.b, pair.language),
            );
            let judged = judge(&Comparison::of(a, b, context), pair.cosine);
            measure.count(pair.id, judged, pair.label.eq_ignore_ascii_case(positive));
        }
        measure
    }

    fn count(&mut self, id: &'a str, judged: bool, labelled: bool) {
        self.n += 1;
        match (judged, labelled) {
            (true, true) => self.tp += 1,
            (false, false) => self.tn += 1,
            (true, false) => {
                self.fp += 1;
                self.false_positives.push(id);
            }
            (false, true) => {
                self.fn_ += 1;
                self.false_negatives.push(id);
            }
        }
    }

    /// The share of the pairs judged positive that are.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.tp, self.tp + self.fp)
    }

    /// The share of the positive pairs that were found.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.tp, self.tp + self.fn_)
    }

    /// The harmonic mean of both.
    #[must_use]
    pub fn f1(&self) -> f64 {
        share(2 * self.tp, 2 * self.tp + self.fp + self.fn_)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines of a file")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The analyses of the texts of a file, each made once.
#[derive(Default)]
struct Texts<'a> {
    analyses: HashMap<(&'a str, &'a str), Analysis>,
}

impl<'a> Texts<'a> {
    fn add(&mut self, text: &'a str, language: &'a str) {
        self.analyses
            .entry((text, language))
            .or_insert_with(|| Analysis::with_language(text, Some(language)));
    }

    fn get(&self, text: &'a str, language: &'a str) -> &Analysis {
        &self.analyses[&(text, language)]
    }
}

/// Measures which pairs would be queued as contradictions.
#[must_use]
pub fn contradictions<'a>(pairs: &[Pair<'a>], settings: &Contradictions) -> Measure<'a> {
    Measure::of(pairs, "CONTRADICTION", |comparison, _| {
        Score::of(comparison, settings).is_contradiction(settings)
    })
}

/// Measures which pairs would be merged.
#[must_use]
pub fn duplicates<'a>(pairs: &[Pair<'a>], settings: &Duplicates) -> Measure<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "vectors have no more precision"
    )]
    let merge_at = settings.merge_at.get() as f32;
    Measure::of(pairs, "DUPLICATE", |comparison, cosine| {
        verdict(comparison).may_merge(cosine, merge_at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::default_passes;

    const PAIRS: &str = "id\ttext_a\ttext_b\tlabel\tlang\tcosine\n\
        1\tAna eats meat\tAna does not eat meat\tCONTRADICTION\ten\t0.9\n\
        2\tAna eats meat\tAna plays the harp\tNEUTRAL\ten\t0.2\n\
        3\tAna eats meat\tAna does not eat meat\tNEUTRAL\ten\t\n\
        4\tAna likes tea\tAna plays the harp\tCONTRADICTION\ten\t-0.1\n";

    #[test]
    fn judgement_is_held_against_the_labels() {
        let pairs = read(PAIRS).unwrap();
        assert_eq!(pairs[0].cosine, Some(0.9));
        assert_eq!(pairs[2].cosine, None);
        let measure = contradictions(&pairs, &default_passes().contradictions);
        assert_eq!(
            (measure.n, measure.tp, measure.fp, measure.fn_, measure.tn),
            (4, 1, 1, 1, 1)
        );
        assert_eq!(measure.false_positives, ["3"]);
        assert_eq!(measure.false_negatives, ["4"]);
        assert!((measure.f1() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn equal_texts_are_duplicates_without_a_cosine() {
        let text = "lang\tlabel\tid\ttext_b\ttext_a\textra\r\nen\tDUPLICATE\t1\tAna likes tea\tana likes tea.\tx\r\n";
        let pairs = read(text).unwrap();
        let measure = duplicates(&pairs, &default_passes().duplicates);
        assert_eq!((measure.tp, measure.n), (1, 1));
        assert!((measure.precision() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_file_that_breaks_its_promise_is_refused_with_the_line() {
        let header = "id\ttext_a\ttext_b\tlabel\tlang\tcosine\n";
        for (text, expected) in [
            (String::new(), "line 1: no header"),
            ("id\ttext_a\n".to_owned(), "line 1: no column named text_b"),
            (
                format!("{header}1\ta\tb\tX\ten\n"),
                "line 2: 5 columns where the header has 6",
            ),
            (
                format!("{header}1\ta\tb\tX\ten\t0\n\n2\ta\tb\t\ten\t0\n"),
                "line 4: no label",
            ),
            (
                format!("{header}1\ta\tb\tX\ten\tNaN\n"),
                "line 2: the cosine is no number from -1 to 1",
            ),
            (
                format!("{header}1\ta\tb\tX\ten\t1.5\n"),
                "line 2: the cosine is no number from -1 to 1",
            ),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn nothing_measured_gives_no_rate() {
        let measure = contradictions(&[], &default_passes().contradictions);
        assert_eq!(
            (measure.precision(), measure.recall(), measure.f1()),
            (0.0, 0.0, 0.0)
        );
    }
}
