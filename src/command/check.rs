//! `hypnos check`: the configuration, the stores, the drift between their halves, and what to do about it.
//!
//! Writes nothing: it opens the stores read-only, plans the passes as a dry run would, and asks whether a run could write.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::cli::Global;
use crate::clock;
use crate::config::{self, Config};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::memory::{MemoryId, Role};
use crate::metrics::names::Drift;
use crate::output::Out;
use crate::output::findings::explain;
use crate::output::progress::Bars;
use crate::output::run::counts;
use crate::output::words::counted;
use crate::pass::{Cx, Pass, PassError, PassName, Progress, Silent, registry};
use crate::plan::{Action, ActionKind, Finding, Plan, Reason, Tally, Unread};
use crate::state::Partition;
use crate::stop::Stop;
use crate::store::Stores;
use crate::store::obstacles::{Obstacle, obstacles};
use crate::store::rows::{self, RowError};
use crate::store::sqlite::Access;
use crate::view::{Sightings, View};

/// Checks the stores.
pub(super) fn check(names: &[String], global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    Ok(check_stores(&config, names, global, out))
}

/// Checks stores of a configuration, all of them where none is named.
pub(super) fn check_stores(
    config: &Config,
    names: &[String],
    global: &Global,
    out: &mut Out,
) -> Exit {
    let bars = Bars::default();
    let progress: &dyn Progress = if out.terminal && !global.quiet {
        &bars
    } else {
        &Silent
    };
    let (stop, mut gravest) = (Stop::default(), Exit::Done);
    let cx = Cx {
        stop: &stop,
        progress,
    };
    for store in config
        .stores
        .iter()
        .filter(|store| names.is_empty() || names.contains(&store.name))
    {
        let report = match Stores::open(store, &config.state_dir, Access::Read, &stop) {
            Ok(stores) => Report::of(&stores, &cx),
            Err(failure) => Report::unopened(store, failure),
        };
        report.print(out);
        let exit = report.exit();
        if exit.gravity() > gravest.gravity() {
            gravest = exit;
        }
    }
    gravest
}

/// What is wrong, and what to do about it.
#[derive(Debug, Serialize)]
struct Problem {
    problem: String,
    advice: &'static str,
}

#[derive(Debug, Serialize)]
struct Report {
    store: String,
    ok: bool,
    /// Rows by namespace, added up.
    memories: u64,
    points: Option<u64>,
    journal_mode: Option<String>,
    /// What the vector store says of itself.
    vectors: Option<String>,
    /// Differences between the two halves, and inside the rows, by kind; all kinds are always there.
    drift: BTreeMap<&'static str, u64>,
    /// Where the application's log and the points differ, all kinds; none for a store without a log.
    #[serde(flatten)]
    of_log: BTreeMap<&'static str, u64>,
    /// Absences of rows and owners that no run has seen for long enough: what a night will remove, if they last.
    settling: u64,
    /// What a run would do now.
    backlog: BTreeMap<PassName, Tally<ActionKind>>,
    problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
    /// Points that have no row as far as anybody can tell, since the rule for their ids is probably wrong.
    #[serde(skip)]
    mismatched: u64,
    /// Whether a time is mapped that says how old a memory is.
    #[serde(skip)]
    is_dated: bool,
    #[serde(skip)]
    is_open: bool,
    #[serde(skip)]
    exit: Exit,
}

const DRIFT: [&str; 11] = [
    "row_without_point",
    "point_without_row",
    "unlinked_point",
    "point_without_namespace",
    "stale_point",
    "broken_chain",
    "unreadable_time",
    "dead_link",
    "stray_child",
    "foreign_key_violation",
    "corrupt_file",
];

/// The times that tell how old a memory is.
const AGES: [Role; 3] = [Role::CreatedAt, Role::LastUsedAt, Role::ConfirmedAt];

fn advice(kind: &str) -> &'static str {
    match kind {
        "row_without_point" => "let the agent embed them again: hypnos makes no vectors",
        "point_without_row" => {
            "the orphans pass drops them once they have settled, where an owners table speaks for them"
        }
        "unlinked_point" => {
            "the orphans pass drops them once they have settled: they stand for nothing any more"
        }
        "point_without_namespace" => {
            "give them the namespace key, or delete them by hand: hypnos never guesses"
        }
        "stale_point" => {
            "let the agent embed those memories again: until then their vectors are compared with none"
        }
        "broken_chain" => {
            "they stay hidden; clear or correct superseded_by if their successor should not have gone"
        }
        "unreadable_time" => {
            "correct the value or the encoding in [store.rows]: until then those memories are kept"
        }
        "dead_link" => {
            "the orphans pass takes the ids out once they have settled; what names no owner, or is no list of ids, it leaves"
        }
        "stray_child" => {
            "no pass removes them: their memory may be in a backup or on another device; delete them by hand, with the agent stopped"
        }
        "foreign_key_violation" => "see PRAGMA foreign_key_check; hypnos leaves them as they are",
        _ => "stop the agent, restore the file from a backup, and check it again",
    }
}

/// How many points list a memory that is gone, and not one that the plan removes.
fn lists_to_mend(plan: &Plan) -> u64 {
    if plan.pass != PassName::Orphans {
        return 0;
    }
    let targets: HashSet<&MemoryId> = plan
        .actions
        .iter()
        .filter_map(Action::target)
        .map(|target| &target.memory.id)
        .collect();
    let is_dead = |action: &&Action| match action {
        Action::Unlink { ids, .. } => ids.iter().any(|id| !targets.contains(id)),
        _ => false,
    };
    plan.actions.iter().filter(is_dead).count() as u64
}

/// Where the log of a store and its points can differ; nowhere without a log.
fn kinds_of_log(store: &config::Store) -> BTreeMap<&'static str, u64> {
    let kinds = Finding::OF_LOG.iter().filter(|_| store.log.is_some());
    kinds.map(|kind| (kind.as_str(), 0)).collect()
}

impl Report {
    fn empty(store: &config::Store) -> Self {
        Self {
            store: store.name.clone(),
            ok: false,
            memories: 0,
            points: None,
            journal_mode: None,
            vectors: None,
            drift: DRIFT.into_iter().map(|kind| (kind, 0)).collect(),
            of_log: kinds_of_log(store),
            settling: 0,
            backlog: BTreeMap::new(),
            problems: Vec::new(),
            unread: Vec::new(),
            mismatched: 0,
            is_dated: AGES.iter().any(|role| store.rows.source(*role).is_some()),
            is_open: true,
            exit: Exit::Done,
        }
    }

    fn unopened(store: &config::Store, failure: Failure) -> Self {
        let mut report = Self::empty(store);
        report.exit = failure.exit;
        report.is_open = false;
        let message = match failure.hint {
            Some(hint) => format!("{} ({hint})", failure.message),
            None => failure.message,
        };
        report.problems.push(Problem {
            problem: message,
            advice: "correct the configuration or start the store",
        });
        report
    }

    fn of(stores: &Stores, cx: &Cx<'_>) -> Self {
        let mut report = Self::empty(&stores.config);
        if !stores.config.confirmed {
            report.problem(
                "the mapping is a guess that nobody has confirmed",
                "correct it where it says guess and set confirmed = true: until then the store is only read",
            );
        }
        let state = stores
            .state
            .read(Partition::Main)
            .and_then(|state| match state {
                Some(state) => Ok((state.count_open_intents()?, state.sightings()?)),
                None => Ok((0, Sightings::new())),
            });
        let sightings = match state {
            Ok((open, sightings)) => {
                if open > 0 {
                    report.problem(
                        "an earlier run was cut off",
                        "the next run finishes what it had begun",
                    );
                }
                sightings
            }
            Err(error) => {
                report.problem(
                    chain(&error),
                    "see the hint; undo and queue live in that file, memories do not",
                );
                Sightings::new()
            }
        };
        let view = View::new(clock::now(), stores, &sightings);
        for Obstacle { problem, advice } in obstacles(stores, cx.stop) {
            report.problem(problem, advice);
        }
        report.read_files(&view);
        report.read_vectors(&view);
        let enabled = |pass: &&dyn Pass| pass.name().is_enabled(&stores.config.passes);
        let passes = registry().into_iter();
        for pass in passes.filter(|pass| pass.name().is_about_memories() || enabled(pass)) {
            match pass.decide(&view, cx) {
                Ok(plan) => {
                    // A pass that is switched off still sees drift, but will do nothing about it.
                    let is_on = pass.name().is_enabled(&stores.config.passes);
                    report.take(&plan, is_on);
                    if is_on && !plan.is_empty() {
                        report.backlog.insert(plan.pass, plan.counts());
                    }
                }
                Err(error) => report.failed_pass(pass.name(), &error),
            }
        }
        if stores.config.owners.is_none() {
            tracing::info!(store = %stores.name, "no owners table: nothing is ever swept as an orphan");
        }
        report.conclude();
        report
    }

    /// Names a problem, once: several passes see the same.
    fn problem(&mut self, problem: impl Into<String>, advice: &'static str) {
        let problem = problem.into();
        if self.problems.iter().all(|known| known.problem != problem) {
            self.problems.push(Problem { problem, advice });
        }
    }

    fn drift(&mut self, kind: &'static str, count: u64) {
        *self.drift.entry(kind).or_default() += count;
    }

    /// Reads each row database: its size, journal mode, integrity and foreign keys.
    fn read_files(&mut self, view: &View<'_>) {
        let partitions = match view.partitions() {
            Ok(partitions) => partitions,
            Err(error) => {
                return self.problem(
                    chain(&error),
                    "is the folder of the tenants where [store.rows] says?",
                );
            }
        };
        for partition in partitions {
            if let Err(error) = self.read_file(view, &partition) {
                self.unread.push(Unread::of_error(&partition.name, &error));
            }
        }
        if self
            .journal_mode
            .as_deref()
            .is_some_and(|mode| mode != "wal")
        {
            self.problem(
                "the row database is not in WAL mode",
                "readers and the agent block each other: the agent should set PRAGMA journal_mode = WAL",
            );
        }
    }

    fn read_file(&mut self, view: &View<'_>, partition: &rows::Partition) -> Result<(), RowError> {
        let health = view.health(partition)?;
        self.memories += health.memories;
        // The rest is about a file of hypnos' own.
        if view.config().rows.are_points() {
            return Ok(());
        }
        self.journal_mode.get_or_insert(health.journal_mode);
        self.drift("corrupt_file", u64::from(health.damage.is_some()));
        match health.foreign_key_violations {
            Some(count) => self.drift("foreign_key_violation", count),
            None => self.problem(
                format!("{}: a foreign key does not fit its parent table", partition.name),
                "it names columns that are no key there: SQLite can neither check nor enforce it; correct the schema",
            ),
        }
        Ok(())
    }

    fn read_vectors(&mut self, view: &View<'_>) {
        let Some(vectors) = view.vectors() else {
            return;
        };
        match vectors.describe() {
            Ok(description) => {
                self.points = Some(description.points);
                let dimensions = description
                    .dimensions
                    .map(|n| format!(", {n} dimensions"))
                    .unwrap_or_default();
                self.vectors = Some(format!(
                    "{} {}{dimensions}",
                    description.backend, description.version
                ));
                let config = view.config();
                let can_be = config
                    .vectors
                    .as_ref()
                    .is_some_and(|vectors| !vectors.namespace_is_expression());
                if !description.namespace_indexed && can_be && !config.rows.are_points() {
                    self.problem(
                        "the namespace key of the points is not indexed",
                        "every pass reads all points: create an index (Qdrant: a keyword payload index)",
                    );
                }
            }
            Err(error) => self.problem(chain(&error), "is the vector store up?"),
        }
    }

    /// Takes in what a pass sees, which may be switched off.
    fn take(&mut self, plan: &Plan, is_on: bool) {
        for (finding, count) in &plan.findings {
            if Finding::OF_LOG.contains(finding) {
                // A log is no truth: nothing is wrong with the store.
                self.of_log.insert(finding.as_str(), *count);
            } else if *finding == Finding::Settling {
                self.settling += *count;
            } else if *finding == Finding::Unreadable {
                // Several passes read the times of the same memory: it is one. A pass that is off needs none.
                let known = self.drift.entry("unreadable_time").or_default();
                *known = (*known).max(if is_on { *count } else { 0 });
            } else if let Some(kind) = Drift::of(*finding) {
                self.drift(kind.as_str(), *count);
            } else if *finding == Finding::RuleMismatch {
                self.mismatched = *count;
                self.problem(
                    format!(
                        "{} no row of their namespace, nor does any other point there",
                        counted(*count, "point fits", "points fit")
                    ),
                    "point_id in [store.vectors] is probably not the rule that the agent uses: nothing of them is removed",
                );
            } else if matches!(
                finding,
                Finding::WithoutKey | Finding::WithoutNamespace | Finding::PointWithoutKey
            ) {
                self.problem(
                    explain(*finding, *count),
                    "give them a key and an owner, or delete them by hand: no pass touches them",
                );
            } else if *finding == Finding::Blocked {
                self.problem(
                    format!(
                        "{} cannot be removed",
                        counted(*count, "memory", "memories")
                    ),
                    "other rows forbid it, belong to somebody else, or would go along: -v names them and why",
                );
            }
        }
        for action in &plan.actions {
            match action {
                Action::DropPoint {
                    reason: Reason::Unlinked,
                    ..
                } => self.drift("unlinked_point", 1),
                Action::DropPoint { .. } => self.drift("point_without_row", 1),
                _ => {}
            }
        }
        self.drift("dead_link", lists_to_mend(plan));
        if plan.unproven {
            self.problem(
                "not one of the ids in lists is a memory's",
                "are they lists of these memories? every run refuses to take the ids out, and names the hash for --accept",
            );
        }
        for unread in &plan.unread {
            if !self
                .unread
                .iter()
                .any(|known| known.partition == unread.partition)
            {
                self.unread.push(unread.clone());
            }
        }
    }

    fn failed_pass(&mut self, pass: PassName, error: &PassError) {
        self.problem(
            format!("{pass}: {}", chain(error)),
            "until this reads, the pass removes nothing",
        );
    }

    fn conclude(&mut self) {
        let drifted: Vec<(&'static str, u64)> = self
            .drift
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(kind, count)| (*kind, *count))
            .collect();
        for (kind, count) in drifted {
            match kind {
                // Told apart already, with what to do about them.
                "point_without_row" if count <= self.mismatched => {}
                "point_without_row" => {
                    let lost = count - self.mismatched;
                    self.problem(format!("{lost} {kind}"), advice(kind));
                }
                "unreadable_time" if !self.is_dated => self.problem(
                    "no created_at is mapped, nor another time that says how old a memory is",
                    "name the column in [store.rows]: until then no memory fades, expires by its age or becomes a question",
                ),
                _ => self.problem(format!("{count} {kind}"), advice(kind)),
            }
        }
        self.ok = self.problems.is_empty() && self.unread.is_empty();
        if !self.ok && self.exit == Exit::Done {
            self.exit = Exit::LeftOver;
        }
    }

    fn exit(&self) -> Exit {
        self.exit
    }

    fn print(&self, out: &mut Out) {
        if out.json {
            out.object("check", self);
            return;
        }
        if !self.is_open {
            out.line(&format!("{}  not opened", self.store));
            return self.print_problems(out);
        }
        let points = self
            .points
            .map(|points| format!(", {}", counted(points, "point", "points")))
            .unwrap_or_default();
        let vectors = self
            .vectors
            .as_ref()
            .map(|vectors| format!(" in {vectors}"))
            .unwrap_or_default();
        let verdict = if self.ok { "ok" } else { "needs attention" };
        out.line(&format!(
            "{}  {verdict}: {}{points}{vectors}",
            self.store,
            counted(self.memories, "memory", "memories")
        ));
        for finding in Finding::OF_LOG {
            let count = self.of_log.get(finding.as_str()).copied();
            if let Some(count) = count.filter(|count| *count > 0) {
                out.line(&format!("  {}", explain(finding, count)));
            }
        }
        if self.settling > 0 {
            out.line(&format!("  {}", explain(Finding::Settling, self.settling)));
        }
        for (pass, tally) in &self.backlog {
            if let Some(counts) = counts(tally) {
                out.line(&format!("  a run would do: {pass} {counts}"));
            }
        }
        self.print_problems(out);
    }

    fn print_problems(&self, out: &mut Out) {
        for Problem { problem, advice } in &self.problems {
            out.line(&format!("  {problem}"));
            out.line(&format!("    {advice}"));
        }
        for Unread {
            partition, problem, ..
        } in &self.unread
        {
            out.line(&format!("  {partition}: {problem}"));
        }
    }
}
