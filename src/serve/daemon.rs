//! The loop of the daemon, and what it decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::alarm::Alarm;
use super::health::Health;
use super::http::{self, Pages};
use super::manager::Manager;
use super::retry::Retry;
use super::signals::{Request, Signals};
use super::work::{Ended, Standing, Task, Work};
use super::{Load, cannot_listen, nights};
use crate::clock::{self, Stopwatch, Timestamp};
use crate::config::Config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::metrics::Metrics;
use crate::report::RunReport;
use crate::schedule::{Planner, Schedule};
use crate::stop::Stop;

/// How long an end waits for the batch at hand: less than the 90 seconds after which systemd kills.
const LAST_BATCH: Duration = Duration::from_mins(1);
/// How often the figures are read again that change without a run, such as the queue.
const REFRESH: Duration = Duration::from_mins(1);

struct Daemon {
    load: Load,
    config: Arc<Config>,
    planner: Planner,
    alarm: Alarm,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    manager: Manager,
    work: Option<Work>,
    /// Runs that did not end when they were asked to. They hold the lock of their store and nothing else.
    given_up: Vec<Work>,
    retry: Option<Retry>,
    /// How the last run ended, for people.
    last: Option<String>,
    refreshed: Stopwatch,
}

/// Runs until a signal ends it.
pub(super) async fn run(config: Arc<Config>, load: Load) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let address = config.metrics.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| cannot_listen(address, &error))?;
    let mut daemon = Daemon::new(config, load).await?;
    daemon.serve(listener);
    daemon.survey();
    daemon.catch_up(clock::now());
    Manager::ready();
    daemon.run(&mut signals).await;
    Ok(daemon.end(&mut signals).await)
}

impl Daemon {
    async fn new(config: Arc<Config>, load: Load) -> Result<Self, Failure> {
        let alarm = Alarm::new()
            .await
            .map_err(|error| Failure::new(Exit::Failed, format!("start the scheduler: {error}")))?;
        let last_good = nights::last_good(&config);
        Ok(Self {
            planner: Planner::new(Schedule::new(&config.schedule), clock::now()),
            alarm,
            metrics: Arc::new(Metrics::new(&config, clock::now())),
            health: Arc::new(Health::new(Arc::clone(&config), last_good)),
            manager: Manager::new(),
            work: None,
            given_up: Vec::new(),
            retry: None,
            last: None,
            refreshed: Stopwatch::start(),
            load,
            config,
        })
    }

    fn serve(&self, listener: TcpListener) {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "listening");
            if !address.ip().is_loopback() {
                tracing::warn!(%address, "not on loopback: whoever reaches it can read the figures");
            }
        }
        let pages = Pages {
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            probe: Arc::default(),
        };
        drop(tokio::spawn(http::serve(listener, pages)));
    }

    /// Counts the stores, so that the figures are there before the first run.
    fn survey(&self) {
        let (metrics, config) = (Arc::clone(&self.metrics), Arc::clone(&self.config));
        drop(spawn_blocking(move || {
            metrics.survey(&config, clock::now(), &Stop::default());
        }));
    }

    /// Makes up for a run that was missed, or cut off, while no daemon ran.
    fn catch_up(&mut self, now: Timestamp) {
        if !self.config.schedule.catch_up {
            return;
        }
        let missed = nights::missed(&self.config, self.planner.schedule(), now);
        if !missed.is_empty() {
            tracing::info!(
                stores = missed.join(", "),
                "a run was missed: it starts now"
            );
            self.start(Task::Run, missed);
        }
    }

    async fn run(&mut self, signals: &mut Signals) {
        let mut beat = interval(self.manager.beat());
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = self.alarm.rung() => {}
                ended = ended(&mut self.work) => self.ended(ended),
                request = signals.next() => match request {
                    Request::Reload => self.reload(clock::now()),
                    Request::End => return,
                },
            }
            self.look(clock::now()).await;
        }
    }

    /// Looks at the clock, and does what is due.
    async fn look(&mut self, now: Timestamp) {
        self.watch();
        if self.planner.is_due(now) {
            self.due();
        } else if self.work.is_none() && self.retry.as_ref().is_some_and(Retry::is_due) {
            let stores = self.retry.as_ref().map(|retry| retry.stores.clone());
            self.start(Task::Run, stores.unwrap_or_default());
        }
        let next = self.planner.next();
        self.metrics.set_next_run(next);
        self.alarm.set(next, now).await;
        self.refresh();
        self.manager.status(self.status());
    }

    /// Looks at the run at work, and says that the loop goes round.
    fn watch(&mut self) {
        let standing = self.work.as_ref().map_or(Standing::Fine, Work::look);
        match standing {
            Standing::Fine => {}
            Standing::OverBudget => {
                tracing::error!("the run takes longer than schedule.max_run: it is asked to end");
            }
            Standing::Hangs => {
                tracing::error!("the run hangs: it is given up, the next one is on its own");
                self.last = Some("failed, it hangs".to_owned());
                self.retry = None;
                self.given_up.extend(self.work.take());
            }
        }
        self.given_up.retain(|work| !work.is_finished());
        let hangs = !self.given_up.is_empty();
        self.health.beat(hangs);
        if !hangs {
            self.manager.alive();
        }
    }

    fn due(&mut self) {
        if let Some(work) = &self.work {
            tracing::warn!(since = %work.since, "a run is due while another one is at work: it is left out");
            return;
        }
        // It comes by the stores that were away, too.
        self.retry = None;
        self.start(Task::Run, Vec::new());
    }

    fn start(&mut self, task: Task, stores: Vec<String>) {
        let (config, metrics) = (Arc::clone(&self.config), Arc::clone(&self.metrics));
        self.work = Some(Work::start(task, stores, config, metrics));
    }

    /// Takes what came of the run.
    fn ended(&mut self, ended: Ended) {
        self.work = None;
        self.health.ran(ended.last_good);
        let report = match ended.report {
            Ok(report) => report,
            Err(panicked) => {
                tracing::error!(error = %panicked, "the run has failed");
                self.last = Some("failed, it panicked".to_owned());
                return;
            }
        };
        let (outcome, exit) = (report.outcome(), report.exit().code());
        tracing::info!(
            run = report.run,
            outcome,
            exit,
            seconds = report.seconds,
            "run ended"
        );
        self.last = Some(format!(
            "{outcome} (exit {exit}) at {:.0}",
            report.started_at
        ));
        if ended.task == Task::Run {
            self.try_again(&report);
        }
    }

    /// Plans another try for the stores that were away, or gives them up.
    fn try_again(&mut self, report: &RunReport) {
        let away: Vec<String> = report
            .unopened
            .iter()
            .filter(|store| store.is_away)
            .map(|store| store.store.to_string())
            .collect();
        let before = self.retry.take();
        if away.is_empty() || report.interrupted {
            return;
        }
        self.retry = match before {
            Some(before) => before.again(away.clone()),
            None => Retry::new(away.clone(), self.config.schedule.retry_for),
        };
        let stores = away.join(", ");
        if self.retry.is_some() {
            tracing::warn!(stores, "away: tried again later");
        } else {
            tracing::error!(
                stores,
                "away for all of schedule.retry_for: skipped until the next run"
            );
            self.start(Task::Skip, away);
        }
    }

    /// Reads again what changes without a run.
    fn refresh(&mut self) {
        if self.work.is_some() || self.refreshed.elapsed() < REFRESH {
            return;
        }
        self.refreshed = Stopwatch::start();
        let (metrics, config) = (Arc::clone(&self.metrics), Arc::clone(&self.config));
        drop(spawn_blocking(move || {
            metrics.refresh(&config, clock::now());
        }));
    }

    /// Reads the configuration again; one that is invalid changes nothing.
    fn reload(&mut self, now: Timestamp) {
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

    fn accept(&mut self, config: Arc<Config>, now: Timestamp) {
        if config.metrics.listen != self.config.metrics.listen {
            tracing::warn!("metrics.listen has changed: that takes a restart");
        }
        self.planner
            .reschedule(Schedule::new(&config.schedule), now);
        self.metrics.reconfigure(&config, clock::now());
        self.health.accept(Arc::clone(&config));
        self.config = config;
        self.survey();
        tracing::info!("the configuration was read again");
    }

    /// Lets the run at work finish its batch. A second signal, or a batch that takes too long, ends that as well: what
    /// was begun is finished by the next run.
    async fn end(mut self, signals: &mut Signals) -> Exit {
        Manager::stopping();
        tracing::info!("ending");
        let Some(work) = &mut self.work else {
            return Exit::Done;
        };
        work.ask_to_end();
        tokio::select! {
            ended = timeout(LAST_BATCH, work.ended()) => {
                if ended.is_ok() {
                    return Exit::Done;
                }
                tracing::warn!("the batch takes too long");
            }
            () = second_end(signals) => tracing::warn!("asked to end twice"),
        }
        Exit::Interrupted
    }

    fn status(&self) -> String {
        let now = match &self.work {
            Some(work) => format!("running since {:.0}", work.since),
            None => match self.planner.next() {
                Some(next) => format!("next run at {next:.0}"),
                None => "no run is planned".to_owned(),
            },
        };
        let away = self
            .retry
            .as_ref()
            .map(|retry| format!("away: {}", retry.stores.join(", ")));
        let last = self.last.as_ref().map(|last| format!("last run {last}"));
        let parts: Vec<String> = [Some(now), last, away].into_iter().flatten().collect();
        parts.join("; ")
    }
}

/// Waits for the end of the run at work; for ever when there is none.
async fn ended(work: &mut Option<Work>) -> Ended {
    match work {
        Some(work) => work.ended().await,
        None => std::future::pending().await,
    }
}

async fn second_end(signals: &mut Signals) {
    while signals.next().await != Request::End {}
}
