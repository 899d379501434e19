//! Single calls: what is tried again, how long, and what a failure says.

use super::*;

fn unavailable() -> Status {
    Status::unavailable("a node is restarting")
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

/// A server that answers everybody with the same bytes, for as long as the test runs.
fn answering(answer: &'static [u8]) -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for line in listener.incoming() {
            let mut line = line.unwrap();
            let mut asked = [0; 1_024];
            drop(line.read(&mut asked));
            drop(line.write_all(answer));
        }
    });
    port
}

#[test]
fn a_wrong_scheme_is_told() {
    // What a TLS server says to plain text, and what a plain one says to TLS: of HTTP/1, and of HTTP/2.
    let alert: &[u8] = &[21, 3, 3, 0, 2, 2, 50];
    let refusal: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let goaway: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for (scheme, answer, told) in [
        ("http", alert, scheme::IS_TLS),
        ("https", refusal, scheme::IS_PLAIN),
        ("https", goaway, scheme::IS_PLAIN),
    ] {
        let mut config = Fake::start().config();
        config.url = format!("{scheme}://127.0.0.1:{}", answering(answer));
        config.rest_url.clone_from(&config.url);
        let error = QdrantVectors::connect(&config, "namespace", Stop::default());
        let error = error.err().expect("no connection").to_string();
        assert!(error.ends_with(told), "{scheme}: {error}");
        let error = snapshot::reach(&config, &Stop::default()).unwrap_err();
        assert!(error.to_string().ends_with(told), "{scheme}: {error}");
    }
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
    // Long enough for each of the four to arrive on a busy machine.
    config.timeout = Duration::from_secs(1);
    let store = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    let hang = std::iter::repeat_with(|| Fault::Hang).take(20).collect();
    fake.state().faults.insert("count", hang);
    let watch = Stopwatch::start();
    let error = store.count(Selector::All).unwrap_err();
    assert!(matches!(&error, VectorError::Timeout { .. }), "{error}");
    assert_eq!(fake.state().count_calls("count"), 4);
    // The bound of the channel is five seconds longer, four times.
    assert!(watch.elapsed() < Duration::from_secs(20));
}

/// Asks a call to stop once the server was asked to count. It ends long before it would without that.
fn stopped_at<T>(fake: &Fake, stop: &Stop, call: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let stopper = scope.spawn(|| {
            let watch = Stopwatch::start();
            while fake.state().count_calls("count") == 0 && watch.elapsed().as_secs() < 60 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.request();
            Stopwatch::start()
        });
        let done = call();
        let took = stopper.join().unwrap().elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        done
    })
}

#[test]
fn a_stop_ends_a_call_that_hangs() {
    let fake = Fake::start();
    let stop = Stop::default();
    let store = QdrantVectors::connect(&fake.config(), "namespace", stop.clone()).unwrap();
    fake.state().faults.insert("count", [Fault::Hang].into());
    let error = stopped_at(&fake, &stop, || store.count(Selector::All).unwrap_err());
    assert!(matches!(error, VectorError::Interrupted), "{error}");
    let again = store.capture(&numbers([1])).unwrap_err();
    assert!(matches!(again, VectorError::Interrupted), "{again}");
    assert_eq!(fake.state().count_calls("get"), 0);
}

#[test]
fn a_stop_ends_the_wait_before_another_attempt() {
    let fake = Fake::start();
    let stop = Stop::default();
    let store = QdrantVectors::connect(&fake.config(), "namespace", stop.clone()).unwrap();
    // It asks for a minute, and gets the ten seconds that are waited at most.
    let mut busy = Status::resource_exhausted("Rate limiting exceeded");
    busy.metadata_mut()
        .insert("retry-after", "60".parse().unwrap());
    fake.state().fail("count", [busy]);
    let error = stopped_at(&fake, &stop, || store.count(Selector::All).unwrap_err());
    assert!(matches!(error, VectorError::Interrupted), "{error}");
    assert_eq!(fake.state().count_calls("count"), 1);
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
