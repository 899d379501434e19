//! Collections, aliases, indexes, and what survives a restart.

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionStatus, CountPointsBuilder, CreateAliasBuilder, CreateCollectionBuilder,
    CreateFieldIndexCollectionBuilder, Datatype, DeleteFieldIndexCollectionBuilder,
    DeleteSnapshotRequestBuilder, Distance, FacetCountsBuilder, FieldType,
    KeywordIndexParamsBuilder, PayloadSchemaType, RenameAliasBuilder, StrictModeConfigBuilder,
    VectorParamsBuilder, payload_index_params,
};
use qdrant_peer::{Code, Peer};
use serde_json::json;

use crate::{NAME, client, create, point, refusal, upsert, with_collection};

#[tokio::test]
async fn the_info_says_what_was_created() {
    let peer = Peer::start();
    let client = client(&peer);
    let params = VectorParamsBuilder::new(2, Distance::Euclid).datatype(Datatype::Float16);
    client
        .create_collection(CreateCollectionBuilder::new(NAME).vectors_config(params.clone()))
        .await
        .unwrap();
    upsert(
        &client,
        (0..7).map(|id| point(id, json!({"ns": "a"}))).collect(),
    )
    .await;
    let index = CreateFieldIndexCollectionBuilder::new(NAME, "ns", FieldType::Keyword)
        .field_index_params(KeywordIndexParamsBuilder::default().is_tenant(true));
    client.create_field_index(index.wait(true)).await.unwrap();

    let info = client.collection_info(NAME).await.unwrap().result.unwrap();
    assert_eq!(info.status(), CollectionStatus::Green);
    assert!(info.optimizer_status.as_ref().unwrap().ok);
    assert_eq!(info.points_count, Some(7));
    assert_eq!(info.indexed_vectors_count, Some(0));
    let schema = &info.payload_schema["ns"];
    assert_eq!(schema.data_type(), PayloadSchemaType::Keyword);
    assert_eq!(schema.points, Some(7));
    match schema
        .params
        .as_ref()
        .unwrap()
        .index_params
        .as_ref()
        .unwrap()
    {
        payload_index_params::IndexParams::KeywordIndexParams(params) => {
            assert_eq!(params.is_tenant, Some(true));
        }
        other => panic!("not a keyword index: {other:?}"),
    }
    let config = info
        .config
        .unwrap()
        .params
        .unwrap()
        .vectors_config
        .unwrap()
        .config;
    assert_eq!(config, Some(Config::Params(params.build())));

    client
        .delete_field_index(DeleteFieldIndexCollectionBuilder::new(NAME, "ns").wait(true))
        .await
        .unwrap();
    let info = client.collection_info(NAME).await.unwrap().result.unwrap();
    assert!(info.payload_schema.is_empty());
}

#[tokio::test]
async fn collections_are_listed_and_deleted_with_their_data() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, vec![point(1, json!({}))]).await;
    assert!(client.collection_exists(NAME).await.unwrap());
    assert_eq!(
        client.list_collections().await.unwrap().collections[0].name,
        NAME
    );
    assert!(client.delete_collection(NAME).await.unwrap().result);
    assert!(!client.delete_collection(NAME).await.unwrap().result);
    assert!(!client.collection_exists(NAME).await.unwrap());
    assert!(!peer.dir().join("collections").join(NAME).exists());
    create(&client, 2, Distance::Dot).await;
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    assert_eq!(count.result.unwrap().count, 0);
}

#[tokio::test]
async fn an_alias_stands_for_its_collection() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, vec![point(1, json!({}))]).await;
    client
        .create_alias(CreateAliasBuilder::new(NAME, "first"))
        .await
        .unwrap();
    client
        .rename_alias(RenameAliasBuilder::new("first", "second"))
        .await
        .unwrap();
    let count = client
        .count(CountPointsBuilder::new("second"))
        .await
        .unwrap();
    assert_eq!(count.result.unwrap().count, 1);
    let aliases = client.list_collection_aliases(NAME).await.unwrap().aliases;
    assert_eq!(aliases[0].alias_name, "second");
    client.delete_alias("second").await.unwrap();
    assert!(client.list_aliases().await.unwrap().aliases.is_empty());
    let (code, _) = refusal(client.count(CountPointsBuilder::new("second")).await);
    assert_eq!(code, Code::NotFound);
    let (code, _) = refusal(
        client
            .create_alias(CreateAliasBuilder::new("nothing", "name"))
            .await,
    );
    assert_eq!(code, Code::NotFound);
}

#[tokio::test]
async fn a_restart_keeps_everything_and_the_port() {
    let (mut peer, client) = with_collection(2, Distance::Dot).await;
    upsert(
        &client,
        (0..50).map(|id| point(id, json!({"ns": "a"}))).collect(),
    )
    .await;
    let index = CreateFieldIndexCollectionBuilder::new(NAME, "ns", FieldType::Keyword).wait(true);
    client.create_field_index(index).await.unwrap();
    client
        .create_alias(CreateAliasBuilder::new(NAME, "alias"))
        .await
        .unwrap();
    let strict = StrictModeConfigBuilder::default()
        .enabled(true)
        .max_query_limit(7);
    let update =
        qdrant_client::qdrant::UpdateCollectionBuilder::new(NAME).strict_mode_config(strict);
    client.update_collection(update).await.unwrap();
    let before = client.collection_info(NAME).await.unwrap().result;
    let url = peer.url();

    peer.stop();
    assert!(
        client.collection_info(NAME).await.is_err(),
        "a stopped peer answers nothing"
    );
    peer.restart();
    let client = &crate::client(&peer);

    assert_eq!(peer.url(), url);
    let after = client.collection_info("alias").await.unwrap().result;
    assert_eq!(after, before);
    let hits = client
        .facet(FacetCountsBuilder::new(NAME, "ns").limit(5).exact(true))
        .await
        .unwrap()
        .hits;
    assert_eq!(hits[0].count, 50);
    upsert(client, vec![point(50, json!({"ns": "a"}))]).await;
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    assert_eq!(count.result.unwrap().count, 51);
}

#[tokio::test]
async fn snapshots_are_made_listed_and_removed() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let health = client.health_check().await.unwrap();
    assert_eq!(health.title, "qdrant - vector search engine");
    assert_eq!(health.version, "1.18.3");
    let listed = async || {
        let list = client.list_snapshots(NAME).await.unwrap();
        list.snapshot_descriptions
    };
    assert!(listed().await.is_empty());
    let made = client.create_snapshot(NAME).await.unwrap();
    let made = made.snapshot_description.unwrap();
    assert_eq!(made.checksum.as_ref().unwrap().len(), 64);
    assert!(made.size > 0);
    assert_eq!(listed().await, std::slice::from_ref(&made));
    let delete = async |name: &str| {
        let request = DeleteSnapshotRequestBuilder::new(NAME, name);
        client.delete_snapshot(request).await
    };
    delete(&made.name).await.unwrap();
    assert!(listed().await.is_empty());
    let (code, message) = refusal(delete(&made.name).await);
    assert_eq!(code, Code::NotFound);
    assert!(message.contains(&made.name), "{message}");
    let outside = refusal(delete("../aliases.json").await);
    assert_eq!(outside.0, Code::NotFound);
}
