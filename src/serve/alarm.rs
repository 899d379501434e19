//! What wakes the daemon when a run is due: a one-shot job of tokio-cron-scheduler, set anew for each run.
//!
//! The alarm is not believed. The crate keeps whole seconds only, so that it may ring a little early, and it keeps a
//! job's instant by the clock as it was when the job was set; so whoever is woken looks at the clock again, and looks from
//! time to time without being woken (docs/adr/0005-alarm-and-beat.md).

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use uuid::Uuid;

use crate::clock::Timestamp;

/// The crate drops the fractions of both the clock and the time to wait.
const DROPPED: Duration = Duration::from_secs(1);

/// Rings at one instant at most.
pub(super) struct Alarm {
    scheduler: JobScheduler,
    set: Option<(Timestamp, Uuid)>,
    ringer: mpsc::Sender<()>,
    bell: mpsc::Receiver<()>,
}

impl Alarm {
    pub(super) async fn new() -> Result<Self, JobSchedulerError> {
        let scheduler = JobScheduler::new().await?;
        scheduler.start().await?;
        let (ringer, bell) = mpsc::channel(1);
        Ok(Self {
            scheduler,
            set: None,
            ringer,
            bell,
        })
    }

    /// Sets it to `at`, as seen from `now`; `None` switches it off.
    pub(super) async fn set(&mut self, at: Option<Timestamp>, now: Timestamp) {
        if self.set.map(|(at, _)| at) == at {
            return;
        }
        if let Err(error) = self.try_set(at, now).await {
            tracing::warn!(%error, "cannot set the alarm: a run may start some seconds late");
        }
    }

    async fn try_set(
        &mut self,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), JobSchedulerError> {
        if let Some((_, job)) = self.set.take() {
            self.scheduler.remove(&job).await?;
        }
        let Some(at) = at else { return Ok(()) };
        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let ringer = self.ringer.clone();
        let job = Job::new_one_shot(left + DROPPED, move |_, _| {
            // When it is full, the bell is ringing already.
            let _ = ringer.try_send(());
        })?;
        self.set = Some((at, self.scheduler.add(job).await?));
        Ok(())
    }

    /// Waits until it rings; then it is no longer set.
    pub(super) async fn rung(&mut self) {
        // A sender is kept here, so it always is a ring.
        self.bell.recv().await;
        self.set = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_rings_for_the_instant_that_was_set_last() {
        let mut alarm = Alarm::new().await.unwrap();
        let now = clock::now();
        let far = now + Duration::from_hours(10_000);
        alarm.set(Some(far), now).await;
        alarm.set(Some(now), now).await;
        alarm.rung().await;
        assert_eq!(alarm.set, None);
        // It can be set again to the same instant, by who finds that it rang too early.
        alarm.set(Some(now), now).await;
        alarm.rung().await;
        alarm.set(Some(far), now).await;
        alarm.set(None, now).await;
        assert_eq!(alarm.set, None);
    }
}
