//! The engine: one run over the configured stores.
//!
//! ```text
//! config -> stores -> lock -> run id -> replay open intents
//!   per store, per pass:  View(now) -> plan -> [a dry run stops here] -> guard -> apply -> re-plan -> PassReport
//! RunReport -> journal, output, exit code
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `run` | a run over one store: what was begun, then the passes |
//! | `dry_run` | the same, ending at the plans; writes nothing |
//! | `verdict` | what the guard is asked, and how a pass that could not plan is reported |
//! | `by_hand` | the frame of what a person asks for between two nights |
//! | `account` | counting what runs did that were killed |
//! | `pairs` | pairs of snapshots that a person asks for |
//! | `place` | whether the state is of this very store |
//! | `journal` | the lock, and what is written down of a run |
//! | `skip` | writing down that a store was given up |
//!
//! A pass that fails is reported and does not keep the later ones from running; a store that cannot be opened, or on
//! which the program itself panics, does not keep the other stores from being done.

use uuid::Uuid;

use crate::clock::{Stopwatch, Timestamp};
use crate::config::{self, Config};
use crate::error::Failure;
use crate::exit::Exit;
use crate::guard::Acceptances;
use crate::panics::{self, Panicked};
use crate::pass::{Cx, Pass, PassName, registry};
use crate::plan::Plan;
use crate::report::{Cause, PassReport, RunReport, Unopened};
use crate::state::IntentRecord;
use crate::store::Stores;

mod account;
pub(crate) mod by_hand;
mod dry_run;
mod journal;
mod pairs;
pub(crate) mod place;
mod run;
mod skip;
mod verdict;

pub use pairs::{How, give_up_restore, restore, take_now};
pub use skip::skip;

pub(crate) use journal::{injected, state_failure};

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id of the run.
    pub run: String,
    /// The instant it plans for.
    pub now: Timestamp,
    /// Only these passes; empty for all that are enabled.
    pub only: Vec<PassName>,
    /// Not these passes.
    pub skip: Vec<PassName>,
    /// Only these stores; empty for all.
    pub stores: Vec<String>,
    /// Plans that a person accepted.
    pub accept: Acceptances,
    /// How the run came about, for the lock and the journal.
    pub command: String,
}

impl Options {
    /// A run of everything, with a new id.
    #[must_use]
    pub fn new(now: Timestamp, command: &str) -> Self {
        Self {
            run: Uuid::now_v7().to_string(),
            now,
            only: Vec::new(),
            skip: Vec::new(),
            stores: Vec::new(),
            accept: Acceptances::default(),
            command: command.to_owned(),
        }
    }

    fn wants(&self, pass: PassName) -> bool {
        (self.only.is_empty() || self.only.contains(&pass)) && !self.skip.contains(&pass)
    }

    fn wants_store(&self, name: &str) -> bool {
        self.stores.is_empty() || self.stores.iter().any(|wanted| wanted == name)
    }
}

/// Hears of each pass as it ends.
pub trait Observer {
    /// An earlier run was cut off, and a run would first finish these actions of one row database (`main`, or the
    /// tenant).
    fn begun(&mut self, store: &str, partition: &str, intents: &[IntentRecord]);
    /// A plan was made and nothing will be done with it.
    fn planned(&mut self, plan: &Plan, report: &PassReport);
    /// A pass has ended.
    fn passed(&mut self, report: &PassReport);
    /// A store could not be opened.
    fn unopened(&mut self, store: &Unopened);
}

/// Runs the passes over the stores.
pub fn run(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
) -> RunReport {
    each_store(config, options, cx, observer, |store, report, observer| {
        run::run_store(config, store, options, cx, report, observer)
    })
}

/// Plans every pass and changes nothing: neither a store, nor a state file, nor a lock.
pub fn dry_run(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
) -> RunReport {
    each_store(config, options, cx, observer, |store, report, observer| {
        Ok(dry_run::dry_run_store(
            config, store, options, cx, report, observer,
        )?)
    })
}

/// How a night is called that the daemon started, in the lock and in the journal.
pub const BY_SCHEDULE: &str = "serve";
/// How one is called that a person or a timer asked for.
pub const RUN_NOW: &str = "--run-now";
/// How the first one of the demonstration is called.
pub const DEMO: &str = "demo";
/// The runs that were meant to come by every pass. One of some passes has another name.
pub const NIGHTS: [&str; 3] = [BY_SCHEDULE, RUN_NOW, DEMO];

/// Why the work on a store ended early.
enum Stopped {
    /// The store is not there, or not free.
    Away(Failure),
    /// It could not be done.
    Failed(Failure),
    /// The program is wrong.
    Panicked(Panicked),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Stopped {
    fn exit(&self) -> Exit {
        match self {
            Self::Away(failure) | Self::Failed(failure) => failure.exit,
            Self::Panicked(_) => Exit::Failed,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Away(failure) | Self::Failed(failure) => failure.message.clone(),
            Self::Panicked(panicked) => panicked.to_string(),
        }
    }

    fn into_unopened(self, store: &config::Store) -> Unopened {
        let cause = match &self {
            _ if self.exit() == Exit::Locked => Cause::Held,
            Self::Away(failure) if failure.exit != Exit::Config => Cause::Away,
            _ => Cause::Lasting,
        };
        let Failure {
            exit,
            message,
            hint,
        } = match self {
            Self::Away(failure) | Self::Failed(failure) => failure,
            Self::Panicked(panicked) => panicked.into(),
        };
        Unopened {
            store: store.name.as_str().into(),
            error: message,
            hint,
            exit,
            cause,
        }
    }
}

fn each_store(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
    mut work: impl FnMut(&config::Store, &mut RunReport, &mut dyn Observer) -> Result<(), Stopped>,
) -> RunReport {
    let watch = Stopwatch::start();
    let mut report = RunReport::new(&options.run, options.now);
    for store in config
        .stores
        .iter()
        .filter(|store| options.wants_store(&store.name))
    {
        if cx.stop.is_requested() {
            report.interrupted = true;
        }
        if report.interrupted {
            break;
        }
        let work = panics::catch(|| work(store, &mut report, observer));
        let Err(stopped) = work.unwrap_or_else(|panicked| Err(Stopped::Panicked(panicked))) else {
            continue;
        };
        if stopped.exit() == Exit::Interrupted {
            report.interrupted = true;
            break;
        }
        let unopened = stopped.into_unopened(store);
        observer.unopened(&unopened);
        report.unopened.push(unopened);
    }
    report.seconds = watch.elapsed().as_secs_f64();
    report
}

/// The passes that are switched on and asked for, in their order.
fn passes<'a>(
    options: &'a Options,
    stores: &'a Stores,
) -> impl Iterator<Item = &'static dyn Pass> + 'a {
    registry()
        .into_iter()
        .filter(|pass| options.wants(pass.name()) && pass.name().is_enabled(&stores.config.passes))
}

/// The passes to plan in a dry run: those, and what was asked for by name although it is switched off, to see what it
/// would do.
fn passes_to_plan<'a>(
    options: &'a Options,
    stores: &'a Stores,
) -> impl Iterator<Item = &'static dyn Pass> + 'a {
    registry().into_iter().filter(|pass| {
        let is_named = options.only.contains(&pass.name());
        options.wants(pass.name()) && (is_named || pass.name().is_enabled(&stores.config.passes))
    })
}
