//! A Qdrant server for tests: the gRPC interface and as much of the REST interface as snapshots need, on loopback, the
//! real engine behind them.
//!
//! ```text
//! qdrant-client -> gate (count, key, faults) -> services -> methods -> collection -> qdrant-edge
//! HTTP client   -> gate (the same)           -> rest     -> methods -> collection -> qdrant-edge
//! ```
//!
//! The engine decides what a point, a filter or an index is, so that a client is tested against what it will meet. The
//! peer adds what the server has and the engine in process has not: names and aliases, waiting and acknowledging, strict
//! mode, the words of its errors. Where it cannot do what the server does it answers `Unimplemented`, never something
//! that is nearly right: of the queries it knows the plain ones. It builds no vector index: every search is an exact
//! scan. A snapshot is a tar archive of the engine's own files, but not one that a real server could read.
//!
//! A [`Cluster`] is only told about: each node is a peer of its own, with its own points.
//!
//! Everything else is there to go wrong on purpose: see [`Faults`], [`Peer::stop`] and [`Peer::restart`].

mod collection;
mod convert;
mod durable;
mod error;
mod faults;
mod gate;
mod methods;
mod process;
mod rest;
mod server;
mod services;
mod snapshots;
mod store;
mod strict;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use faults::{Damage, Faults, METHODS};
pub use process::serve_process;
pub use qdrant_client::qdrant::StrictModeConfig;
pub use tonic::Code;

use convert::vector::Form;
use gate::{Calls, Gate};
use server::{Addresses, Running};
use store::Settings;

/// The cluster that a peer says it belongs to.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The peer itself.
    pub peer_id: u64,
    /// Every node, with the address at which nodes talk to each other.
    pub peers: BTreeMap<u64, String>,
}

/// How a peer is set up.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    /// The key that every call but the health check must carry. None is asked for without one.
    pub api_key: Option<String>,
    /// The strict mode of collections created without one of their own.
    pub strict_mode: Option<StrictModeConfig>,
    /// The version the health check reports.
    pub version: String,
    /// Vectors are answered in the flat fields, as servers before 1.16 do, and not in the oneof.
    pub flat_vectors: bool,
    /// The longest message of the points service, either way, as a proxy limits it. Unlimited without.
    pub max_message_bytes: Option<usize>,
    /// Where the data is. A temporary directory without.
    pub dir: Option<PathBuf>,
    /// The port on loopback, 0 for any that is free.
    pub port: u16,
    /// The port of the REST interface, 0 for any that is free.
    pub rest_port: u16,
    /// The address of the REST interface.
    pub rest_ip: Ipv4Addr,
    /// The cluster that the peer is a node of. On its own without.
    pub cluster: Option<Cluster>,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            api_key: None,
            strict_mode: None,
            version: "1.18.3".to_owned(),
            flat_vectors: false,
            max_message_bytes: None,
            dir: None,
            port: 0,
            rest_port: 0,
            rest_ip: Ipv4Addr::LOCALHOST,
            cluster: None,
        }
    }
}

/// A server on loopback. Dropping it stops it.
///
/// It has threads of its own: it is started and stopped from blocking code, and served while a test does what it wants.
#[derive(Debug)]
pub struct Peer {
    // Declared first: the server lets go of the files before the directory is removed.
    running: Option<Running>,
    addresses: Addresses,
    options: PeerOptions,
    faults: Faults,
    calls: Calls,
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Peer {
    /// Starts an empty server on a free port.
    ///
    /// # Panics
    ///
    /// If no directory or no port can be had.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(PeerOptions::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If the directory or the port cannot be used.
    #[must_use]
    pub fn start_with(options: PeerOptions) -> Self {
        let temporary = options
            .dir
            .is_none()
            .then(|| tempfile::tempdir().expect("make a temporary directory"));
        let dir = match (&options.dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => unreachable!("a temporary directory is made when none is given"),
        };
        let mut peer = Self {
            running: None,
            addresses: Addresses {
                grpc: (Ipv4Addr::LOCALHOST, options.port).into(),
                rest: (options.rest_ip, options.rest_port).into(),
            },
            options,
            faults: Faults::default(),
            calls: Calls::default(),
            dir,
            _temporary: temporary,
        };
        peer.restart();
        peer
    }

    /// The address for a gRPC client. It stays the same over restarts.
    #[must_use]
    pub fn url(&self) -> String {
        http(self.addresses.grpc)
    }

    /// The address for an HTTP client. It stays the same over restarts.
    #[must_use]
    pub fn rest_url(&self) -> String {
        http(self.addresses.rest)
    }

    /// The port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addresses.grpc.port()
    }

    /// Where the data is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What goes wrong.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// How often each method was called since the start, refused and failed calls too.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.calls.all()
    }

    /// How often `method` was called since the start.
    ///
    /// # Panics
    ///
    /// If the name is not in [`METHODS`].
    #[must_use]
    pub fn calls_of(&self, method: &str) -> u64 {
        let method = faults::known(method);
        self.calls.all().get(&method).copied().unwrap_or(0)
    }

    /// Disappears: the ports are closed and every connection cut. Calls under way get no answer.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Stops, if it runs, and comes back on the same ports with the same data.
    ///
    /// # Panics
    ///
    /// If a port was taken by another process meanwhile, or the data cannot be opened.
    pub fn restart(&mut self) {
        self.stop();
        let settings = Settings {
            version: self.options.version.clone(),
            cluster: self.options.cluster.clone(),
            strict_mode: self.options.strict_mode.clone(),
            form: if self.options.flat_vectors {
                Form::Flat
            } else {
                Form::Oneof
            },
        };
        let gate = Gate {
            calls: self.calls.clone(),
            faults: self.faults.clone(),
            api_key: self.options.api_key.as_deref().map(Arc::from),
        };
        let limit = self.options.max_message_bytes;
        let running = Running::start(&self.dir, self.addresses, settings, gate, limit);
        self.addresses = running.addresses;
        self.running = Some(running);
    }
}

fn http(address: SocketAddr) -> String {
    format!("http://{address}")
}
