//! Secrets: where they come from, and that they go nowhere.

#![expect(
    clippy::disallowed_methods,
    reason = "files of a test need not be durable"
)]

use super::*;

#[test]
fn the_key_comes_from_the_file_then_the_credential_then_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let credential = folder.path().join("qdrant-api-key");
    let variable = Env {
        credentials_dir: Some(folder.path().to_owned()),
        qdrant_api_key: Some(" from-variable\n".into()),
    };
    let key = |text: &str, env: &Env| qdrant_of(&read_in(text, env).unwrap().stores[0]).api_key;
    assert_eq!(key(QDRANT, &Env::default()), None);
    assert_eq!(key(QDRANT, &variable).as_deref(), Some("from-variable"));
    std::fs::write(&credential, "from-credential\n").unwrap();
    assert_eq!(key(QDRANT, &variable).as_deref(), Some("from-credential"));
    assert_eq!(
        key(&with(QDRANT, "api_key = ''"), &variable).as_deref(),
        Some("from-credential")
    );
    assert_eq!(
        key(&with(QDRANT, "api_key = 'from-file'"), &variable).as_deref(),
        Some("from-file")
    );
    let blank = Env {
        credentials_dir: None,
        qdrant_api_key: Some(" ".into()),
    };
    assert_eq!(key(QDRANT, &blank), None);

    let remote = with(QDRANT, "url = 'http://example.org:6334'");
    let found = problems(read_in(&remote, &variable));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found
            .iter()
            .all(|problem| !problem.to_string().contains("from-")),
        "{found:?}"
    );

    std::fs::write(&credential, " \n").unwrap();
    let empty = problems(read_in(QDRANT, &variable));
    assert_eq!(
        empty[0].to_string(),
        format!(
            "store.a.vectors.api_key = {} (empty): allowed is a credential that can be read and holds the key",
            credential.display()
        )
    );
    std::fs::remove_file(&credential).unwrap();
    std::fs::create_dir(&credential).unwrap();
    let unreadable = problems(read_in(QDRANT, &variable));
    assert!(
        unreadable[0].to_string().contains("is a directory"),
        "{unreadable:?}"
    );
}

#[test]
fn no_key_is_ever_printed() {
    let config = valid(&with(QDRANT, "api_key = 'hunter2'"));
    assert!(!format!("{config:?}").contains("hunter2"));
    let number = read(&with(QDRANT, "api_key = 99999999999999999999"));
    let number = problems(number)[0].to_string();
    assert!(
        number.starts_with("store.a.vectors.api_key = ***"),
        "{number}"
    );
    for broken in [
        "api_key = 'hunter2",
        "api_key = hunter2",
        "apikey = 'hunter2'",
        "api_key = { key = 'hunter2' }",
        "api_key = ['hunter2']",
        "api_key = 'hunter2 '",
        "api_key = 'hunter2'\nurl = 'http://example.org'",
        "url = 'http://x:hunter2@example.org'",
        "[store.vectors.api_key]\nhunter = 'hunter2'",
    ] {
        let error = read(&with(QDRANT, broken)).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
