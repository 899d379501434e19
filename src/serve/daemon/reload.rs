//! Another configuration, read at a SIGHUP. One that is invalid changes nothing.

use std::sync::Arc;

use super::Daemon;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::error::Failure;
use crate::schedule::Schedule;
use crate::serve::manager::Manager;
use crate::serve::surveyor::Reading;

impl Daemon {
    /// Reads the configuration again.
    pub(super) fn reload(&mut self, now: Timestamp) {
        Manager::reloading();
        match (self.load)() {
            Ok(config) => self.accept(Arc::new(config), now),
            Err(failure) => {
                let Failure { message, hint, .. } = failure;
                tracing::error!(
                    error = message,
                    hint,
                    "the configuration is invalid: the one before it stays in force"
                );
                self.health.refuse();
            }
        }
        Manager::ready();
    }

    /// Goes on with another one. A run at work ends with the one that it began with.
    fn accept(&mut self, config: Arc<Config>, now: Timestamp) {
        if config.metrics.listen != self.config.metrics.listen {
            tracing::warn!("metrics.listen has changed: that takes a restart");
        }
        let is_known = |name: &str| config.stores.iter().any(|store| store.name == name);
        self.agenda
            .reschedule(Schedule::new(&config.schedule), is_known, now);
        self.metrics.reconfigure(&config, now);
        self.health.accept(Arc::clone(&config));
        self.config = config;
        self.reach.outdate();
        self.nights.outdate();
        self.surveyor.ask(Reading::All);
        tracing::info!("the configuration was read again");
    }
}
