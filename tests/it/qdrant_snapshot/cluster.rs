//! A collection that is spread over nodes.

use super::*;

/// Two nodes with a shard each. What the peers cannot do is answer for each other, so the points are those of one.
struct Nodes {
    first: Peer,
    second: Peer,
}

impl Nodes {
    fn start() -> Self {
        let first = |port| {
            Peer::start_with(PeerOptions {
                rest_port: port,
                cluster: Some(cluster(1)),
                ..PeerOptions::default()
            })
        };
        let first = first(0);
        let port = first
            .rest_url()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let second = Peer::start_with(PeerOptions {
            rest_port: port,
            rest_ip: [127, 0, 0, 2].into(),
            cluster: Some(cluster(2)),
            ..PeerOptions::default()
        });
        Self { first, second }
    }
}

fn cluster(peer_id: u64) -> Cluster {
    Cluster {
        peer_id,
        peers: [
            (1, "http://127.0.0.1:6335/".to_owned()),
            (2, "http://127.0.0.2:6335/".to_owned()),
        ]
        .into(),
    }
}

#[test]
fn every_node_with_a_shard_is_copied_and_named() {
    let mut nodes = Nodes::start();
    let scene = Scene::at(&nodes.first);
    let mut other = Scene::at(&nodes.second);
    other.name.clone_from(&scene.name);
    other.create(4);
    let (folder, copy) = copied(&scene);
    let named: Vec<_> = copy
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.node.as_deref().unwrap()))
        .collect();
    assert_eq!(
        named,
        [
            ("points-0.snapshot", "http://127.0.0.1:6335/"),
            ("points-1.snapshot", "http://127.0.0.2:6335/"),
        ]
    );
    assert_eq!(copy.place["nodes"][1]["peer_id"], 2);
    assert_eq!(copy.place["nodes"][1]["shards"], json!([1]));
    assert_eq!(nodes.second.calls_of("Rest/CreateSnapshot"), 1);
    assert_eq!(other.snapshots(&scene.name), 0);
    scene.is_clean("after the copy of a cluster");
    // Where the shards of a new collection would be put is not known: those that there are are copied.
    let elsewhere = tempfile::tempdir().unwrap();
    let anew = scene.copies().copy_anew_to(elsewhere.path()).unwrap();
    assert!(!anew.written_anew);
    assert_eq!((&anew.count, anew.files.len()), (&copy.count, 2));
    assert_eq!(nodes.second.calls_of("Rest/CreateSnapshot"), 2);
    scene.is_clean("after the second copy of a cluster");
    assert_eq!(names_in(folder.path()).len(), 2);

    let elsewhere = tempfile::tempdir().unwrap();
    nodes.second.stop();
    let error = message(&scene.copies().copy_to(elsewhere.path()).unwrap_err());
    assert!(
        error.contains("node 2 at http://127.0.0.2:6335/") && error.contains("connection refused"),
        "{error}"
    );
    assert_eq!(names_in(elsewhere.path()), [""; 0]);
    assert_eq!(
        nodes.first.calls_of("Rest/CreateSnapshot"),
        2,
        "nothing was begun"
    );
}
