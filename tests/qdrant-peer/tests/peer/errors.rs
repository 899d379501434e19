//! Refusals, in the server's words.

use qdrant_client::qdrant::{
    CountPointsBuilder, CreateCollectionBuilder, DeletePointsBuilder, Distance, GetPointsBuilder,
    PointStruct, PointsIdsList, QueryPointsBuilder, RecommendPointsBuilder, ScrollPointsBuilder,
    UpsertPointsBuilder, VectorParamsBuilder,
};
use qdrant_peer::{Code, Peer, PeerOptions};
use serde_json::json;

use crate::{NAME, client, client_at, create, numbers, payload, refusal, with_collection};

#[tokio::test]
async fn a_missing_collection_is_not_found_by_any_method() {
    let peer = Peer::start();
    let client = client(&peer);
    let expected = (
        Code::NotFound,
        "Not found: Collection `memories` doesn't exist!".to_owned(),
    );
    let ids = || numbers([1]);
    assert_eq!(refusal(client.collection_info(NAME).await), expected);
    assert_eq!(
        refusal(client.get_points(GetPointsBuilder::new(NAME, ids())).await),
        expected
    );
    assert_eq!(
        refusal(client.scroll(ScrollPointsBuilder::new(NAME)).await),
        expected
    );
    assert_eq!(
        refusal(client.count(CountPointsBuilder::new(NAME)).await),
        expected
    );
    assert_eq!(refusal(client.list_snapshots(NAME).await), expected);
    let delete = DeletePointsBuilder::new(NAME).points(PointsIdsList { ids: ids() });
    assert_eq!(
        refusal(client.delete_points(delete.wait(true)).await),
        expected
    );
    let upsert = UpsertPointsBuilder::new(
        NAME,
        vec![PointStruct::new(1, vec![1.0], payload(json!({})))],
    );
    assert_eq!(refusal(client.upsert_points(upsert).await), expected);
}

#[tokio::test]
async fn a_collection_is_created_once_and_with_a_name() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let named = |name: &str| {
        CreateCollectionBuilder::new(name)
            .vectors_config(VectorParamsBuilder::new(2, Distance::Dot))
    };
    let (code, message) = refusal(client.create_collection(named(NAME)).await);
    assert_eq!(code, Code::AlreadyExists);
    assert_eq!(
        message,
        "Wrong input: Collection `memories` already exists!"
    );
    for name in ["", "a/b", "..", "a\\b"] {
        let (code, _) = refusal(client.create_collection(named(name)).await);
        assert_eq!(code, Code::InvalidArgument, "{name}");
    }
}

#[tokio::test]
async fn vectors_that_do_not_fit_are_wrong_input() {
    let (_peer, client) = with_collection(4, Distance::Dot).await;
    let upsert = async |point: PointStruct| {
        let request = UpsertPointsBuilder::new(NAME, vec![point]).wait(true);
        refusal(client.upsert_points(request).await)
    };
    let empty = || payload(json!({}));
    let (code, message) = upsert(PointStruct::new(1, vec![1.0, 2.0, 3.0], empty())).await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(
        message,
        "Wrong input: Vector dimension error: expected dim: 4, got 3"
    );
    let named = std::collections::HashMap::from([("text".to_owned(), vec![1.0; 4])]);
    let (code, message) = upsert(PointStruct::new(1, named, empty())).await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(message, "Wrong input: Not existing vector name error: text");
    let none = PointStruct {
        id: Some(1.into()),
        ..PointStruct::default()
    };
    assert_eq!(
        upsert(none).await,
        (Code::InvalidArgument, "Expected some vectors".to_owned())
    );
    let no_uuid = PointStruct::new("not a uuid", vec![1.0; 4], empty());
    let (code, message) = upsert(no_uuid).await;
    assert_eq!(
        (code, message.as_str()),
        (Code::InvalidArgument, "Unable to parse UUID: not a uuid")
    );
    let query = QueryPointsBuilder::new(NAME).query(vec![1.0]);
    let (code, _) = refusal(client.query(query).await);
    assert_eq!(code, Code::InvalidArgument);
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    assert_eq!(count.result.unwrap().count, 0);
}

#[tokio::test]
async fn the_key_is_asked_for_except_for_health() {
    let peer = Peer::start_with(PeerOptions {
        api_key: Some("secret".to_owned()),
        ..PeerOptions::default()
    });
    let without = client(&peer);
    let (code, message) = refusal(without.list_collections().await);
    assert_eq!(code, Code::Unauthenticated);
    assert_eq!(
        message,
        "Must provide an API key or an Authorization bearer token"
    );
    without.health_check().await.unwrap();
    let wrong = client_at(&peer.url(), Some("guess"));
    let (code, message) = refusal(wrong.list_collections().await);
    assert_eq!(code, Code::Unauthenticated);
    assert_eq!(message, "Invalid API key or JWT");
    let right = client_at(&peer.url(), Some("secret"));
    create(&right, 2, Distance::Dot).await;
    assert_eq!(right.list_collections().await.unwrap().collections.len(), 1);
}

#[tokio::test]
async fn what_is_missing_says_so() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let recommend = RecommendPointsBuilder::new(NAME, 3);
    let (code, message) = refusal(client.recommend(recommend).await);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains("recommend"), "{message}");
}

#[tokio::test]
async fn a_page_of_nothing_is_refused() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let (code, message) = refusal(client.scroll(ScrollPointsBuilder::new(NAME).limit(0)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(
        message,
        "Validation error in body: [limit: value 0 invalid, must be 1 or larger]"
    );
}

#[tokio::test]
async fn long_messages_are_cut_off_where_a_proxy_would() {
    let peer = Peer::start_with(PeerOptions {
        max_message_bytes: Some(100_000),
        ..PeerOptions::default()
    });
    let client = client(&peer);
    create(&client, 1_000, Distance::Dot).await;
    for id in 0..50 {
        let point = PointStruct::new(id, vec![1.0; 1_000], payload(json!({})));
        let request = UpsertPointsBuilder::new(NAME, vec![point]).wait(true);
        client.upsert_points(request).await.unwrap();
    }
    let page = |limit| {
        ScrollPointsBuilder::new(NAME)
            .limit(limit)
            .with_vectors(true)
    };
    assert_eq!(client.scroll(page(20)).await.unwrap().result.len(), 20);
    let (code, _) = refusal(client.scroll(page(50)).await);
    assert_eq!(code, Code::OutOfRange);
    let many = (0..50).map(|id| PointStruct::new(id, vec![1.0; 1_000], payload(json!({}))));
    let request = UpsertPointsBuilder::new(NAME, many.collect::<Vec<_>>()).wait(true);
    let (code, _) = refusal(client.upsert_points(request).await);
    assert_eq!(code, Code::OutOfRange);
}
