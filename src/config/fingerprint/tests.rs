use super::*;

fn fingerprint(toml: &str) -> Result<Fingerprint, String> {
    Fingerprint::read(&toml.parse().unwrap())
}

fn shape(tables: &[(&str, &str)], statements: &[&str]) -> Shape {
    let columns = |list: &str| {
        let columns = list.split(',').filter(|column| !column.is_empty());
        let split = |column: &str| match column.trim().split_once(' ') {
            Some((name, declared)) => (name.to_owned(), declared.to_owned()),
            None => (column.trim().to_owned(), String::new()),
        };
        columns.map(split).collect()
    };
    Shape {
        tables: tables
            .iter()
            .map(|(name, list)| ((*name).to_owned(), columns(list)))
            .collect(),
        statements: statements.iter().map(|sql| normal_sql(sql)).collect(),
    }
}

#[test]
fn all_that_must_be_there_decides_and_the_rest_only_weighs() {
    let memory = fingerprint(
        "absent = ['working_memory']\nddl = ['v using vec0(']\n[tables]\n\
         memories = 'id integer, Hash, version?, !embedding'\n'vectors | v' = ''",
    )
    .unwrap();
    let vec0 = "CREATE VIRTUAL TABLE \"v\"\n  USING vec0(e float[3])";
    let fit = |memories: &str, more: &[(&str, &str)], sql: &str| {
        let tables: Vec<_> = [("memories", memories)]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        memory.fit(&shape(&tables, &[sql]))
    };
    let v = ("v", "");
    assert_eq!(fit("id integer,hash,more", &[v], vec0), Fit::Yes(5));
    assert_eq!(fit("id integer,hash,version", &[v], vec0), Fit::Yes(6));
    assert_eq!(
        fit("id integer,hash", &[("vectors", "id")], vec0),
        Fit::Yes(5)
    );
    for (memories, more, sql, amiss) in [
        ("id text,hash", vec![v], vec0, "column memories.id"),
        ("id integer", vec![v], vec0, "column memories.hash"),
        (
            "id integer,hash,embedding",
            vec![v],
            vec0,
            "no column memories.embedding",
        ),
        ("id integer,hash", vec![], vec0, "table vectors or v"),
        (
            "id integer,hash",
            vec![v, ("working_memory", "id")],
            vec0,
            "no table working_memory",
        ),
        (
            "id integer,hash",
            vec![v],
            "CREATE TABLE v(e)",
            "a statement with \"v using vec0(\"",
        ),
    ] {
        assert_eq!(fit(memories, &more, sql), Fit::No(vec![amiss.to_owned()]));
    }
    assert!(matches!(memory.fit(&Shape::default()), Fit::No(amiss) if amiss.len() == 3));
    let renamed = |name: &str| memory.renamed(&shape(&[(name, "")], &[]));
    assert_eq!(renamed("v"), [("vectors".to_owned(), "v".to_owned())]);
    assert_eq!(renamed("vectors"), []);
}

#[test]
fn payloads_are_told_by_their_keys() {
    let points =
        fingerprint("payload = 'data, created_at | createdAt, hash?, !linked_memory_ids'").unwrap();
    let fit = |keys: &str| points.fit_payload(&keys.split(' ').map(str::to_owned).collect());
    assert_eq!(fit("data createdat hash x"), Fit::Yes(3));
    assert_eq!(fit("data created_at"), Fit::Yes(2));
    assert_eq!(
        fit("data"),
        Fit::No(vec!["key created_at or createdat".to_owned()])
    );
    assert_eq!(
        fit("data created_at linked_memory_ids"),
        Fit::No(vec!["no key linked_memory_ids".to_owned()])
    );
    assert!(
        matches!(points.fit(&shape(&[("data", "data")], &[])), Fit::No(_)),
        "no database fits"
    );
    let rows = fingerprint("[tables]\nmemories = 'id'").unwrap();
    assert!(matches!(
        rows.fit_payload(&BTreeSet::from(["id".to_owned()])),
        Fit::No(_)
    ));
}

#[test]
fn a_digest_is_that_of_its_text_or_tells_nothing() {
    let points = fingerprint("payload = 'data'\npayload_md5 = { hash = 'data' }").unwrap();
    let none = fingerprint("payload = 'data'").unwrap();
    for (payload, fits) in [
        (
            r#"{"data": "text", "hash": "1cb251ec0d568de6a929b520c4aed8d1"}"#,
            Some(true),
        ),
        (
            r#"{"data": "text", "hash": "1CB251EC0D568DE6A929B520C4AED8D1"}"#,
            Some(true),
        ),
        (
            r#"{"data": "Text", "hash": "1cb251ec0d568de6a929b520c4aed8d1"}"#,
            Some(false),
        ),
        (r#"{"data": "text", "hash": ""}"#, Some(false)),
        (r#"{"data": "text", "hash": 5}"#, None),
        (r#"{"data": "text"}"#, None),
        (r#"{"hash": "1cb251ec0d568de6a929b520c4aed8d1"}"#, None),
    ] {
        let payload = serde_json::from_str(payload).unwrap();
        assert_eq!(points.fits_digest(&payload), fits, "{payload:?}");
        assert_eq!(none.fits_digest(&payload), None);
    }
}

#[test]
fn a_fingerprint_that_is_misspelt_or_fits_everything_is_none() {
    for bad in [
        "",
        "[tables]",
        "[tables]\nmemories = ''",
        "[tables]\nmemories = 'id?, !x'",
        "[tables]\nmemories = 'id,'",
        "[tables]\nmemories = '!id?'",
        "[tables]\nmemories = ['id']",
        "payload = 'data?'",
        "payloads = 'data'",
        "payload = 'data'\npayload_md5 = 'hash'",
        "payload = 'data'\npayload_md5 = { hash = 'data', sum = 'data' }",
        "absent = ['x']",
        "ddl = 'x'",
        "encrypted = false",
        "payload = 'data'\ncollection = '*'",
        "payload = 'data'\ncollection = 'a*b'",
        "payload = 'data'\ncollection = '{user}x'",
    ] {
        assert!(fingerprint(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_collection_is_its_own_template_or_one_of_many() {
    let template = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().template(name);
    assert_eq!(
        template("openmemory", "openmemory").as_deref(),
        Some("openmemory")
    );
    assert_eq!(template("openmemory", "openmemory_entities"), None);
    assert_eq!(
        template("*_memories", "open-webui_memories").as_deref(),
        Some("open-webui_memories")
    );
    assert_eq!(template("*_memories", "_memories_files"), None);
    assert_eq!(template("*_memories", "memories"), None);
    let many = "*_user-memory-{tenant}";
    assert_eq!(
        template(many, "chat_user-memory-6f1d").as_deref(),
        Some("chat_user-memory-{tenant}")
    );
    assert_eq!(template(many, "chat_user-memory-"), None);
    assert_eq!(template(many, "chat_file-6f1d"), None);
    assert_eq!(
        template("m_{tenant}_v1", "m_ana_v1").as_deref(),
        Some("m_{tenant}_v1")
    );
    assert_eq!(template("m_{tenant}_v1", "x_m_ana_v1"), None);
}
