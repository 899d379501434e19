//! Pages, namespaces, searches and vectors.

use super::*;

#[test]
fn a_page_that_fails_fails_the_scroll() {
    let fake = Fake::start();
    fake.add(1..=9_000, &of_user("a"));
    let store = connect(&fake);
    let mut seen = 0;
    let result = store.scroll(Selector::All, &[], &mut |page| {
        seen += page.len();
        fake.state()
            .fail("scroll", [Status::internal("segment is broken")]);
        fake.state()
            .fail("scroll", [Status::internal("segment is broken")]);
        ControlFlow::Continue(())
    });
    assert!(
        matches!(&result, Err(VectorError::Refused { .. })),
        "{result:?}"
    );
    assert!(seen > 0 && seen < 9_000);
}

#[test]
fn every_point_comes_exactly_once() {
    let fake = Fake::start();
    fake.add(1..=9_001, &of_user("a"));
    let store = connect(&fake);
    let ids: Vec<_> = heads(&store, Selector::All, &[])
        .into_iter()
        .map(|head| head.id)
        .collect();
    assert_eq!(ids, numbers(1..=9_001));
    assert!(fake.state().count_calls("scroll") > 1);
    let mut pages = 0;
    store
        .scroll(Selector::All, &[], &mut |_| {
            pages += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(pages, 1);
}

#[test]
fn namespaces_come_from_a_facet_that_was_not_cut() {
    let fake = Fake::start();
    index(&fake, "namespace");
    let mut expected: Vec<_> = (0..100_000).map(|i| (format!("user:{i:06}"), i)).collect();
    fake.state().facets = expected.iter().rev().cloned().collect();
    fake.state().facets.push((String::new(), 7));
    let store = connect(&fake);
    assert!(store.describe().unwrap().namespace_indexed);
    assert_eq!(store.namespaces().unwrap(), expected);
    let limits: Vec<_> = {
        let state = fake.state();
        let facets = state.calls.iter().filter(|(name, _)| *name == "facet");
        facets.map(|(_, limit)| *limit).collect()
    };
    assert_eq!(limits, [10_000, 80_000, 640_000]);

    expected.truncate(10_000);
    fake.state().facets = expected.clone();
    assert_eq!(
        store.namespaces().unwrap(),
        expected,
        "exactly as many as the limit"
    );
}

#[test]
fn namespaces_come_from_a_scroll_where_there_is_no_facet() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("b"));
    fake.add(4..=5, &of_user("a"));
    fake.add(6..=6, &json!({"namespace": ""}));
    fake.add(7..=7, &json!({"other": "user:x"}));
    fake.add(8..=8, &json!({"namespace": 5}));
    fake.add(9..=9, &json!({"namespace": ["user:a", "user:c"]}));
    let expected = [("user:a".to_owned(), 2), ("user:b".to_owned(), 3)];
    let store = connect(&fake);
    assert_eq!(store.namespaces().unwrap(), expected);
    assert_eq!(fake.state().count_calls("facet"), 0);

    index(&fake, "namespace");
    let store = connect(&fake);
    fake.state()
        .fail("facet", [Status::invalid_argument("no facets here")]);
    assert_eq!(store.namespaces().unwrap(), expected);
    fake.state()
        .fail("facet", [Status::unauthenticated("key expired")]);
    assert!(
        store.namespaces().is_err(),
        "no second way around a refusal"
    );
}

#[test]
fn a_namespace_is_only_what_names_it_exactly() {
    let fake = Fake::start();
    fake.add([1], &json!({"namespace": "user:a", "m": {"doc": "x"}}));
    fake.add([2], &json!({"namespace": ["user:a"]}));
    fake.add([3], &json!({"namespace": ["user:a", "user:b"]}));
    fake.add([4], &of_user("b"));
    let store = connect(&fake);
    let found = heads(&store, Selector::Namespace("user:a"), &["m.doc"]);
    let found: Vec<_> = found
        .into_iter()
        .map(|head| (head.id, Value::Object(head.payload)))
        .collect();
    assert_eq!(
        found,
        [
            (PointId::Number(1), json!({"m.doc": "x"})),
            (PointId::Number(2), json!({}))
        ]
    );
}

#[test]
fn nobody_is_missing_null_or_empty() {
    let fake = Fake::start();
    let store = connect(&fake);
    store.count(Selector::WithoutNamespace).unwrap();
    let filter = fake.state().filter.take().unwrap();
    assert_eq!(filter.should.len(), 2, "{filter:?}");
    assert!(filter.must.is_empty());
    let text = format!("{filter:?}");
    assert!(
        text.contains("IsEmpty") && text.contains("Keyword(\"\")"),
        "{text}"
    );
    store.count(Selector::All).unwrap();
    assert_eq!(fake.state().filter, None);
}

#[test]
fn payload_is_searched_by_text_and_integer() {
    let fake = Fake::start();
    fake.add([1], &json!({"namespace": "user:a", "doc": "7"}));
    fake.add([2], &json!({"namespace": "user:a", "doc": 7}));
    fake.add([3], &json!({"namespace": "user:b", "doc": "7"}));
    fake.add([4], &json!({"namespace": "user:a", "doc": ["x", "7"]}));
    fake.add([5], &json!({"namespace": "user:a", "doc": "8"}));
    let store = connect(&fake);
    let values = ["7", "07", "none"].map(ToOwned::to_owned);
    let found = store.find("user:a", "doc", &values).unwrap();
    let expected = [1, 2, 4].map(|id| ("7".to_owned(), Some(PointId::Number(id))));
    assert_eq!(found, expected);
    let filter = format!("{:?}", fake.state().filter);
    assert!(filter.contains("integers: [7]"), "{filter}");
    assert_eq!(store.find("user:a", "doc", &[]).unwrap(), []);

    let refused = r#"Index required but not found for "doc" of one of the following types"#;
    fake.state()
        .fail("scroll", [Status::invalid_argument(refused)]);
    let error = store.find("user:a", "doc", &values).unwrap_err();
    assert!(
        matches!(&error, VectorError::MissingIndex { key } if key == "doc"),
        "{error}"
    );
    index(&fake, "doc");
    let store = connect(&fake);
    fake.state()
        .fail("scroll", [Status::invalid_argument(refused)]);
    assert_eq!(store.find("user:a", "doc", &values).unwrap(), expected);
}

#[test]
fn vectors_are_those_of_the_configured_name() {
    let fake = Fake::start();
    fake.state().info = collection_info([("text", 2), ("image", 3)]);
    fake.add_point(point(
        1,
        named([("text", dense(&[1.0, 2.0])), ("image", dense(&[3.0]))]),
    ));
    fake.add_point(point(2, named([("image", dense(&[3.0]))])));
    fake.add_point(point(3, named([("text", old(&[5.0, 6.0], None, None))])));
    fake.add_point(point(4, named([("text", sparse())])));
    let error = refusal(&fake).to_string();
    assert!(error.contains(r#"(it has "image", "text")"#), "{error}");
    let mut config = fake.config();
    config.vector = "text".to_owned();
    let store = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    let vectors = store.vectors(&numbers([1, 2, 3, 9])).unwrap();
    let expected = [(1, vec![1.0, 2.0]), (3, vec![5.0, 6.0])];
    assert_eq!(vectors, expected.map(|(id, v)| (PointId::Number(id), v)));
    assert!(matches!(
        store.vectors(&numbers([4])),
        Err(VectorError::Malformed(_))
    ));
}

#[test]
fn a_collection_describes_itself() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("a"));
    let described = connect(&fake).describe().unwrap();
    assert_eq!(
        described,
        Description {
            backend: "qdrant",
            version: "1.17.0".to_owned(),
            points: 3,
            dimensions: Some(2),
            distance: Some("Cosine".to_owned()),
            vectors: vec![String::new()],
            namespace_indexed: false,
        }
    );
}
