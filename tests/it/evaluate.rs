//! `evaluate`: one JSON line on stdout, the line number of a bad file, and settings from the configuration.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const HEADER: &str = "id\ttext_a\ttext_b\tlabel\tlang\tcosine\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_hypnos"))
            .arg("evaluate")
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    fn measure(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stdout.lines().count(), 1, "{stdout}");
        serde_json::from_str(&stdout).unwrap()
    }
}

#[test]
fn contradictions_are_measured_without_a_configuration() {
    let folder = Folder::new();
    folder.write(
        "pairs.tsv",
        &format!(
            "{HEADER}p1\tAna eats meat\tAna does not eat meat\tCONTRADICTION\ten\t0.9\n\
             p2\tAna has two cats\tAna plays the harp\tNEUTRAL\ten\t0.1\n\
             p3\tAna likes tea\tThe shop is far\tCONTRADICTION\ten\t0.1\n"
        ),
    );
    let line = folder.measure(&["contradictions", "pairs.tsv", "--errors"]);
    for (field, count) in [("n", 3), ("tp", 1), ("fp", 0), ("fn", 1), ("tn", 1)] {
        assert_eq!(line[field], count, "{field}: {line}");
    }
    assert_eq!(line["precision"], 1.0);
    assert_eq!(line["recall"], 0.5);
    assert!((line["f1"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(line["false_negatives"], serde_json::json!(["p3"]));
    let none = folder.measure(&["contradictions", "pairs.tsv", "--threshold", "51"]);
    assert_eq!(none["tp"], 0, "{none}");
    assert!(none.get("false_negatives").is_none());
}

#[test]
fn duplicates_follow_the_cosine_and_the_guard() {
    let folder = Folder::new();
    folder.write(
        "pairs.tsv",
        &format!(
            "{HEADER}p1\tUser prefers dark mode\tThe user prefers dark mode\tDUPLICATE\ten\t0.90\n\
             p2\tprefers npm\tprefers pnpm\tDIFFERENT\ten\t0.99\n\
             p3\tAna likes tea\tana likes TEA.\tDUPLICATE\ten\t0.10\n"
        ),
    );
    let line = folder.measure(&["duplicates", "pairs.tsv"]);
    assert_eq!(
        (&line["tp"], &line["fp"], &line["fn"]),
        (&1.into(), &0.into(), &1.into())
    );
    let line = folder.measure(&["duplicates", "pairs.tsv", "--merge-at", "0.85"]);
    assert_eq!(
        (&line["tp"], &line["fp"], &line["fn"]),
        (&2.into(), &0.into(), &0.into())
    );
}

#[test]
fn settings_come_from_the_configuration() {
    let folder = Folder::new();
    folder.write(
        "pairs.tsv",
        &format!("{HEADER}p1\tAna eats meat\tAna does not eat meat\tCONTRADICTION\ten\t0.9\n"),
    );
    let store = |name: &str, threshold: u32| {
        format!(
            "[[store]]\nname = \"{name}\"\n[store.rows]\npath = \"{name}.db\"\npreset = \"ttl-days\"\n\
             [store.pass.contradictions]\nthreshold = {threshold}\n"
        )
    };
    let head = "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n";
    folder.write("one.toml", &format!("{head}{}", store("a", 60)));
    folder.write(
        "two.toml",
        &format!("{head}{}{}", store("a", 60), store("b", 40)),
    );
    let pairs = ["contradictions", "pairs.tsv", "--config"];
    let strict = folder.measure(&[&pairs[..], &["one.toml"]].concat());
    assert_eq!(strict["tp"], 0, "the store's own threshold is 60: {strict}");
    let which = folder.run(&[&pairs[..], &["two.toml"]].concat());
    assert_eq!(which.status.code(), Some(2), "{which:?}");
    let named = folder.measure(&[&pairs[..], &["two.toml", "--store", "b"]].concat());
    assert_eq!(named["tp"], 1, "{named}");
}

#[test]
fn a_bad_file_is_refused_with_the_line() {
    let folder = Folder::new();
    folder.write(
        "short.tsv",
        &format!("{HEADER}p1\tone\ttwo\tNEUTRAL\ten\t0.5\np2\tsecret words\n"),
    );
    for (args, message) in [
        (
            ["contradictions", "short.tsv"],
            "line 3: 2 columns where the header has 6",
        ),
        (["duplicates", "missing.tsv"], "missing.tsv"),
    ] {
        let output = folder.run(&args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
        assert!(output.stdout.is_empty());
        assert!(!stderr.contains("secret"), "no text leaves: {stderr}");
    }
    let nan = folder.run(&["duplicates", "short.tsv", "--merge-at", "nan"]);
    assert_eq!(nan.status.code(), Some(2), "{nan:?}");
}
