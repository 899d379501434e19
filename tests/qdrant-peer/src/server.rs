//! A running server: one thread with its own runtime, so that it can be taken away as a whole.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::QdrantServer;
use qdrant_client::qdrant::snapshots_server::SnapshotsServer;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::gate::Gate;
use crate::rest::{self, Rest};
use crate::services::Services;
use crate::store::{Settings, Store};

/// How long a stop waits for engine calls under way.
const CALLS_END: Duration = Duration::from_secs(30);

/// Where a peer listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) grpc: SocketAddr,
    pub(crate) rest: SocketAddr,
}

/// The same places, listened to.
struct Listeners {
    grpc: TcpListener,
    rest: TcpListener,
}

impl Listeners {
    fn bind(at: Addresses) -> Self {
        let bind = |address| {
            let listener = TcpListener::bind(address).expect("bind the port");
            listener.set_nonblocking(true).expect("set up the listener");
            listener
        };
        Self {
            grpc: bind(at.grpc),
            rest: bind(at.rest),
        }
    }

    fn addresses(&self) -> Addresses {
        let address = |listener: &TcpListener| listener.local_addr().expect("read the port");
        Addresses {
            grpc: address(&self.grpc),
            rest: address(&self.rest),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) addresses: Addresses,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Opens `dir` and serves it. Port 0 is any free port.
    ///
    /// # Panics
    ///
    /// If the directory or a port cannot be used.
    pub(crate) fn start(
        dir: &Path,
        at: Addresses,
        settings: Settings,
        gate: Gate,
        max_message_bytes: Option<usize>,
    ) -> Self {
        let store =
            Store::open(dir, settings, gate.faults.clone()).expect("open the data directory");
        let store = Arc::new(store);
        gate.faults.attach(&store);
        let listeners = Listeners::bind(at);
        let addresses = listeners.addresses();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("qdrant-peer".to_owned())
            .spawn(move || serve(listeners, &store, gate, max_message_bytes, stopped))
            .expect("start the server thread");
        Self {
            addresses,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

/// Connections are cut, not drained.
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended by itself.
            let _: Result<(), ()> = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // What made it panic was printed then.
            drop(thread.join());
        }
    }
}

fn serve(
    listeners: Listeners,
    store: &Arc<Store>,
    gate: Gate,
    max_message_bytes: Option<usize>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = runtime();
    let services = Services(Arc::clone(store));
    let limit = max_message_bytes.unwrap_or(usize::MAX);
    runtime.block_on(async move {
        let register =
            |listener| tokio::net::TcpListener::from_std(listener).expect("register the listener");
        let rest = rest::router(Rest::new(Arc::clone(store), gate.clone()));
        let http = axum::serve(register(listeners.rest), rest);
        let incoming = TcpIncoming::from(register(listeners.grpc)).with_nodelay(Some(true));
        let serving = Server::builder()
            .layer(gate)
            .add_service(QdrantServer::new(services.clone()))
            .add_service(CollectionsServer::new(services.clone()))
            .add_service(SnapshotsServer::new(services.clone()))
            .add_service(
                PointsServer::new(services)
                    .max_decoding_message_size(limit)
                    .max_encoding_message_size(limit),
            )
            .serve_with_incoming(incoming);
        tokio::select! {
            result = serving => result.expect("serve gRPC"),
            result = http => result.expect("serve HTTP"),
            _ = stopped => {}
        }
    });
    runtime.shutdown_timeout(CALLS_END);
    store.settle();
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("qdrant-peer-worker")
        .enable_all()
        .build()
        .expect("start the runtime")
}
