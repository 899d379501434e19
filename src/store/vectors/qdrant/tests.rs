use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::Duration;

use qdrant_client::qdrant::{
    self, DenseVector, MultiDenseVector, MultiVectorConfig, NamedVectorsOutput, PayloadSchemaInfo,
    RetrievedPoint, ShardKey, SparseIndices, SparseVector, UpdateStatus, VectorOutput,
    VectorsOutput, shard_key, vector_output, vectors_output,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::fake::{Fake, Fault, collection_info};
use super::*;
use crate::clock::Stopwatch;
use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::vectors::{Description, PointHead, Selector, VectorReader, VectorStore};

mod filter;

fn connect(fake: &Fake) -> QdrantVectors {
    QdrantVectors::connect(&fake.config(), "namespace", Stop::default()).unwrap()
}

fn refusal(fake: &Fake) -> VectorError {
    QdrantVectors::connect(&fake.config(), "namespace", Stop::default())
        .err()
        .expect("a refusal")
}

fn numbers(ids: impl IntoIterator<Item = u64>) -> Vec<PointId> {
    ids.into_iter().map(PointId::Number).collect()
}

fn heads(store: &QdrantVectors, of: Selector<'_>, keys: &[&str]) -> Vec<PointHead> {
    let mut heads = Vec::new();
    store
        .scroll(of, keys, &mut |page| {
            heads.extend(page);
            ControlFlow::Continue(())
        })
        .unwrap();
    heads
}

/// Copies of points, of which none is ambiguous.
fn copies(store: &QdrantVectors, ids: &[PointId]) -> Vec<PointImage> {
    let captured = store.capture(ids).unwrap();
    assert_eq!(captured.ambiguous, BTreeSet::new());
    captured.images
}

/// Copies points and removes them all.
fn take(store: &QdrantVectors, ids: &[PointId]) -> Vec<PointImage> {
    let images = copies(store, ids);
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    images
}

fn of_user(user: &str) -> Value {
    json!({ "namespace": format!("user:{user}") })
}

fn unavailable() -> Status {
    Status::unavailable("a node is restarting")
}

#[test]
fn a_write_that_is_not_completed_is_an_error() {
    for status in [UpdateStatus::Acknowledged, UpdateStatus::WaitTimeout] {
        let fake = Fake::start();
        fake.add([1], &of_user("a"));
        let store = connect(&fake);
        let images = copies(&store, &numbers([1]));
        fake.state().status = Some(status);
        let removed = store.remove(&images).map(|_| ());
        for result in [removed, store.put_back(&images)] {
            let error = result.unwrap_err();
            let VectorError::NotCompleted { status: said, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(said, status.as_str_name());
        }
    }
}

#[test]
fn a_removal_is_believed_only_when_the_points_are_gone() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("a"));
    let store = connect(&fake);
    let images = copies(&store, &numbers(1..=9));
    fake.state().deaf_deletes = 5;
    let error = store.remove(&images).unwrap_err();
    assert!(
        matches!(error, VectorError::StillThere { left: 3 }),
        "{error}"
    );
    assert_eq!(fake.state().count_calls("delete"), 5, "tried a few times");
    fake.state().deaf_deletes = 1;
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    assert!(fake.state().points.is_empty());
}

#[test]
fn what_is_transient_is_tried_again() {
    for status in [
        unavailable(),
        Status::deadline_exceeded("late"),
        Status::aborted("conflict"),
        Status::resource_exhausted("Rate limiting exceeded"),
    ] {
        let fake = Fake::start();
        fake.add(1..=2, &of_user("a"));
        let store = connect(&fake);
        // The client itself repeats a call on some of these: more of them than it would swallow.
        fake.state()
            .fail("count", [status.clone(), status.clone(), status.clone()]);
        assert_eq!(store.count(Selector::All).unwrap(), 2, "{status}");
        fake.state().fail("delete", [status.clone()]);
        take(&store, &numbers([1]));
    }
}

#[test]
fn a_server_that_stays_away_is_unreachable() {
    let fake = Fake::start();
    let store = connect(&fake);
    fake.state()
        .fail("count", std::iter::repeat_n(unavailable(), 20));
    let error = store.count(Selector::All).unwrap_err();
    assert!(
        matches!(&error, VectorError::Unreachable { reason, .. } if reason == "a node is restarting"),
        "{error}"
    );
    assert_eq!(
        fake.state().count_calls("count"),
        8,
        "four attempts, each sent twice"
    );
}

#[test]
fn nobody_there_is_unreachable_and_says_why() {
    let mut config = Fake::start().config();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    config.url = format!("http://me:secret@127.0.0.1:{port}");
    let error = QdrantVectors::connect(&config, "namespace", Stop::default())
        .err()
        .expect("a refusal");
    assert_eq!(
        error.to_string(),
        format!("reach the vector store at http://127.0.0.1:{port}: connection refused")
    );
    config.url = "not an address".to_owned();
    assert!(QdrantVectors::connect(&config, "namespace", Stop::default()).is_err());
}

#[test]
fn what_will_not_change_is_asked_once() {
    for (code, message, expected) in [
        (
            Code::Unauthenticated,
            "Invalid API key",
            "refuses the API key",
        ),
        (Code::PermissionDenied, "Forbidden", "refuses the API key"),
        (
            Code::NotFound,
            "Not found: Collection `memories` doesn't exist!",
            r#"collection "memories" (the server has "memories2", "other") not found in the vector store"#,
        ),
        (
            Code::InvalidArgument,
            r#"Bad request: Index required but not found for "namespace" of one of the following types"#,
            r#"refuses to filter by "namespace" without a payload index"#,
        ),
        (
            Code::InvalidArgument,
            "Wrong input: x\u{1b}[2J",
            "counting points of the vector store: Wrong input: x [2J",
        ),
        (Code::FailedPrecondition, "locked", "locked"),
    ] {
        let fake = Fake::start();
        let store = connect(&fake);
        fake.state().fail("count", [Status::new(code, message)]);
        let error = store.count(Selector::All).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(fake.state().count_calls("count"), 1, "{code:?}");
    }
}

#[test]
fn a_key_that_cannot_be_sent_is_not_printed() {
    let mut config = Fake::start().config();
    config.api_key = Some("se\ncret".to_owned());
    let error = QdrantVectors::connect(&config, "namespace", Stop::default())
        .err()
        .expect("a refusal");
    assert!(
        matches!(&error, VectorError::Unauthorized { .. }),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("cret"));
}

#[test]
fn an_answer_that_does_not_come_in_time_is_an_error() {
    let fake = Fake::start();
    let mut config = fake.config();
    config.timeout = Duration::from_millis(150);
    let store = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    let hang = std::iter::repeat_with(|| Fault::Hang).take(20).collect();
    fake.state().faults.insert("count", hang);
    let watch = Stopwatch::start();
    let error = store.count(Selector::All).unwrap_err();
    assert!(matches!(&error, VectorError::Timeout { .. }), "{error}");
    assert_eq!(fake.state().count_calls("count"), 4);
    assert!(watch.elapsed() < Duration::from_secs(6));
}

#[test]
fn a_stop_ends_a_call_that_hangs() {
    let fake = Fake::start();
    let stop = Stop::default();
    let store = QdrantVectors::connect(&fake.config(), "namespace", stop.clone()).unwrap();
    fake.state().faults.insert("count", [Fault::Hang].into());
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        stop.request();
        Stopwatch::start()
    });
    let error = store.count(Selector::All).unwrap_err();
    let since = stopper.join().unwrap().elapsed();
    assert!(matches!(error, VectorError::Interrupted), "{error}");
    assert!(since < Duration::from_millis(300), "{since:?}");
    let again = store.capture(&numbers([1])).unwrap_err();
    assert!(matches!(again, VectorError::Interrupted), "{again}");
    assert_eq!(fake.state().count_calls("get"), 0);
}

#[test]
fn a_stop_ends_the_wait_before_another_attempt() {
    let fake = Fake::start();
    let stop = Stop::default();
    let store = QdrantVectors::connect(&fake.config(), "namespace", stop.clone()).unwrap();
    fake.state()
        .fail("count", std::iter::repeat_n(unavailable(), 20));
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        stop.request();
        Stopwatch::start()
    });
    let error = store.count(Selector::All).unwrap_err();
    assert!(matches!(error, VectorError::Interrupted), "{error}");
    assert!(stopper.join().unwrap().elapsed() < Duration::from_millis(300));
}

#[test]
fn messages_that_are_too_large_are_halved() {
    let fake = Fake::start();
    fake.add(1..=1_300, &of_user("a"));
    fake.state().largest = Some(100);
    let store = connect(&fake);
    assert_eq!(heads(&store, Selector::All, &["namespace"]).len(), 1_300);
    let images = take(&store, &numbers(1..=1_300));
    assert_eq!(images.len(), 1_300);
    assert!(fake.state().points.is_empty());
    store.put_back(&images).unwrap();
    assert_eq!(fake.state().points.len(), 1_300);

    fake.state().largest = Some(0);
    let error = store.capture(&numbers([1])).unwrap_err();
    assert!(matches!(&error, VectorError::Refused { .. }), "{error}");
}

#[test]
fn removals_go_in_batches() {
    let fake = Fake::start();
    fake.add(1..=1_100, &of_user("a"));
    take(&connect(&fake), &numbers(1..=1_100));
    let state = fake.state();
    let sizes: Vec<_> = state
        .calls
        .iter()
        .filter(|(name, _)| *name == "delete")
        .map(|(_, size)| *size)
        .collect();
    assert_eq!(sizes, [500, 500, 100]);
}

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

fn index(fake: &Fake, key: &str) {
    let keyword = PayloadSchemaInfo {
        data_type: PayloadSchemaType::Keyword.into(),
        ..PayloadSchemaInfo::default()
    };
    fake.state()
        .info
        .payload_schema
        .insert(key.to_owned(), keyword);
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

fn dense(data: &[f32]) -> VectorOutput {
    output(vector_output::Vector::Dense(DenseVector {
        data: data.to_vec(),
    }))
}

fn output(vector: vector_output::Vector) -> VectorOutput {
    VectorOutput {
        vector: Some(vector),
        ..VectorOutput::default()
    }
}

fn multi(vectors: &[&[f32]]) -> VectorOutput {
    let vectors = vectors
        .iter()
        .map(|data| DenseVector {
            data: data.to_vec(),
        })
        .collect();
    output(vector_output::Vector::MultiDense(MultiDenseVector {
        vectors,
    }))
}

fn sparse() -> VectorOutput {
    output(vector_output::Vector::Sparse(SparseVector {
        values: vec![0.5, 1.5],
        indices: vec![3, 70_000],
    }))
}

/// A vector as servers before 1.16 sent it.
#[expect(deprecated, reason = "the fields of older servers")]
fn old(data: &[f32], indices: Option<Vec<u32>>, vectors_count: Option<u32>) -> VectorOutput {
    VectorOutput {
        data: data.to_vec(),
        indices: indices.map(|data| SparseIndices { data }),
        vectors_count,
        vector: None,
    }
}

fn point(id: u64, vectors: vectors_output::VectorsOptions) -> RetrievedPoint {
    RetrievedPoint {
        id: Some(id.into()),
        payload: HashMap::from([("n".to_owned(), (id.cast_signed()).into())]),
        vectors: Some(VectorsOutput {
            vectors_options: Some(vectors),
        }),
        ..RetrievedPoint::default()
    }
}

fn named<const N: usize>(vectors: [(&str, VectorOutput); N]) -> vectors_output::VectorsOptions {
    vectors_output::VectorsOptions::Vectors(NamedVectorsOutput {
        vectors: vectors.map(|(name, v)| (name.to_owned(), v)).into(),
    })
}

#[test]
fn what_is_put_back_has_every_vector_and_its_shard() {
    let single = vectors_output::VectorsOptions::Vector;
    let all = |sparse, multi| named([("", dense(&[1.0])), ("sparse", sparse), ("multi", multi)]);
    let flat = [0.5, 1.5];
    for (sent, kept) in [
        (single(dense(&[1.0, -0.0])), single(dense(&[1.0, -0.0]))),
        (single(old(&flat, None, None)), single(dense(&flat))),
        (
            all(
                old(&flat, Some(vec![3, 70_000]), None),
                old(&[1.0, 2.0, 3.0, 4.0], None, Some(2)),
            ),
            all(sparse(), multi(&[&[1.0, 2.0], &[3.0, 4.0]])),
        ),
        (
            all(sparse(), multi(&[&[1.0]])),
            all(sparse(), multi(&[&[1.0]])),
        ),
    ] {
        let fake = Fake::start();
        let mut sent = point(1, sent);
        sent.shard_key = Some(ShardKey {
            key: Some(shard_key::Key::Keyword("eu".to_owned())),
        });
        fake.add_point(sent.clone());
        let mut without_shard = point(2, single(dense(&[0.0])));
        without_shard.payload = HashMap::new();
        fake.add_point(without_shard.clone());
        let store = connect(&fake);
        let images = take(&store, &numbers([1, 2, 3]));
        assert_eq!(images.len(), 2);
        store.put_back(&images).unwrap();
        let back: Vec<_> = fake.state().points.values().cloned().collect();
        sent.vectors = point(1, kept).vectors;
        assert_eq!(back, [sent, without_shard]);
    }
}

#[test]
fn only_what_is_as_it_was_copied_is_removed() {
    let single = vectors_output::VectorsOptions::Vector;
    let was = || point(1, single(dense(&[1.0, f32::NAN])));
    let mut paid = was();
    paid.payload.insert("n".to_owned(), 2.into());
    let mut unpaid = was();
    unpaid.payload.clear();
    for (is_changed, now) in [
        (false, was()),
        (false, point(1, single(old(&[1.0, f32::NAN], None, None)))),
        (true, point(1, single(dense(&[1.0, 2.0])))),
        (true, point(1, named([("other", dense(&[1.0, f32::NAN]))]))),
        (true, point(1, single(multi(&[&[1.0, f32::NAN]])))),
        (true, point(1, single(sparse()))),
        (true, paid),
        (true, unpaid),
    ] {
        let fake = Fake::start();
        fake.add_point(was());
        fake.add([2], &of_user("a"));
        let store = connect(&fake);
        let images = copies(&store, &numbers([1, 2]));
        fake.add_point(now.clone());
        let expected = if is_changed { numbers([1]) } else { vec![] };
        let changed = store.changed(&images).unwrap();
        assert_eq!(changed, expected.iter().cloned().collect(), "{now:?}");
        let left = store.remove(&images).unwrap();
        assert_eq!(left, expected.into_iter().collect(), "{now:?}");
        assert_eq!(
            fake.state().points.len(),
            usize::from(is_changed),
            "{now:?}"
        );
    }
}

#[test]
fn a_point_that_is_written_anew_after_its_removal_is_left() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("a"));
    let store = connect(&fake);
    let images = copies(&store, &numbers(1..=3));
    let again = point(2, vectors_output::VectorsOptions::Vector(dense(&[9.0])));
    fake.state().after_delete = Some(again.clone());
    let left = store.remove(&images).unwrap();
    assert_eq!(left, numbers([2]).into_iter().collect());
    let points: Vec<_> = fake.state().points.values().cloned().collect();
    assert_eq!(points, std::slice::from_ref(&again));
    store.put_back(&images).unwrap();
    let points: Vec<_> = fake.state().points.values().cloned().collect();
    assert_eq!(points.len(), 3);
    assert_eq!(points[1], again, "what is there is not overwritten");
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let fake = Fake::start();
    fake.add(1..=2, &of_user("a"));
    let store = connect(&fake);
    let images = take(&store, &numbers([1, 2]));
    let swapped = PointImage {
        id: PointId::Number(2),
        namespace: None,
        body: images[0].body.clone(),
    };
    let damaged = PointImage {
        id: PointId::Number(1),
        namespace: None,
        body: images[0].body[1..].to_vec(),
    };
    let mut config = fake.config();
    config.collection = "others".to_owned();
    let other = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    for (store, image) in [(&store, &swapped), (&store, &damaged), (&other, &images[0])] {
        let error = store.put_back(std::slice::from_ref(image)).unwrap_err();
        assert!(matches!(&error, VectorError::Malformed(_)), "{error}");
    }
    assert_eq!(fake.state().count_calls("upsert"), 0);
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

#[test]
fn pages_are_bounded_by_bytes() {
    let mut info = collection_info([("a", 1_024), ("b", 128)]);
    let schema = Schema::from(info.clone());
    assert_eq!(schema.vector_bytes(), 4 * 1_152);
    let params = info.config.as_mut().unwrap().params.as_mut().unwrap();
    let Some(VectorsConfig::ParamsMap(map)) = &mut params.vectors_config.as_mut().unwrap().config
    else {
        panic!("named vectors");
    };
    map.map.get_mut("b").unwrap().multivector_config = Some(MultiVectorConfig::default());
    params.sparse_vectors_config = Some(qdrant::SparseVectorConfig {
        map: HashMap::from([("s".to_owned(), qdrant::SparseVectorParams::default())]),
    });
    let schema = Schema::from(info);
    assert_eq!(schema.vector_bytes(), 4 * 1_024 + 4 * 128 * 32 + 256 * 8);
    assert_eq!(page_of(4_096, 500), 500);
    assert_eq!(page_of(16_384, 500), 128);
    assert_eq!(page_of(1 << 30, 500), 1);
    assert_eq!(page_of(0, 500), 500);
}

#[test]
fn text_is_never_the_id_of_a_point() {
    let fake = Fake::start();
    fake.add([1], &of_user("a"));
    let store = connect(&fake);
    let ids = [PointId::Text("note-7".into())];
    assert_eq!(take(&store, &ids), []);
    let mut image = copies(&store, &numbers([1])).remove(0);
    image.id = ids[0].clone();
    assert_eq!(store.remove(&[image]).unwrap(), BTreeSet::new());
    assert_eq!(store.vectors(&ids).unwrap(), []);
    assert_eq!(fake.state().count_calls("delete"), 0);
}
