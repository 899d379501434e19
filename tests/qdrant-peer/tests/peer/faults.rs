//! Every fault strikes, and only where it is meant to.

use std::time::Duration;

use qdrant_client::Qdrant;
use qdrant_client::qdrant::{
    CountPointsBuilder, DeletePointsBuilder, Distance, GetPointsBuilder, PointsIdsList,
    ScrollPointsBuilder, UpdateStatus, UpsertPointsBuilder,
};
use qdrant_peer::{Code, Faults};
use serde_json::json;
use tokio::time::timeout;

use crate::{NAME, ids, numbers, point, refusal, upsert, with_collection};

async fn delete(client: &Qdrant, ids: impl IntoIterator<Item = u64>) -> UpdateStatus {
    let request = DeletePointsBuilder::new(NAME)
        .points(PointsIdsList { ids: numbers(ids) })
        .wait(true);
    let response = client.delete_points(request).await.unwrap();
    response.result.unwrap().status()
}

async fn count(client: &Qdrant) -> u64 {
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    count.result.unwrap().count
}

#[tokio::test]
async fn a_slow_method_is_slow_and_others_are_not() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    peer.faults()
        .slow("Points/Count", Duration::from_millis(300));
    let too_soon = Duration::from_millis(250);
    assert!(timeout(too_soon, count(&client)).await.is_err());
    count(&client).await;
    peer.faults().slow("Points/Count", Duration::from_hours(1));
    client.scroll(ScrollPointsBuilder::new(NAME)).await.unwrap();
    peer.faults().clear();
    count(&client).await;
}

#[tokio::test]
async fn the_nth_call_fails_and_does_nothing() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, (1..=3).map(|id| point(id, json!({}))).collect()).await;
    peer.faults()
        .fail_nth("Points/Delete", 2, Code::Aborted, "planned");
    assert_eq!(delete(&client, [1]).await, UpdateStatus::Completed);
    let request = DeletePointsBuilder::new(NAME)
        .points(PointsIdsList { ids: numbers([2]) })
        .wait(true);
    let failed = refusal(client.delete_points(request).await);
    assert_eq!(failed, (Code::Aborted, "planned".to_owned()));
    assert_eq!(count(&client).await, 2);
    assert_eq!(delete(&client, [2]).await, UpdateStatus::Completed);
    assert_eq!(count(&client).await, 1);
    assert_eq!(peer.calls_of("Points/Delete"), 3);
}

/// The client hides the first failure of some kinds by sending the call again, the peer counts both.
#[tokio::test]
async fn the_client_sends_again_when_the_server_is_unavailable() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, vec![point(1, json!({}))]).await;
    let faults = peer.faults();
    faults.lose_answer_nth("Points/Delete", 1, Code::Unavailable, "lost");
    assert_eq!(delete(&client, [1]).await, UpdateStatus::Completed);
    assert_eq!(peer.calls_of("Points/Delete"), 2);
}

#[tokio::test]
async fn a_method_can_fail_until_it_is_cleared() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    peer.faults()
        .fail_always("Points/Scroll", Code::ResourceExhausted, "busy");
    for _ in 0..3 {
        let (code, _) = refusal(client.scroll(ScrollPointsBuilder::new(NAME)).await);
        assert_eq!(code, Code::ResourceExhausted);
    }
    assert_eq!(count(&client).await, 0);
    peer.faults().clear();
    client.scroll(ScrollPointsBuilder::new(NAME)).await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_loses_no_change() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    peer.faults()
        .lose_answer_nth("Points/Upsert", 1, Code::Aborted, "lost");
    let request = UpsertPointsBuilder::new(NAME, vec![point(1, json!({}))]).wait(true);
    let (code, _) = refusal(client.upsert_points(request).await);
    assert_eq!(code, Code::Aborted);
    assert_eq!(count(&client).await, 1);
}

#[tokio::test]
async fn an_acknowledged_change_is_made_later_and_in_order() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, (1..=3).map(|id| point(id, json!({}))).collect()).await;
    peer.faults().acknowledge_only("Points/Delete");
    assert_eq!(delete(&client, [1]).await, UpdateStatus::Acknowledged);
    assert_eq!(count(&client).await, 3);
    peer.faults().settle();
    assert_eq!(count(&client).await, 2);
    assert_eq!(delete(&client, [2]).await, UpdateStatus::Acknowledged);
    upsert(&client, vec![point(2, json!({}))]).await;
    assert_eq!(count(&client).await, 2, "the delete came before the upsert");
    assert_eq!(delete(&client, [2, 3]).await, UpdateStatus::Acknowledged);
    peer.faults().clear();
    assert_eq!(count(&client).await, 0);
    upsert(&client, vec![point(4, json!({}))]).await;
    assert_eq!(delete(&client, [4]).await, UpdateStatus::Completed);
}

#[tokio::test]
async fn an_acknowledged_change_survives_a_stop() {
    let (mut peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, (1..=3).map(|id| point(id, json!({}))).collect()).await;
    peer.faults().acknowledge_only("Points/Delete");
    delete(&client, [1]).await;
    peer.restart();
    assert_eq!(count(&client).await, 2);
}

#[tokio::test]
async fn a_delete_can_lie() {
    let (peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, (1..=5).map(|id| point(id, json!({}))).collect()).await;
    peer.faults().lie_about_delete(2);
    assert_eq!(delete(&client, 1..=5).await, UpdateStatus::Completed);
    let left = client
        .get_points(GetPointsBuilder::new(NAME, numbers(1..=5)))
        .await
        .unwrap();
    assert_eq!(ids(&left.result), numbers([4, 5]));
    peer.faults().clear();
    assert_eq!(delete(&client, [4, 5]).await, UpdateStatus::Completed);
    assert_eq!(count(&client).await, 0);
}

#[tokio::test]
async fn without_waiting_a_write_is_acknowledged_and_made_soon() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    for request in [
        UpsertPointsBuilder::new(NAME, vec![point(1, json!({}))]),
        UpsertPointsBuilder::new(NAME, vec![point(2, json!({}))]).wait(false),
    ] {
        let response = client.upsert_points(request).await.unwrap();
        assert_eq!(
            response.result.unwrap().status(),
            UpdateStatus::Acknowledged
        );
    }
    let made = async {
        while count(&client).await < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), made).await.unwrap();
}

#[tokio::test]
async fn a_stop_cuts_a_call_under_way() {
    let (mut peer, client) = with_collection(2, Distance::Dot).await;
    peer.faults().slow("Points/Scroll", Duration::from_hours(1));
    let call =
        tokio::spawn(async move { client.scroll(ScrollPointsBuilder::new(NAME)).await.is_err() });
    while peer.calls_of("Points/Scroll") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    peer.stop();
    assert!(call.await.unwrap());
}

#[test]
#[should_panic(expected = "no such method: Points/Remove")]
fn a_fault_on_no_method_is_a_mistake() {
    Faults::default().fail_always("Points/Remove", Code::Aborted, "");
}
