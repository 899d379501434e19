//! `hypnos undo RUN`: puts back what a run removed or hid.

use crate::apply::undo::Scope;
use crate::cli::Global;
use crate::clock;
use crate::config::{self, Config};
use crate::engine::Options;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;
use crate::output::run::counts;
use crate::output::words::counted;
use crate::pass::{Cx, Silent};
use crate::undo::{self as undoing, Known, Line, Report};

/// The run that is meant when it is not named.
const LAST: &str = "last";
/// Actions that are listed one by one for a person.
const LISTED: usize = 50;

/// What is to be undone, as it was typed.
pub(super) struct What<'a> {
    pub(super) run: &'a str,
    pub(super) id: Option<&'a str>,
    pub(super) namespace: Option<&'a str>,
    pub(super) dry_run: bool,
}

/// Undoes it in every store that knows the run.
pub(super) fn undo(
    what: &What<'_>,
    names: &[String],
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    let namespace = super::parse_namespace(what.namespace)?;
    let stores: Vec<&config::Store> = config
        .stores
        .iter()
        .filter(|store| names.is_empty() || names.contains(&store.name))
        .collect();
    let run = match what.run {
        LAST => last(&config, &stores)?,
        run => run.to_owned(),
    };
    let scope = Scope {
        run: &run,
        id: what.id,
        namespace: namespace.as_ref(),
    };
    let known: Vec<&config::Store> = stores
        .into_iter()
        .map(|store| Ok((store, undoing::knows(&config, store, &run)?)))
        .collect::<Result<Vec<_>, Failure>>()?
        .into_iter()
        .filter_map(|(store, knows)| knows.then_some(store))
        .collect();
    if known.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("no run {run} is known"))
            .with_hint("hypnos status lists them"));
    }
    super::require_own_states(&config, &known)?;
    if let Some(id) = what.id {
        require_deed(&config, &known, &scope, id)?;
    }
    let options = Options::new(clock::now(), &format!("undo {run}"));
    let stop = super::run::stop_on_signals()?;
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    let mut exit = Exit::Done;
    for store in known {
        let report = if what.dry_run {
            undoing::foresee(&config, store, &scope, &options, &cx)?
        } else {
            undoing::undo(&config, store, &scope, &options, &cx)?
        };
        print(&report, global, out);
        if report.exit().gravity() > exit.gravity() {
            exit = report.exit();
        }
    }
    Ok(exit)
}

/// Refuses an id to which the run did nothing that is remembered, before anything is done.
fn require_deed(
    config: &Config,
    stores: &[&config::Store],
    scope: &Scope<'_>,
    id: &str,
) -> Result<(), Failure> {
    let mut known = Known::Nothing;
    for store in stores {
        known = known.max(undoing::known_of(config, store, scope)?);
    }
    let run = scope.run;
    let (message, hint) = match known {
        Known::Deed => return Ok(()),
        Known::Gone => (
            format!("what run {run} did to {id} is not kept any more"),
            "it is older than undo.keep, or was erased",
        ),
        Known::Nothing => (
            format!("run {run} did nothing to {id}"),
            "an id is given as hypnos prints it; hypnos why tells what was done to it",
        ),
    };
    Err(Failure::new(Exit::Usage, message).with_hint(hint))
}

/// The last run that changed something in one of the stores.
fn last(config: &Config, stores: &[&config::Store]) -> Result<String, Failure> {
    let mut last = None;
    for store in stores {
        last = last.max(undoing::last_run(config, store)?);
    }
    last.map(|(_, run)| run)
        .ok_or_else(|| Failure::new(Exit::Usage, "no run has changed anything yet"))
}

fn print(report: &Report, global: &Global, out: &mut Out) {
    if out.json {
        out.object("undo", report);
        return;
    }
    for action in report.actions.iter().take(LISTED) {
        out.line(&format!(
            "{}  would put back  {}",
            report.store,
            named(action)
        ));
    }
    if report.actions.len() > LISTED {
        let more = report.actions.len() - LISTED;
        out.line(&format!("  and {more} more: --json lists them all"));
    }
    if !global.quiet || report.exit() != Exit::Done {
        out.line(&headline(report));
    }
    for line in notes(report) {
        out.line(&format!("  {line}"));
    }
}

fn headline(report: &Report) -> String {
    let Report {
        store,
        run,
        put_back,
        there,
        already,
        ..
    } = report;
    let verb = if report.dry_run {
        "would put back"
    } else {
        "put back"
    };
    let done = match (counts(put_back), counts(there), counts(already)) {
        (Some(counts), ..) => format!("{verb} {counts}"),
        (None, Some(counts), _) => {
            format!("nothing had to be put back: what {counts} took is there as it was")
        }
        (None, None, Some(counts)) => format!("nothing left to put back: {counts} were before"),
        (None, None, None) if report.expired => {
            "nothing to put back: what it removed is older than undo.keep".to_owned()
        }
        (None, None, None) if !report.reopened.is_empty() => "no memory to put back".to_owned(),
        (None, None, None) => "nothing to put back".to_owned(),
    };
    let by = report.by.as_ref().map(|by| format!("  run {by}"));
    format!("{store}  undo {run}  {done}{}", by.unwrap_or_default())
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(_), Some(counts)) = (counts(&report.put_back), counts(&report.there)) {
        notes.push(format!("what {counts} took was there as it was"));
    }
    if let Some(counts) = counts(&report.not_kept) {
        notes.push(format!(
            "{counts} are not kept any more: they are older than undo.keep"
        ));
    }
    if let Some(counts) = counts(&report.erased) {
        notes.push(format!(
            "{counts} were erasures: nobody can bring back what was erased"
        ));
    }
    let left = report.left.iter().map(|line| ("left alone: ", line));
    let incomplete = report
        .incomplete
        .iter()
        .map(|line| ("not as it was: ", line));
    let told: Vec<_> = left.chain(incomplete).collect();
    for (label, line) in told.iter().take(LISTED) {
        let words = line.words.unwrap_or_default();
        notes.push(format!("{label}{} {words}", named(line)));
    }
    if told.len() > LISTED {
        notes.push(format!(
            "and {} more: --json lists them all",
            told.len() - LISTED
        ));
    }
    for again in &report.again {
        let more = match again.actions.saturating_sub(again.ids.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (one, many) = if report.dry_run {
            ("of them would be", "of them would be")
        } else {
            ("of them is", "of them are")
        };
        notes.push(format!(
            "{} back, but {}: {}{more}",
            counted(again.actions, one, many),
            again.advice,
            again.ids.join(" ")
        ));
    }
    if !report.reopened.is_empty() {
        let entries: Vec<String> = report.reopened.iter().map(|id| format!("#{id}")).collect();
        let verb = if report.dry_run { "would be" } else { "is" };
        let entries = entries.join(", ");
        notes.push(format!("the question {verb} open as it was: {entries}"));
    }
    for unread in &report.unread {
        notes.push(format!("{}: {}", unread.partition, unread.problem));
    }
    if report.interrupted {
        notes.push("interrupted: the rest is as it was; undo it again".to_owned());
    }
    notes
}

/// `delete user:ana 12`, with the row or point of it that is meant.
fn named(line: &Line) -> String {
    let mut parts = vec![line.action.to_string()];
    parts.extend(line.namespace.clone());
    parts.extend(line.id.clone());
    parts.extend(line.point.as_ref().map(|point| format!("point {point}")));
    if let Some(table) = &line.table {
        let row = line.row.as_ref().map(|row| format!(" {row}"));
        parts.push(format!("row of {table}{}", row.unwrap_or_default()));
    }
    parts.join(" ")
}
