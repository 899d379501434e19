//! Strict mode.

use qdrant_client::Qdrant;
use qdrant_client::qdrant::{
    Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
    DeletePointsBuilder, Distance, FieldType, Filter, ScrollPointsBuilder, UpdateCollectionBuilder,
    UpsertPointsBuilder, VectorParamsBuilder,
};
use qdrant_peer::{Code, Peer, PeerOptions, StrictModeConfig};
use serde_json::json;

use crate::{NAME, client, create, point, refusal, upsert};

fn mode() -> StrictModeConfig {
    StrictModeConfig {
        enabled: Some(true),
        max_query_limit: Some(100),
        unindexed_filtering_retrieve: Some(false),
        unindexed_filtering_update: Some(false),
        upsert_max_batchsize: Some(3),
        ..StrictModeConfig::default()
    }
}

/// A peer that creates its collections in strict mode.
async fn strict() -> (Peer, Qdrant) {
    let peer = Peer::start_with(PeerOptions {
        strict_mode: Some(mode()),
        ..PeerOptions::default()
    });
    let client = client(&peer);
    create(&client, 2, Distance::Dot).await;
    (peer, client)
}

fn required(key: &str, types: &str) -> (Code, String) {
    let message = format!(
        "Bad request: Index required but not found for \"{key}\" of one of the following types: [{types}]. Help: Create \
         an index for this key or use a different filter."
    );
    (Code::InvalidArgument, message)
}

#[tokio::test]
async fn filters_need_an_index_of_the_right_type() {
    let (_peer, client) = strict().await;
    upsert(&client, vec![point(1, json!({"ns": "a"}))]).await;
    let by = |condition: Condition| Filter::must([condition]);
    let ns = || by(Condition::matches("ns", "a".to_owned()));
    let scroll = |filter| ScrollPointsBuilder::new(NAME).filter(filter);
    assert_eq!(
        refusal(client.scroll(scroll(ns())).await),
        required("ns", "keyword")
    );
    let count = CountPointsBuilder::new(NAME).filter(ns());
    assert_eq!(
        refusal(client.count(count).await),
        required("ns", "keyword")
    );
    let delete = DeletePointsBuilder::new(NAME).points(ns()).wait(true);
    assert_eq!(
        refusal(client.delete_points(delete.clone()).await),
        required("ns", "keyword")
    );
    let empty = Filter::must_not([Condition::is_empty("ns")]);
    let all = "bool, datetime, float, geo, integer, keyword, text, uuid";
    assert_eq!(
        refusal(client.scroll(scroll(empty.clone())).await),
        required("ns", all)
    );
    let nested = by(Condition::nested("deep", by(Condition::matches("n", 1))));
    assert_eq!(
        refusal(client.scroll(scroll(nested)).await),
        required("deep.n", "integer")
    );

    let index = CreateFieldIndexCollectionBuilder::new(NAME, "ns", FieldType::Keyword).wait(true);
    client.create_field_index(index).await.unwrap();
    assert_eq!(client.scroll(scroll(ns())).await.unwrap().result.len(), 1);
    assert_eq!(client.scroll(scroll(empty)).await.unwrap().result.len(), 1);
    let number = by(Condition::matches("ns", 1));
    assert_eq!(
        refusal(client.scroll(scroll(number)).await),
        required("ns", "integer")
    );
    client.delete_points(delete).await.unwrap();
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    assert_eq!(count.result.unwrap().count, 0);
}

#[tokio::test]
async fn limits_are_kept() {
    let (_peer, client) = strict().await;
    let page = |limit| ScrollPointsBuilder::new(NAME).limit(limit);
    client.scroll(page(100)).await.unwrap();
    let (code, message) = refusal(client.scroll(page(101)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(
        message,
        "Bad request: Limit exceeded 101 > 100 for \"limit\". Help: Reduce the \"limit\" parameter to or below 100."
    );
    let points = (0..4).map(|id| point(id, json!({}))).collect::<Vec<_>>();
    let request = UpsertPointsBuilder::new(NAME, points).wait(true);
    let (_, message) = refusal(client.upsert_points(request).await);
    assert!(
        message.starts_with("Bad request: Limit exceeded 4 > 3 for \"upsert limit\"."),
        "{message}"
    );
}

#[tokio::test]
async fn a_limit_that_is_not_enforced_is_refused() {
    let (_peer, client) = strict().await;
    let mode = StrictModeConfig {
        max_points_count: Some(5),
        ..StrictModeConfig::default()
    };
    let update = UpdateCollectionBuilder::new(NAME).strict_mode_config(mode.clone());
    let (code, _) = refusal(client.update_collection(update).await);
    assert_eq!(code, Code::Unimplemented);
    let create = CreateCollectionBuilder::new("other")
        .vectors_config(VectorParamsBuilder::new(2, Distance::Dot))
        .strict_mode_config(mode);
    let (code, _) = refusal(client.create_collection(create).await);
    assert_eq!(code, Code::Unimplemented);
}

#[tokio::test]
async fn strict_mode_can_be_switched_off() {
    let (_peer, client) = strict().await;
    let off = StrictModeConfig {
        enabled: Some(false),
        ..StrictModeConfig::default()
    };
    let update = UpdateCollectionBuilder::new(NAME).strict_mode_config(off);
    client.update_collection(update).await.unwrap();
    client
        .scroll(ScrollPointsBuilder::new(NAME).limit(101))
        .await
        .unwrap();
    let config = client
        .collection_info(NAME)
        .await
        .unwrap()
        .result
        .unwrap()
        .config
        .unwrap();
    let expected = StrictModeConfig {
        enabled: Some(false),
        ..mode()
    };
    assert_eq!(config.strict_mode_config, Some(expected));
}
