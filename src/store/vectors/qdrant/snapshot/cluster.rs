//! Which nodes of a cluster a collection has to be copied from, and how they are reached.
//!
//! Mechanics: a node's snapshot holds the shards that this node has. One node with all of them is enough (replicas
//! make that common); else as many as it takes to have each shard once, the node that is configured first.
//!
//! Policy: a shard that is on no node in an active state, or is being moved, makes the copy impossible for now, and it
//! is said why. Other nodes are reached at the REST port of the configured one, at the host by which the cluster knows
//! them, and only believed when they say that they are that node.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a node says of its cluster.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ClusterStatus {
    /// `enabled` or `disabled`.
    status: String,
    pub(super) peer_id: Option<u64>,
    #[serde(default)]
    peers: BTreeMap<String, Peer>,
}

#[derive(Debug, Clone, Deserialize)]
struct Peer {
    uri: String,
}

/// Where the shards of a collection are.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Shards {
    peer_id: u64,
    #[serde(rename = "shard_count")]
    count: usize,
    #[serde(rename = "local_shards")]
    here: Vec<LocalShard>,
    #[serde(rename = "remote_shards")]
    elsewhere: Vec<RemoteShard>,
    #[serde(default, rename = "shard_transfers")]
    moving: Vec<serde_json::Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct LocalShard {
    shard_id: u32,
    state: String,
}

#[derive(Debug, Clone, Deserialize)]
struct RemoteShard {
    shard_id: u32,
    peer_id: u64,
    state: String,
}

/// A node that holds shards of the collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) peer_id: u64,
    /// The address at which the other nodes know it.
    pub(super) uri: String,
    /// The shards that it holds in an active state.
    pub(super) shards: BTreeSet<u32>,
    /// Whether they were copied from it.
    pub(super) copied: bool,
}

impl ClusterStatus {
    pub(super) fn is_enabled(&self) -> bool {
        self.status == "enabled"
    }

    /// The address at which the cluster knows a node.
    fn uri(&self, peer_id: u64) -> String {
        self.peers
            .get(&peer_id.to_string())
            .map(|peer| peer.uri.clone())
            .unwrap_or_default()
    }

    /// The node that has this address by now.
    pub(super) fn peer_at(&self, uri: &str) -> Option<u64> {
        self.peers
            .iter()
            .find(|(_, peer)| peer.uri == uri)
            .and_then(|(id, _)| id.parse().ok())
    }
}

impl Shards {
    /// The shards of the node that was asked.
    pub(super) fn local(&self) -> BTreeSet<u32> {
        self.here.iter().map(|shard| shard.shard_id).collect()
    }

    /// How many there are on all nodes.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Every node that holds shards, the one that was asked first; those to copy from are marked. An error is the
    /// reason why the collection cannot be copied whole.
    pub(super) fn nodes(&self, cluster: &ClusterStatus) -> Result<Vec<Node>, String> {
        if !self.moving.is_empty() {
            return Err("shards are being moved between nodes".to_owned());
        }
        let mut nodes = vec![self.node(cluster, self.peer_id)];
        let others: BTreeSet<u64> = self.elsewhere.iter().map(|shard| shard.peer_id).collect();
        nodes.extend(others.into_iter().map(|peer| self.node(cluster, peer)));
        let mut missing: BTreeSet<u32> = self.all();
        let has_all = nodes.iter().position(|node| node.shards == missing);
        for (index, node) in nodes.iter_mut().enumerate() {
            let is_needed = match has_all {
                Some(whole) => index == whole,
                None => !node.shards.is_disjoint(&missing),
            };
            if is_needed {
                node.copied = true;
                missing.retain(|shard| !node.shards.contains(shard));
            }
        }
        match missing.first() {
            None => Ok(nodes),
            Some(shard) => Err(format!("no node has shard {shard} in an active state")),
        }
    }

    fn all(&self) -> BTreeSet<u32> {
        let remote = self.elsewhere.iter().map(|shard| shard.shard_id);
        self.local().into_iter().chain(remote).collect()
    }

    fn node(&self, cluster: &ClusterStatus, peer_id: u64) -> Node {
        let is_active = |state: &str| state == "Active";
        let shards = if peer_id == self.peer_id {
            let active = self.here.iter().filter(|shard| is_active(&shard.state));
            active.map(|shard| shard.shard_id).collect()
        } else {
            let of_peer = self
                .elsewhere
                .iter()
                .filter(|shard| shard.peer_id == peer_id);
            let active = of_peer.filter(|shard| is_active(&shard.state));
            active.map(|shard| shard.shard_id).collect()
        };
        Node {
            peer_id,
            uri: cluster.uri(peer_id),
            shards,
            copied: false,
        }
    }
}

/// The REST address of a node: the host of `uri`, and all else from the address that is configured. An error is the
/// reason why it cannot be reached.
pub(super) fn rest_address(configured: &str, uri: &str, has_key: bool) -> Result<String, String> {
    let (scheme, rest) = configured.split_once("://").unwrap_or(("http", configured));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = port_of(authority).map_or(String::new(), |port| format!(":{port}"));
    let known = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let known = known.split('/').next().unwrap_or_default();
    let host = match port_of(known) {
        Some(port) => &known[..known.len() - port.len() - 1],
        None => known,
    };
    if host.is_empty() || host.contains('@') {
        return Err(format!("the cluster knows it as {uri:?}"));
    }
    if has_key && scheme == "http" && !is_loopback(host) {
        return Err(format!(
            "the API key would travel to {host} in clear text; give `rest_url` as https"
        ));
    }
    Ok(format!("{scheme}://{host}{port}{path}"))
}

fn port_of(authority: &str) -> Option<&str> {
    let (host, port) = authority.rsplit_once(':')?;
    // The colons of an IPv6 address are inside its brackets.
    (!host.contains('[') || host.ends_with(']')).then_some(port)
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare == "localhost"
        || bare
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> ClusterStatus {
        serde_json::from_value(json!({
            "status": "enabled", "peer_id": 1,
            "peers": {"1": {"uri": "http://a:6335/"}, "2": {"uri": "http://b:6335/"}, "3": {"uri": "http://c:6335/"}},
        }))
        .unwrap()
    }

    /// The nodes that are copied from, and the shards they give.
    fn copied(
        local: &[(u32, &str)],
        remote: &[(u32, u64, &str)],
    ) -> Result<Vec<(u64, Vec<u32>)>, String> {
        let local: Vec<_> = local
            .iter()
            .map(|(shard, state)| json!({"shard_id": shard, "points_count": 1, "state": state}))
            .collect();
        let remote: Vec<_> = remote
            .iter()
            .map(|(shard, peer, state)| json!({"shard_id": shard, "peer_id": peer, "state": state}))
            .collect();
        let shards: Shards = serde_json::from_value(json!({
            "peer_id": 1, "shard_count": 3, "local_shards": local, "remote_shards": remote, "shard_transfers": [],
        }))
        .unwrap();
        let nodes = shards.nodes(&cluster())?;
        let copied = nodes.into_iter().filter(|node| node.copied);
        Ok(copied
            .map(|node| (node.peer_id, node.shards.into_iter().collect()))
            .collect())
    }

    #[test]
    fn one_node_with_every_shard_is_enough_and_else_each_shard_comes_once() {
        let a = "Active";
        let all = [(0, a), (1, a)];
        assert_eq!(copied(&all, &[]), Ok(vec![(1, vec![0, 1])]));
        assert_eq!(
            copied(&all, &[(0, 2, a), (1, 3, a)]),
            Ok(vec![(1, vec![0, 1])]),
            "replicas are not copied too"
        );
        assert_eq!(
            copied(&[(0, a)], &[(0, 3, a), (1, 3, a), (1, 2, a)]),
            Ok(vec![(3, vec![0, 1])])
        );
        assert_eq!(
            copied(&[(0, a)], &[(1, 2, a), (2, 3, a)]),
            Ok(vec![(1, vec![0]), (2, vec![1]), (3, vec![2])])
        );
        assert_eq!(copied(&[], &[(0, 2, a)]), Ok(vec![(2, vec![0])]));
    }

    #[test]
    fn a_shard_that_is_nowhere_whole_is_no_copy() {
        let (a, dead) = ("Active", "Dead");
        assert_eq!(
            copied(&[(0, a), (1, dead)], &[(1, 2, "Partial")]),
            Err("no node has shard 1 in an active state".to_owned())
        );
        assert_eq!(
            copied(&[(0, a), (1, dead)], &[(1, 2, a)]),
            Ok(vec![(1, vec![0]), (2, vec![1])])
        );
    }

    #[test]
    fn shards_on_the_move_are_no_copy() {
        let shards: Shards = serde_json::from_value(json!({
            "peer_id": 1, "shard_count": 1, "local_shards": [{"shard_id": 0, "state": "Active"}], "remote_shards": [],
            "shard_transfers": [{"shard_id": 0, "from": 1, "to": 2}],
        }))
        .unwrap();
        assert!(shards.nodes(&cluster()).unwrap_err().contains("moved"));
    }

    #[test]
    fn nodes_are_reached_at_the_configured_port() {
        for (configured, uri, expected) in [
            (
                "http://localhost:6333",
                "http://10.0.0.2:6335/",
                "http://10.0.0.2:6333",
            ),
            ("https://q.example.org", "http://b:6335", "https://b"),
            (
                "https://q.example.org:443/db",
                "https://b/",
                "https://b:443/db",
            ),
            (
                "http://[::1]:6333",
                "http://[fd00::2]:6335/",
                "http://[fd00::2]:6333",
            ),
            ("http://[::1]", "http://[fd00::2]/", "http://[fd00::2]"),
        ] {
            assert_eq!(
                rest_address(configured, uri, false).as_deref(),
                Ok(expected)
            );
        }
        for uri in ["", "http://", "http://:6335/", "http://me:secret@b:6335"] {
            assert!(rest_address("http://a:6333", uri, false).is_err(), "{uri}");
        }
    }

    #[test]
    fn a_key_does_not_travel_in_clear_text() {
        let to = |configured, uri| rest_address(configured, uri, true).is_ok();
        assert!(to("http://127.0.0.1:6333", "http://127.0.0.2:6335/"));
        assert!(to("https://a:6333", "http://10.0.0.2:6335/"));
        assert!(!to("http://127.0.0.1:6333", "http://10.0.0.2:6335/"));
    }
}
