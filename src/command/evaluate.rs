//! `hypnos evaluate`: the operator's own labelled pairs, judged as a night would judge them.

use std::path::Path;

use serde::Serialize;

use crate::cli::{Evaluate, Global};
use crate::config::{self, Passes};
use crate::error::Failure;
use crate::evaluation::{self, Measure, Pair};
use crate::exit::Exit;
use crate::output::Out;

/// Measures, and prints one object.
pub(super) fn evaluate(what: &Evaluate, global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    match what {
        Evaluate::Contradictions {
            pairs,
            threshold,
            common,
        } => {
            let mut settings = settings(common.store.as_deref(), global)?.contradictions;
            settings.threshold = threshold.unwrap_or(settings.threshold);
            let text = load(pairs)?;
            let pairs = parse(pairs, &text)?;
            let measure = evaluation::contradictions(&pairs, &settings);
            print("contradictions", &measure, common.errors, out);
        }
        Evaluate::Duplicates {
            pairs,
            merge_at,
            common,
        } => {
            let mut settings = settings(common.store.as_deref(), global)?.duplicates;
            settings.merge_at = merge_at.unwrap_or(settings.merge_at);
            let text = load(pairs)?;
            let pairs = parse(pairs, &text)?;
            if !pairs.is_empty() && pairs.iter().all(|pair| pair.cosine.is_none()) {
                tracing::warn!("no cosine column: only pairs of equal text count as merged");
            }
            let measure = evaluation::duplicates(&pairs, &settings);
            print("duplicates", &measure, common.errors, out);
        }
    }
    Ok(Exit::Done)
}

/// The settings of the named store, of the only one, or the defaults where there is no configuration.
fn settings(store: Option<&str>, global: &Global) -> Result<Passes, Failure> {
    if global.config.is_none() && store.is_none() && !super::has_default_config() {
        return Ok(config::default_passes());
    }
    let config = super::load(global)?;
    let names: Vec<String> = store.into_iter().map(str::to_owned).collect();
    super::check_store_names(&config, &names)?;
    let mut candidates = config
        .stores
        .iter()
        .filter(|known| store.is_none_or(|name| known.name == name));
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => Ok(only.passes.clone()),
        (None, _) => Ok(config::default_passes()),
        (Some(_), Some(_)) => Err(Failure::new(
            Exit::Usage,
            "the configuration has several stores, each with its own settings",
        )
        .with_hint("name the one to evaluate with --store")),
    }
}

fn load(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Usage, format!("read {}: {error}", path.display())))
}

fn parse<'a>(path: &Path, text: &'a str) -> Result<Vec<Pair<'a>>, Failure> {
    evaluation::read(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("read {}: {error}", path.display()))
            .with_hint("the header is: id text_a text_b label lang [cosine], parted by tabs")
    })
}

#[derive(Serialize)]
struct Line<'a> {
    what: &'a str,
    n: u64,
    tp: u64,
    fp: u64,
    r#fn: u64,
    tn: u64,
    precision: f64,
    recall: f64,
    f1: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    false_positives: Option<&'a [&'a str]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    false_negatives: Option<&'a [&'a str]>,
}

fn print(what: &str, measure: &Measure<'_>, with_errors: bool, out: &mut Out) {
    let line = Line {
        what,
        n: measure.n,
        tp: measure.tp,
        fp: measure.fp,
        r#fn: measure.fn_,
        tn: measure.tn,
        precision: measure.precision(),
        recall: measure.recall(),
        f1: measure.f1(),
        false_positives: with_errors.then_some(&measure.false_positives),
        false_negatives: with_errors.then_some(&measure.false_negatives),
    };
    out.object("evaluation", &line);
}
