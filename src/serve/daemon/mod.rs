//! The loop of the daemon: it looks at the clock, starts what is due, and takes what came of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::agenda::{Agenda, Errand};
use super::alarm::Alarm;
use super::health::Health;
use super::http::{self, Pages};
use super::manager::Manager;
use super::probe::{self, Probe};
use super::signals::{Request, Signals};
use super::surveyor::{Reading, Surveyor};
use super::work::{Ended, Standing, Work};
use super::{Load, cannot_listen, nights};
use crate::clock::{self, Timestamp};
use crate::config::Config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::metrics::Metrics;
use crate::report::RunReport;
use crate::schedule::{Planner, Schedule};

mod reload;
mod status;

/// How long an end waits for the batch at hand: less than the 90 seconds after which systemd kills.
const LAST_BATCH: Duration = Duration::from_mins(1);

struct Daemon {
    load: Load,
    config: Arc<Config>,
    agenda: Agenda,
    alarm: Alarm,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    reach: Arc<Probe<Vec<String>>>,
    nights: Arc<Probe<Vec<nights::Standing>>>,
    manager: Manager,
    work: Option<Work>,
    /// Runs that did not end when they were asked to. They hold the lock of their store and nothing else.
    given_up: Vec<Work>,
    /// How the last run ended, for people.
    last: Option<String>,
    surveyor: Surveyor,
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
        Ok(Self {
            agenda: Agenda::new(Planner::new(Schedule::new(&config.schedule), clock::now())),
            alarm,
            metrics: Arc::new(Metrics::new(&config, clock::now())),
            reach: Arc::new(Probe::new(probe::unreachable)),
            nights: Arc::new(Probe::new(nights::standings)),
            health: Arc::new(Health::new(Arc::clone(&config))),
            manager: Manager::new(),
            work: None,
            given_up: Vec::new(),
            last: None,
            surveyor: Surveyor::new(),
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
            reach: Arc::clone(&self.reach),
            nights: Arc::clone(&self.nights),
        };
        drop(tokio::spawn(http::serve(listener, pages)));
    }

    /// Makes up for a run that was missed, or cut off, while no daemon ran.
    fn catch_up(&mut self, now: Timestamp) {
        if !self.config.schedule.catch_up {
            return;
        }
        let missed = nights::missed(&self.config, self.agenda.schedule(), now);
        if !missed.is_empty() {
            tracing::info!(
                stores = missed.join(", "),
                "a run was missed: it starts now"
            );
            let errand = self.agenda.catch_up(missed, now);
            self.start(errand);
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
        if let Some(errand) = self.agenda.look(now, self.work.is_some()) {
            self.start(errand);
        }
        self.metrics.set_next_run(self.agenda.next_run());
        self.alarm.set(self.agenda.planned(), now).await;
        self.surveyor.look(&self.config, &self.metrics);
        self.manager.status(self.status());
    }

    /// Looks at the run at work, and says that the loop goes round.
    fn watch(&mut self) {
        let standing = self.work.as_mut().map_or(Standing::Fine, Work::look);
        match standing {
            Standing::Fine => {}
            Standing::OverBudget => {
                tracing::error!("the run takes longer than schedule.max_run: it is asked to end");
            }
            Standing::Hangs => {
                tracing::error!("the run hangs: it is given up, the next one is on its own");
                self.last = Some("failed, it hangs".to_owned());
                self.agenda.failed();
                self.given_up.extend(self.work.take());
            }
        }
        self.given_up.retain(|work| {
            let is_finished = work.is_finished();
            if is_finished {
                tracing::info!(since = %work.since, "the run that was given up has ended");
            }
            !is_finished
        });
        let hangs = !self.given_up.is_empty();
        self.health.beat(hangs);
        if !hangs {
            self.manager.alive();
        }
    }

    fn start(&mut self, errand: Errand) {
        self.work = Some(Work::start(errand, Arc::clone(&self.config)));
    }

    /// Takes what came of the run.
    fn ended(&mut self, ended: Ended) {
        self.work = None;
        self.surveyor.ask(Reading::All);
        self.nights.outdate();
        let report = match ended.report {
            Ok(report) => report,
            Err(panicked) => {
                tracing::error!(error = %panicked, "the run has failed");
                self.last = Some("failed, it panicked".to_owned());
                self.agenda.failed();
                return;
            }
        };
        self.last = Some(said(&report));
        self.health.ran(&report);
        self.agenda
            .ended(ended.task, &report, self.config.schedule.retry_for);
    }

    /// Lets the run at work finish its batch. A second signal, or a batch that takes too long, ends that as well: what
    /// was begun is finished by the next run.
    async fn end(mut self, signals: &mut Signals) -> Exit {
        if let Some(work) = &self.work {
            work.ask_to_end();
        }
        Manager::stopping();
        tracing::info!("ending");
        let Some(work) = &mut self.work else {
            return Exit::Done;
        };
        tokio::select! {
            ended = timeout(LAST_BATCH, work.ended()) => {
                if let Ok(ended) = ended {
                    match &ended.report {
                        Ok(report) => drop(said(report)),
                        Err(panicked) => tracing::error!(error = %panicked, "the run has failed"),
                    }
                    return Exit::Done;
                }
                tracing::warn!("the batch takes too long");
            }
            () = second_end(signals) => tracing::warn!("asked to end twice"),
        }
        Exit::Interrupted
    }
}

/// Says how a run has ended, in the log; the same in few words.
fn said(report: &RunReport) -> String {
    let (outcome, exit) = (report.outcome(), report.exit().code());
    tracing::info!(
        run = report.run,
        outcome,
        exit,
        seconds = report.seconds,
        "run ended"
    );
    format!("{outcome} (exit {exit}) at {:.0}", report.started_at)
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
