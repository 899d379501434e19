//! Messages: everything at once, each with its place.

#![expect(
    clippy::disallowed_methods,
    reason = "files of a test need not be durable"
)]

use std::fmt::Write as _;

use super::*;
use crate::config::Found;

#[test]
fn a_file_that_cannot_be_read_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hypnos.toml");
    let error = load(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("read the configuration {}", path.display())
    );
    std::fs::write(&path, MINIMAL).unwrap();
    let config = load(&path).unwrap();
    assert_eq!(
        Path::new(&config.stores[0].rows.path),
        folder.path().join("memory.db")
    );
    std::fs::write(&path, b"state_dir = '\xff'").unwrap();
    assert!(matches!(load(&path), Err(ConfigError::Read { .. })));
    assert!(matches!(
        parse(MINIMAL, Path::new(""), &Env::default()),
        Err(ConfigError::Read { .. })
    ));
}

/// Whole messages, as an operator reads them.
#[test]
fn messages_say_everything_at_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/invalid");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let error = read(&text).unwrap_err();
        let mut message = String::new();
        writeln!(message, "{error}").unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        insta::with_settings!({ snapshot_path => "../../testdata/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, message);
        });
    }
}

#[test]
fn an_unknown_key_keeps_its_place_among_the_problems() {
    let found = problems(read(&format!("stat_dir = 'x'\n{PLAIN}")));
    assert_eq!(found[0].field, "stat_dir");
    assert!(
        matches!(found[0].value, Found::UnknownKey(place) if place.line == 1 && place.column == 1)
    );
}

/// What only a preset would have said is not missed where its name is misspelt; what is wrong beside that is told.
#[test]
fn a_misspelt_preset_hides_no_problem_and_makes_none() {
    let text = with(
        PLAIN,
        "preset = 'mem0-qdrnt'\ncreated_at = 'at:epoch'\nnonesuch = 1\n[store.vectors]\nkind = 'qdrant'\nurl = 7",
    );
    let found = problems(read(&text));
    let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "store.a.rows.nonesuch",
            "store.a.rows.preset",
            "store.a.rows.created_at",
            "store.a.vectors.url"
        ]
    );
}
