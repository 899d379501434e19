//! What only a Qdrant server can do wrong, asked of a peer of its own.

use std::time::Duration;

use qdrant_peer::{Peer, PeerOptions};
use tonic::Code;

use crate::support::qdrant::Collection;
use crate::support::{Backend, DAY, Output, World, now};

/// A world on a peer that nobody else uses: three memories, of which one has expired, and a ghost.
fn store(peer: &Peer) -> World {
    let mut world = World::new(Backend::Qdrant);
    let old = world.vectors_config();
    let collection = Collection::create_at(&peer.url());
    let new = format!(
        "[store.vectors]\nkind = \"qdrant\"\nurl = \"{}\"\ncollection = \"{}\"\ntimeout = \"30s\"\n\
         point_id = \"uuid5(dns, {{namespace}}::{{id}})\"\n",
        peer.url(),
        collection.name
    );
    world.points = crate::support::Points::Qdrant(collection);
    world.configure(&old, &new);
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now(), None);
    world.memory("ana", now(), None);
    world.ghost("user:ghost");
    world
}

/// After whatever went wrong: no live memory is gone, and once the fault is over the next night finishes.
fn heals(world: &World) {
    assert!(world.ids().is_superset(&[2, 3].into()), "{:?}", world.ids());
    let night = world.night().expect(0);
    assert_eq!(
        (world.ids(), world.point_rows()),
        ([2, 3].into(), [2, 3].into()),
        "{night:#?}"
    );
    let _ = world.night().expect(0).all_passes("idle");
}

#[test]
fn a_write_that_is_only_acknowledged_does_not_count() {
    let peer = Peer::start();
    let world = store(&peer);
    peer.faults().acknowledge_only("Points/Delete");
    let night = world.night().expect(1);
    assert!(
        night.stdout.contains("not completed") || night.stdout.contains("Acknowledged"),
        "{night:#?}"
    );
    assert_eq!(world.ids(), [1, 2, 3].into(), "the row waits for its point");
    peer.faults().clear();
    heals(&world);
}

/// A released version answered Completed and left points behind.
#[test]
fn points_that_are_still_there_after_a_completed_removal_are_noticed() {
    let peer = Peer::start();
    let world = store(&peer);
    peer.faults().lie_about_delete(1);
    let night = world.night().expect(1);
    assert!(night.stdout.contains("still there"), "{night:#?}");
    assert_eq!(world.ids(), [1, 2, 3].into());
    peer.faults().clear();
    heals(&world);
}

#[test]
fn a_server_that_stumbles_once_is_asked_again() {
    for method in [
        "Points/Scroll",
        "Points/Delete",
        "Points/Get",
        "Points/Facet",
        "Points/Count",
    ] {
        let peer = Peer::start();
        let world = store(&peer);
        peer.faults()
            .fail_nth(method, 1, Code::Unavailable, "stumbled");
        let night = world.night();
        assert_eq!(night.code, Some(0), "{method}: {night:#?}");
        heals(&world);
    }
}

#[test]
fn an_interrupted_scroll_is_no_empty_answer() {
    {
        let method = "Points/Scroll";
        let peer = Peer::start();
        let world = store(&peer);
        peer.faults()
            .fail_always(method, Code::Internal, "disk on fire");
        let night = world.night().expect(1);
        assert_eq!(
            night.pass("orphans")["outcome"],
            "failed",
            "{method}: {night:#?}"
        );
        peer.faults().clear();
        assert_eq!(
            world.all_points().len(),
            3,
            "{method}: the ghost is still there"
        );
        heals(&world);
    }
}

#[test]
fn a_server_that_goes_away_and_comes_back() {
    let mut peer = Peer::start();
    let world = store(&peer);
    peer.stop();
    let night = world.night().expect(1);
    assert!(
        night.stdout.contains("reach the vector store"),
        "{night:#?}"
    );
    assert!(
        night.stdout.contains("6334"),
        "the hint names the gRPC port: {night:#?}"
    );
    assert_eq!(world.ids(), [1, 2, 3].into());
    peer.restart();
    heals(&world);
}

#[test]
fn a_slow_server_is_waited_for_only_so_long() {
    let peer = Peer::start();
    let mut world = store(&peer);
    world.configure("timeout = \"30s\"", "timeout = \"2s\"");
    peer.faults().slow("Points/Delete", Duration::from_mins(1));
    let night = world.night().expect(1);
    assert!(night.stdout.contains("longer than 2 s"), "{night:#?}");
    peer.faults().clear();
    heals(&world);
}

#[test]
fn the_api_key_comes_from_the_environment_and_a_wrong_one_is_named_as_such() {
    let peer = Peer::start_with(PeerOptions {
        api_key: Some("s3cret-k3y".into()),
        ..PeerOptions::default()
    });
    let mut world = World::new(Backend::Sqlite);
    let vectors = world.vectors_config();
    let qdrant = format!(
        "[store.vectors]\nkind = \"qdrant\"\nurl = \"{}\"\ncollection = \"none\"\n",
        peer.url()
    );
    world.configure(&vectors, &qdrant);
    let with = |key: &str| {
        Output::of(
            world
                .command(&["--run-now", "--json"])
                .env("HYPNOS_QDRANT_API_KEY", key),
        )
    };
    let wrong = with("wr0ng-k3y").expect(1);
    assert!(wrong.stdout.contains("refuses the API key"), "{wrong:#?}");
    let right = with("s3cret-k3y").expect(10);
    assert!(
        right.stdout.contains("none"),
        "the key is right, the collection is missing: {right:#?}"
    );
    for output in [wrong, right] {
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(!told.contains("k3y"), "{told}");
    }
}

#[test]
fn thousands_of_points_are_removed_and_the_others_kept() {
    let peer = Peer::start();
    let mut world = store(&peer);
    let ghosts: Vec<(String, i64)> = (10_000..12_500)
        .map(|id| ("user:ghost".to_owned(), id))
        .collect();
    let kept: Vec<(String, i64)> = (20_000..22_500)
        .map(|id| ("team:acme".to_owned(), id))
        .collect();
    world.put(&ghosts);
    world.put(&kept);
    world.configure(
        "[pass.orphans]",
        "[guard]\nmax_fraction = 0.9\n[pass.orphans]",
    );
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("orphans")["applied"]["drop_point"],
        2501,
        "{night:#?}"
    );
    assert_eq!(world.all_points().len(), 2502);
    let _ = world.night().expect(0).all_passes("idle");
}
