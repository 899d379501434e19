//! The daemon: the passes on a schedule, their figures over HTTP, and a word to the service manager.
//!
//! ```text
//! alarm, beat, signals -> daemon -> agenda: what is due?  -> work, on a thread of its own -> engine
//!                           |                                   `-> journal -> surveyor -> metrics; nights
//!                           `-> health -> http: /metrics /healthz /readyz
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `daemon` | the loop; another configuration; the status in words |
//! | `agenda` | what is started next: nights, stores that are tried again |
//! | `alarm` | what wakes it when a run is due |
//! | `work` | one run on a thread of its own, within its budget of time |
//! | `retry` | when a store that is away is tried again |
//! | `nights` | what the journals know of the last nights |
//! | `surveyor` | reading the figures, one reading at a time |
//! | `health`, `probe` | what `/healthz` and `/readyz` answer |
//! | `http`, `limit` | the server, and what keeps its clients within bounds |
//! | `manager` | what systemd is told |
//! | `signals` | which signals mean what |
//!
//! Policy: one run at a time, and no night is lost: one that comes due during another run waits for its end. What fails
//! is said and does not keep the next one from its time: a run that panics has failed; one that overstays its budget is
//! asked to end; one that does not even do that is given up, and the watchdog of the service manager is no longer fed,
//! so that it starts the daemon anew. The state files make that harmless.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::error::Failure;
use crate::exit::Exit;

mod agenda;
mod alarm;
mod daemon;
mod health;
mod http;
mod limit;
mod manager;
mod nights;
mod probe;
mod retry;
mod signals;
mod surveyor;
mod work;

/// Reads the configuration: once at the start, and at every SIGHUP.
pub type Load = Box<dyn Fn() -> Result<Config, Failure> + Send>;

/// Runs until a signal ends it.
///
/// # Errors
///
/// When there is no valid configuration at the start, or the address of the HTTP server cannot be had.
pub fn serve(load: Load) -> Result<Exit, Failure> {
    let config = load()?;
    let runtime = runtime()?;
    let ended = runtime.block_on(daemon::run(Arc::new(config), load));
    // A run that hangs must not keep the process.
    runtime.shutdown_background();
    ended
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("start the daemon: {error}")))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("listen on {address}: {error}"));
    failure.with_hint(match error.kind() {
        ErrorKind::AddrInUse => "is another daemon running? the address is metrics.listen",
        ErrorKind::AddrNotAvailable => "metrics.listen is no address of this machine",
        ErrorKind::PermissionDenied => "metrics.listen: a port below 1024 takes a privilege",
        _ => "the address is metrics.listen",
    })
}

#[cfg(test)]
mod testing {
    use std::path::Path;
    use std::sync::Arc;

    use crate::config::{self, Config, Env};

    /// One store, at three each night.
    pub(super) fn nightly() -> Arc<Config> {
        configured("")
    }

    /// One store, and this schedule.
    pub(super) fn configured(schedule: &str) -> Arc<Config> {
        let text = format!("{schedule}\n[[store]]\nname = 'agent'\nrows.path = 'm.db'\n");
        let path = Path::new("/etc/hypnos/hypnos.toml");
        Arc::new(config::parse(&text, path, &Env::default()).unwrap())
    }
}
