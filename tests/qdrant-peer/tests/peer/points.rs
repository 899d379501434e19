//! What goes in comes out again.

use std::collections::HashMap;

use qdrant_client::Qdrant;
use qdrant_client::qdrant::vector_output::Vector as Out;
use qdrant_client::qdrant::{
    ClearPayloadPointsBuilder, CreateCollectionBuilder, DeletePayloadPointsBuilder,
    DeletePointVectorsBuilder, DeletePointsBuilder, DenseVector, Distance, Filter,
    GetPointsBuilder, MultiDenseVector, MultiVectorComparator, MultiVectorConfigBuilder,
    NamedVectors, PointId, PointStruct, PointVectors, PointsIdsList, PointsOperationResponse,
    PointsUpdateOperation, RetrievedPoint, ScrollPointsBuilder, SetPayloadPointsBuilder,
    SparseIndices, SparseVector, SparseVectorParamsBuilder, SparseVectorsConfigBuilder,
    UpdateBatchPointsBuilder, UpdateMode, UpdatePointVectorsBuilder, UpdateStatus,
    UpsertPointsBuilder, Vector, VectorParamsBuilder, VectorsConfigBuilder, VectorsSelector,
    points_update_operation,
};
use qdrant_client::qdrant::{Condition, Vectors, vectors};
use qdrant_peer::{Code, Peer, PeerOptions};
use serde_json::json;

use crate::{NAME, client, numbers, payload, point, refusal, upsert, with_collection};

async fn get(client: &Qdrant, id: impl Into<PointId>) -> Option<RetrievedPoint> {
    let request = GetPointsBuilder::new(NAME, vec![id.into()])
        .with_payload(true)
        .with_vectors(true);
    let mut points = client.get_points(request).await.unwrap().result;
    assert!(points.len() <= 1);
    points.pop()
}

fn completed(response: &PointsOperationResponse) {
    assert_eq!(
        response.result.as_ref().unwrap().status(),
        UpdateStatus::Completed
    );
}

/// A collection with a dense, a multi and a sparse vector, all named.
async fn create_named(client: &Qdrant) {
    let mut dense = VectorsConfigBuilder::default();
    dense.add_named_vector_params("text", VectorParamsBuilder::new(2, Distance::Dot));
    dense.add_named_vector_params(
        "tokens",
        VectorParamsBuilder::new(2, Distance::Dot)
            .multivector_config(MultiVectorConfigBuilder::new(MultiVectorComparator::MaxSim)),
    );
    let mut sparse = SparseVectorsConfigBuilder::default();
    sparse.add_named_vector_params("words", SparseVectorParamsBuilder::default());
    client
        .create_collection(
            CreateCollectionBuilder::new(NAME)
                .vectors_config(dense)
                .sparse_vectors_config(sparse),
        )
        .await
        .unwrap();
}

fn text() -> Out {
    Out::Dense(DenseVector {
        data: vec![3.0, -4.0],
    })
}

fn tokens() -> Out {
    let row = |data: [f32; 2]| DenseVector {
        data: data.to_vec(),
    };
    Out::MultiDense(MultiDenseVector {
        vectors: vec![row([1.0, 2.0]), row([3.0, 4.0]), row([5.0, 6.0])],
    })
}

fn words() -> Out {
    Out::Sparse(SparseVector {
        indices: vec![7, 4_000_000_000],
        values: vec![0.5, 2.0],
    })
}

/// The three vectors in the form of today.
fn oneof() -> NamedVectors {
    NamedVectors::default()
        .add_vector("text", vec![3.0, -4.0])
        .add_vector(
            "tokens",
            vec![vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]],
        )
        .add_vector("words", vec![(7, 0.5), (4_000_000_000, 2.0)])
}

/// The same in the form before 1.16.
#[expect(deprecated, reason = "that is what is tested")]
fn flat() -> NamedVectors {
    let vector = |data: &[f32], indices: Option<&[u32]>, vectors_count| Vector {
        data: data.to_vec(),
        indices: indices.map(|data| SparseIndices {
            data: data.to_vec(),
        }),
        vectors_count,
        vector: None,
    };
    let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let words = [7, 4_000_000_000];
    NamedVectors {
        vectors: HashMap::from([
            ("text".to_owned(), vector(&[3.0, -4.0], None, None)),
            ("tokens".to_owned(), vector(&rows, None, Some(3))),
            ("words".to_owned(), vector(&[0.5, 2.0], Some(&words), None)),
        ]),
    }
}

#[tokio::test]
async fn every_kind_of_vector_round_trips_in_both_forms() {
    for flat_vectors in [false, true] {
        let peer = Peer::start_with(PeerOptions {
            flat_vectors,
            ..PeerOptions::default()
        });
        let client = client(&peer);
        create_named(&client).await;
        let points = vec![
            PointStruct::new(1, oneof(), payload(json!({}))),
            PointStruct::new(2, flat(), payload(json!({}))),
        ];
        upsert(&client, points).await;
        for id in [1, 2] {
            let vectors = get(&client, id).await.unwrap().vectors.unwrap();
            assert_eq!(vectors.get_vector_by_name("text"), Some(text()));
            assert_eq!(vectors.get_vector_by_name("tokens"), Some(tokens()));
            assert_eq!(vectors.get_vector_by_name("words"), Some(words()));
        }
    }
}

#[tokio::test]
async fn a_point_may_lack_vectors_and_a_read_may_choose_them() {
    let peer = Peer::start();
    let client = client(&peer);
    create_named(&client).await;
    let none = Vectors {
        vectors_options: Some(vectors::VectorsOptions::Vectors(NamedVectors::default())),
    };
    let points = vec![
        PointStruct::new(1, oneof(), payload(json!({}))),
        PointStruct::new(2, none, payload(json!({}))),
    ];
    upsert(&client, points).await;
    let chosen = ScrollPointsBuilder::new(NAME).with_vectors(VectorsSelector {
        names: vec!["words".to_owned()],
    });
    let points = client.scroll(chosen).await.unwrap().result;
    let vectors = points[0].vectors.as_ref().unwrap();
    assert_eq!(vectors.get_vector_by_name("words"), Some(words()));
    assert_eq!(vectors.get_vector_by_name("text"), None);
    let lacking = points[1].vectors.as_ref();
    assert_eq!(
        lacking.and_then(|vectors| vectors.get_vector_by_name("words")),
        None
    );
    let has_text =
        ScrollPointsBuilder::new(NAME).filter(Filter::must([Condition::has_vector("text")]));
    let points = client.scroll(has_text).await.unwrap().result;
    assert_eq!(crate::ids(&points), numbers([1]));
}

#[tokio::test]
async fn cosine_vectors_come_back_normalised_and_others_as_they_were() {
    for (distance, expected) in [
        (Distance::Cosine, vec![0.6, 0.8]),
        (Distance::Dot, vec![3.0, 4.0]),
        (Distance::Euclid, vec![3.0, 4.0]),
        (Distance::Manhattan, vec![3.0, 4.0]),
    ] {
        let (_peer, client) = with_collection(2, distance).await;
        upsert(
            &client,
            vec![PointStruct::new(1, vec![3.0, 4.0], payload(json!({})))],
        )
        .await;
        let vector = get(&client, 1).await.unwrap().vectors.unwrap().get_vector();
        assert_eq!(vector, Some(Out::Dense(DenseVector { data: expected })));
    }
}

#[tokio::test]
async fn every_kind_of_payload_value_round_trips() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let all = payload(json!({
        "null": null, "true": true, "text": "São Paulo \u{1F319}", "empty": "",
        "min": i64::MIN, "max": i64::MAX, "zero": 0, "third": 1.0 / 3.0, "tiny": 5e-324, "whole": 2.0,
        "list": [1, "two", [3.5], {"four": null}], "empty list": [], "object": {"a": {"b": []}}, "empty object": {},
    }));
    let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    upsert(
        &client,
        vec![PointStruct::new(id, vec![1.0, 0.0], all.clone())],
    )
    .await;
    let point = get(&client, id).await.unwrap();
    assert_eq!(point.id.unwrap(), PointId::from(id));
    assert_eq!(point.payload, HashMap::from(all));
}

#[tokio::test]
async fn upsert_replaces_the_whole_point() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, vec![point(1, json!({"old": 1, "both": 1}))]).await;
    upsert(
        &client,
        vec![PointStruct::new(
            1,
            vec![0.0, 9.0],
            payload(json!({"both": 2})),
        )],
    )
    .await;
    let point = get(&client, 1).await.unwrap();
    assert_eq!(point.payload, HashMap::from(payload(json!({"both": 2}))));
    let vector = point.vectors.unwrap().get_vector();
    assert_eq!(
        vector,
        Some(Out::Dense(DenseVector {
            data: vec![0.0, 9.0]
        }))
    );
}

#[tokio::test]
async fn conditional_upserts_touch_what_they_should() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(
        &client,
        vec![point(1, json!({"v": 1})), point(2, json!({"v": 2}))],
    )
    .await;
    let fresh = |ids: &[u64]| {
        ids.iter()
            .map(|id| point(*id, json!({"v": 9})))
            .collect::<Vec<_>>()
    };
    let insert = UpsertPointsBuilder::new(NAME, fresh(&[1, 3]))
        .wait(true)
        .update_mode(UpdateMode::InsertOnly);
    completed(&client.upsert_points(insert).await.unwrap());
    let filtered = UpsertPointsBuilder::new(NAME, fresh(&[1, 2]))
        .wait(true)
        .update_filter(Filter::must([Condition::matches("v", 2)]));
    completed(&client.upsert_points(filtered).await.unwrap());
    let mut values = Vec::new();
    for id in [1, 2, 3] {
        let point = get(&client, id).await.unwrap();
        values.push(point.payload["v"].as_integer().unwrap());
    }
    assert_eq!(values, [1, 9, 9]);
}

#[tokio::test]
async fn deleted_points_are_gone_and_missing_ones_are_no_error() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let points = (1..=6).map(|id| point(id, json!({"kind": if id > 4 { "old" } else { "new" }})));
    upsert(&client, points.collect()).await;
    let by_id = DeletePointsBuilder::new(NAME)
        .points(PointsIdsList {
            ids: numbers([2, 77]),
        })
        .wait(true);
    completed(&client.delete_points(by_id).await.unwrap());
    let by_filter = DeletePointsBuilder::new(NAME)
        .points(Filter::must([Condition::matches("kind", "old".to_owned())]))
        .wait(true);
    completed(&client.delete_points(by_filter).await.unwrap());
    let left = client
        .get_points(GetPointsBuilder::new(NAME, numbers([6, 5, 4, 3, 2, 1])))
        .await
        .unwrap()
        .result;
    assert_eq!(crate::ids(&left), numbers([4, 3, 1]));
}

#[tokio::test]
async fn payloads_are_set_overwritten_deleted_and_cleared() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(
        &client,
        vec![point(1, json!({"a": 1, "b": {"c": 2, "d": 3}}))],
    )
    .await;
    let one = || PointsIdsList { ids: numbers([1]) };
    let now = async || get(&client, 1).await.unwrap().payload;

    let set = SetPayloadPointsBuilder::new(NAME, payload(json!({"a": 9, "e": 5})))
        .points_selector(one())
        .wait(true);
    completed(&client.set_payload(set).await.unwrap());
    assert_eq!(
        now().await,
        HashMap::from(payload(json!({"a": 9, "b": {"c": 2, "d": 3}, "e": 5})))
    );

    let nested = SetPayloadPointsBuilder::new(NAME, payload(json!({"c": 7})))
        .points_selector(one())
        .key("b")
        .wait(true);
    completed(&client.set_payload(nested).await.unwrap());
    assert_eq!(
        now().await,
        HashMap::from(payload(json!({"a": 9, "b": {"c": 7, "d": 3}, "e": 5})))
    );

    let keys = vec!["a".to_owned(), "b.d".to_owned()];
    let delete = DeletePayloadPointsBuilder::new(NAME, keys)
        .points_selector(one())
        .wait(true);
    completed(&client.delete_payload(delete).await.unwrap());
    assert_eq!(
        now().await,
        HashMap::from(payload(json!({"b": {"c": 7}, "e": 5})))
    );

    let overwrite = SetPayloadPointsBuilder::new(NAME, payload(json!({"only": true})))
        .points_selector(Filter::must([Condition::matches("e", 5)]))
        .wait(true);
    completed(&client.overwrite_payload(overwrite).await.unwrap());
    assert_eq!(now().await, HashMap::from(payload(json!({"only": true}))));

    let clear = ClearPayloadPointsBuilder::new(NAME)
        .points(one())
        .wait(true);
    completed(&client.clear_payload(clear).await.unwrap());
    assert_eq!(now().await, HashMap::new());
}

#[tokio::test]
async fn a_payload_of_a_missing_point_cannot_be_set() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let set = SetPayloadPointsBuilder::new(NAME, payload(json!({"a": 9})))
        .points_selector(PointsIdsList { ids: numbers([5]) })
        .wait(true);
    let (code, message) = refusal(client.set_payload(set).await);
    assert_eq!(code, Code::NotFound);
    assert_eq!(message, "Not found: No point with id 5");
}

#[tokio::test]
async fn vectors_are_updated_and_deleted_one_by_one() {
    let peer = Peer::start();
    let client = client(&peer);
    create_named(&client).await;
    upsert(
        &client,
        vec![PointStruct::new(1, oneof(), payload(json!({"kept": 1})))],
    )
    .await;
    let update = PointVectors {
        id: Some(1.into()),
        vectors: Some(
            NamedVectors::default()
                .add_vector("text", vec![8.0, 9.0])
                .into(),
        ),
    };
    let update = UpdatePointVectorsBuilder::new(NAME, vec![update]).wait(true);
    completed(&client.update_vectors(update).await.unwrap());
    let delete = DeletePointVectorsBuilder::new(NAME)
        .points_selector(PointsIdsList { ids: numbers([1]) })
        .vectors(vec!["words".to_owned()])
        .wait(true);
    completed(&client.delete_vectors(delete).await.unwrap());
    let point = get(&client, 1).await.unwrap();
    let vectors = point.vectors.unwrap();
    let updated = DenseVector {
        data: vec![8.0, 9.0],
    };
    assert_eq!(
        vectors.get_vector_by_name("text"),
        Some(Out::Dense(updated))
    );
    assert_eq!(vectors.get_vector_by_name("tokens"), Some(tokens()));
    assert_eq!(vectors.get_vector_by_name("words"), None);
    assert_eq!(point.payload, HashMap::from(payload(json!({"kept": 1}))));
}

#[tokio::test]
async fn a_batch_of_changes_is_made_in_order() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let upsert = |id| points_update_operation::PointStructList {
        points: vec![point(id, json!({}))],
        ..Default::default()
    };
    let delete = points_update_operation::DeletePoints {
        points: Some(numbers([1]).into()),
        ..Default::default()
    };
    let operations = [
        points_update_operation::Operation::Upsert(upsert(1)),
        points_update_operation::Operation::Upsert(upsert(2)),
        points_update_operation::Operation::DeletePoints(delete),
    ];
    let operations = operations.map(|operation| PointsUpdateOperation {
        operation: Some(operation),
    });
    let batch = UpdateBatchPointsBuilder::new(NAME, operations).wait(true);
    let results = client.update_points_batch(batch).await.unwrap().result;
    assert_eq!(results.len(), 3);
    assert!(get(&client, 1).await.is_none());
    assert!(get(&client, 2).await.is_some());
}
