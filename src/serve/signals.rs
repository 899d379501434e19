//! Which signals mean what.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Failure;
use crate::exit::Exit;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: end.
    End,
}

/// The signals that the daemon listens to.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::Failed, format!("listen to signals: {error}")))
        };
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.hangup.recv() => Request::Reload,
            _ = self.terminate.recv() => Request::End,
            _ = self.interrupt.recv() => Request::End,
        }
    }
}
