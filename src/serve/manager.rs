//! What systemd is told, by the protocol of `sd_notify`; nothing where it did not start the daemon.

use std::time::Duration;

use sd_notify::NotifyState;

/// Longest time between two looks at the clock.
const BEAT: Duration = Duration::from_secs(5);

/// The service manager.
#[derive(Debug, Default)]
pub(super) struct Manager {
    watchdog: Option<Duration>,
    said: String,
}

impl Manager {
    pub(super) fn new() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
            said: String::new(),
        }
    }

    /// How often the loop of the daemon goes round, at least: a third of the watchdog's patience, or less.
    pub(super) fn beat(&self) -> Duration {
        let third = self.watchdog.map_or(BEAT, |patience| patience / 3);
        third.clamp(Duration::from_millis(20), BEAT)
    }

    pub(super) fn ready() {
        notify(&[NotifyState::Ready]);
    }

    /// The configuration is being read again; [`Manager::ready`] ends that.
    pub(super) fn reloading() {
        // Since systemd 253 the one message must carry the other.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
    }

    pub(super) fn stopping() {
        notify(&[NotifyState::Stopping]);
    }

    /// The loop goes round, and nothing hangs.
    pub(super) fn alive(&self) {
        if self.watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// What `systemctl status` shows; sent when it has changed.
    pub(super) fn status(&mut self, status: String) {
        if self.said != status {
            notify(&[NotifyState::Status(&status)]);
            self.said = status;
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot reach the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beat_is_well_within_the_patience_of_the_watchdog() {
        for (patience, beat) in [
            (None, 5_000),
            (Some(60_000), 5_000),
            (Some(3_000), 1_000),
            (Some(1), 20),
        ] {
            let manager = Manager {
                watchdog: patience.map(Duration::from_millis),
                ..Manager::default()
            };
            assert_eq!(manager.beat(), Duration::from_millis(beat), "{patience:?}");
        }
    }
}
