use super::*;
use crate::config::{Scoring, default_passes};
use crate::text::{APART, Analysis, Comparison as Texts, Context, SAME, verdict};

fn settings() -> config::Contradictions {
    default_passes().contradictions
}

/// Flags whatever any setting flags.
fn lowest() -> config::Contradictions {
    config::Contradictions {
        threshold: 1,
        topic_weight: 100,
        ..settings()
    }
}

/// Fails when a pair that the scanner would queue could be merged at one of these cosines; tells whether it would queue it.
fn never_both(a: &Analysis, b: &Analysis, cosines: &[Option<f32>], what: &str) -> bool {
    let sum = config::Contradictions {
        scoring: Scoring::Sum,
        ..lowest()
    };
    let mut is_queued = false;
    for cosine in cosines.iter().copied() {
        for (a, b) in [(a, b), (b, a)] {
            let context = Context {
                cosine,
                frequencies: None,
            };
            let pair = Texts::of(a, b, context);
            let queued = [&settings(), &lowest(), &sum]
                .iter()
                .any(|settings| Score::of(&pair, settings).is_contradiction(settings));
            let merged = verdict(&pair).may_merge(cosine, -1.0);
            assert!(!(queued && merged), "{what} at {cosine:?}");
            is_queued |= queued;
        }
    }
    is_queued
}

const COSINES: [Option<f32>; 6] = [
    None,
    Some(-1.0),
    Some(0.0),
    Some(0.7),
    Some(0.92),
    Some(1.0),
];

#[test]
fn no_labelled_pair_that_would_be_queued_is_ever_merged() {
    let mut queued = 0;
    for (a, b) in APART.iter().chain(SAME) {
        let texts = (Analysis::of(a), Analysis::of(b));
        queued += usize::from(never_both(
            &texts.0,
            &texts.1,
            &COSINES,
            &format!("{a} | {b}"),
        ));
    }
    assert!(queued > 20, "only {queued} of the pairs were queued at all");
    for (a, b) in SAME {
        let texts = (Analysis::of(a), Analysis::of(b));
        assert!(!never_both(&texts.0, &texts.1, &COSINES, a), "{a} | {b}");
    }
}

/// The same over every labelled set of a folder (`HYPNOS_TEST_PAIRS`): files as `hypnos evaluate` reads them.
#[test]
fn no_pair_of_a_labelled_set_is_both_queued_and_merged() {
    let Some(folder) = std::env::var_os("HYPNOS_TEST_PAIRS") else {
        println!("HYPNOS_TEST_PAIRS names no folder of labelled pairs: not tested with them");
        return;
    };
    let mut pairs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_labelled = text.starts_with("id\ttext_a\ttext_b\tlabel\t");
        for line in text.lines().skip(1).filter(|_| is_labelled) {
            let fields: Vec<&str> = line.split('\t').collect();
            let texts = (Analysis::of(fields[1]), Analysis::of(fields[2]));
            never_both(&texts.0, &texts.1, &COSINES, line);
            pairs += 1;
        }
    }
    assert!(pairs > 0, "the folder holds no labelled pair");
}

/// A memory of the demo.
struct Planted {
    key: String,
    owner: String,
    text: Analysis,
    kind: String,
    to: String,
}

fn demo() -> Vec<Planted> {
    let lines = include_str!("../../demo/memories.jsonl").lines();
    let planted = lines.map(|line| {
        let memory: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Planted {
            key: word(&memory["key"]),
            owner: word(&memory["owner"]),
            text: Analysis::of(&word(&memory["text"])),
            kind: word(&memory["plant"]["kind"]),
            to: word(&memory["plant"]["to"]),
        }
    });
    planted.collect()
}

#[test]
fn no_pair_of_the_demo_that_would_be_queued_is_ever_merged_and_what_was_planted_is_queued() {
    let memories = demo();
    let settings = settings();
    let mut planted = 0;
    for (at, a) in memories.iter().enumerate() {
        for b in memories[..at].iter().filter(|b| b.owner == a.owner) {
            let what = format!("{} {}", a.key, b.key);
            never_both(&a.text, &b.text, &[None, Some(1.0)], &what);
            if a.kind == "contradiction" && a.to == b.key {
                let pair = Texts::of(&a.text, &b.text, Context::default());
                assert!(
                    Score::of(&pair, &settings).is_contradiction(&settings),
                    "{what}"
                );
                planted += 1;
            }
        }
    }
    assert_eq!(planted, 12);
}

#[test]
fn the_name_of_the_settings_changes_with_each_of_them() {
    let changes: [fn(&mut config::Contradictions); 7] = [
        |_| {},
        |settings| settings.window *= 2,
        |settings| settings.threshold += 1,
        |settings| settings.weights.negation += 1,
        |settings| settings.weights.temporal += 1,
        |settings| settings.topic_weight += 1,
        |settings| settings.scoring = Scoring::Sum,
    ];
    let names: HashSet<Version> = changes
        .iter()
        .map(|change| {
            let mut settings = settings();
            change(&mut settings);
            fingerprint(&settings)
        })
        .collect();
    assert_eq!(names.len(), changes.len());
    let off = config::Contradictions {
        enabled: false,
        ..settings()
    };
    assert!(names.contains(&fingerprint(&off)));
}
