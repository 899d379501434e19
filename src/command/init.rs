//! `hypnos init`: recognise a store, write its configuration, check it, and say what a first run would do.

use std::io;
use std::path::Path;

use serde::Serialize;

use super::check;
use super::run::stop_on_signals;
use crate::cli::Global;
use crate::clock;
use crate::config::{self, Config, Env};
use crate::durable;
use crate::engine::{self, Observer, Options};
use crate::error::Failure;
use crate::exit::Exit;
use crate::init::{self, Proposal, Request};
use crate::output::Out;
use crate::output::run::{Printer, counts};
use crate::pass::{Cx, PassName, Silent};
use crate::plan::Plan;
use crate::report::{PassReport, Unopened};
use crate::state::IntentRecord;
use crate::stop::Stop;

/// Who may read the configuration: it holds no secret, and the daemon may be another user.
const MODE: u32 = 0o644;
/// Where it is written when nobody says.
const DEFAULT_OUTPUT: &str = "hypnos.toml";

/// How the files end that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Bytes that no configuration has: what is larger is not read to find out.
const LARGEST_CONFIGURATION: u64 = 1 << 20;

/// Why a file is not written over.
const NO_CONFIGURATION: &str = "what is there is no configuration of hypnos";

/// What the first night cannot know yet.
const SECOND_NIGHT: &str = "
  Points without their memory are believed once two nights saw them, 20 hours apart: a first night that finds nothing
  else prints no hash, and the second one waits for --accept.";

/// What is asked.
pub(super) struct What<'a> {
    pub(super) rows: &'a str,
    pub(super) vectors: Option<&'a str>,
    pub(super) collection: Option<&'a str>,
    pub(super) rest_url: Option<&'a str>,
    pub(super) preset: Option<&'a str>,
    pub(super) output: Option<&'a Path>,
    pub(super) force: bool,
}

/// Recognises a store, and writes its configuration.
pub(super) fn init(what: &What<'_>, global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let output = what
        .output
        .or(global.config.as_deref())
        .unwrap_or_else(|| Path::new(DEFAULT_OUTPUT));
    refuse_to_overwrite(output, what.force)?;
    refuse_missing_folder(output)?;
    refuse_what_is_no_configuration(output)?;
    let stop = stop_on_signals()?;
    let request = Request {
        rows: what.rows,
        vectors: what.vectors,
        collection: what.collection,
        rest_url: what.rest_url,
        preset: what.preset,
        output,
    };
    let proposal = init::look(&request, &Env::from_process(), &stop)?;
    write(output, what.force, &proposal.text)?;
    print(&proposal, output, out);
    let config = super::load_file(output)?;
    let checked = check::check_stores(&config, &[], global, out);
    if !matches!(checked, Exit::Done | Exit::LeftOver) {
        return Ok(checked);
    }
    let call = super::call(output);
    foresee(&config, proposal.confirmed, &call, &stop, global, out);
    say(out, &next(&proposal, output, &call));
    // Drift is what a store has before its first night: nothing is wrong with that.
    Ok(if proposal.confirmed && proposal.pairs {
        Exit::Done
    } else {
        Exit::LeftOver
    })
}

fn refuse_to_overwrite(output: &Path, force: bool) -> Result<(), Failure> {
    // A dangling link is something, too.
    if force || output.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(is_there(output))
}

fn is_there(output: &Path) -> Failure {
    let problem = format!("{} is there already", output.display());
    Failure::new(Exit::Usage, problem)
        .with_hint("name another file with --output, or write over it with --force")
}

/// Refuses to write over a file that is there and no configuration, such as the store itself, also at the end of a link;
/// and to make one that SQLite would take for a part of a database, and drop.
fn refuse_what_is_no_configuration(output: &Path) -> Result<(), Failure> {
    let refused = |why: &str| {
        let problem = format!("write {}: {why}", output.display());
        Err(Failure::new(Exit::Usage, problem).with_hint("name another file with --output"))
    };
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    if COMPANIONS.iter().any(|ending| name.ends_with(ending)) {
        return refused("SQLite keeps files of its own under such a name");
    }
    match std::fs::metadata(output) {
        Ok(found) if found.is_file() && found.len() <= LARGEST_CONFIGURATION => {}
        Ok(found) if found.is_file() => return refused(NO_CONFIGURATION),
        _ => return Ok(()),
    }
    let text = std::fs::read(output).map_err(|error| {
        let problem = format!("look at {}: {error}", output.display());
        Failure::new(Exit::Failed, problem)
    })?;
    match std::str::from_utf8(&text) {
        Ok(text) if config::is_configuration(text) => Ok(()),
        _ => refused(NO_CONFIGURATION),
    }
}

/// Says so before a store is read for minutes.
fn refuse_missing_folder(output: &Path) -> Result<(), Failure> {
    let folder = durable::folder_of(output);
    if folder.is_dir() {
        return Ok(());
    }
    let problem = format!("write {}: the folder does not exist", output.display());
    let hint = format!(
        "make it (mkdir {}), or name another file with --output",
        folder.display()
    );
    Err(Failure::new(Exit::Failed, problem).with_hint(hint))
}

fn write(output: &Path, force: bool, text: &str) -> Result<(), Failure> {
    let written = if force {
        durable::put(output, text.as_bytes(), MODE)
    } else {
        durable::write_new(output, text.as_bytes(), MODE)
            .and_then(|()| durable::sync_dir(durable::folder_of(output)))
    };
    written.map_err(|error| match error.kind() {
        // Another one has written it since.
        io::ErrorKind::AlreadyExists => is_there(output),
        _ => Failure::new(Exit::Failed, format!("write {}: {error}", output.display())),
    })
}

#[derive(Serialize)]
struct InitLine<'a> {
    store: &'a str,
    preset: Option<&'a str>,
    config: String,
    points: Option<&'a str>,
    rows_with_point: Option<usize>,
    rows_looked_at: Option<usize>,
    confirmed: bool,
    pairs: bool,
    notes: &'a [String],
}

fn print(proposal: &Proposal, output: &Path, out: &mut Out) {
    let Proposal {
        store,
        preset,
        points,
        proof,
        confirmed,
        pairs,
        notes,
        ..
    } = proposal;
    if out.json {
        let line = InitLine {
            store,
            preset: preset.map(|preset| preset.name),
            config: output.display().to_string(),
            points: points.as_deref(),
            rows_with_point: proof.map(|proof| proof.found),
            rows_looked_at: proof.map(|proof| proof.of),
            confirmed: *confirmed,
            pairs: *pairs,
            notes,
        };
        out.object("init", &line);
        return;
    }
    match preset {
        Some(preset) => out.line(&format!("recognised: {}, {}", preset.name, preset.description)),
        None => out.line("unknown: the mapping is a proposal, and hypnos only reads the store until you confirm it"),
    }
    let where_points = points
        .as_deref()
        .map_or_else(|| "none".to_owned(), |points| format!("in {points}"));
    let proved = proof.map(|proof| {
        format!(
            "; {} of {} rows looked at have theirs there",
            proof.found, proof.of
        )
    });
    out.line(&format!(
        "points: {where_points}{}",
        proved.unwrap_or_default()
    ));
    for note in notes {
        out.line(&format!("note: {note}"));
    }
    out.line(&format!("written: {}", output.display()));
    out.line("");
}

/// Says what a first run would do.
fn foresee(
    config: &Config,
    is_confirmed: bool,
    call: &str,
    stop: &Stop,
    global: &Global,
    out: &mut Out,
) {
    let options = Options::new(clock::now(), "init");
    let cx = Cx {
        stop,
        progress: &Silent,
    };
    if out.json {
        let mut printer = Printer::new(out, global.quiet);
        let report = engine::dry_run(config, &options, &cx, &mut printer);
        printer.finish(&report, true);
        return;
    }
    let mut forecast = Forecast::default();
    engine::dry_run(config, &options, &cx, &mut forecast);
    out.line("");
    out.line(if is_confirmed {
        "a first run would:"
    } else {
        "a first run would, once the mapping is confirmed:"
    });
    for line in forecast.lines(call) {
        out.line(&format!("  {line}"));
    }
}

/// What the passes of a dry run plan, a line each.
#[derive(Default)]
struct Forecast {
    /// The pass, what it would do, and the hash that lets it.
    plans: Vec<(PassName, String, Option<String>)>,
    problems: Vec<String>,
}

impl Forecast {
    fn lines(&self, call: &str) -> Vec<String> {
        let plans = self.plans.iter().map(|(pass, what, accept)| match accept {
            Some(hash) => format!("{pass}: {what}; it waits for {call} --run-now --accept {hash}"),
            None => format!("{pass}: {what}"),
        });
        let mut lines: Vec<String> = plans.chain(self.problems.iter().cloned()).collect();
        if lines.is_empty() {
            lines.push("do nothing".to_owned());
        }
        lines
    }
}

impl Observer for Forecast {
    fn begun(&mut self, _: &str, _: &str, _: &[IntentRecord]) {}

    fn planned(&mut self, plan: &Plan, report: &PassReport) {
        let accept = report
            .refusal
            .as_ref()
            .map(|refusal| refusal.accept.to_string());
        if let Some(what) = counts(&report.planned) {
            self.plans.push((plan.pass, what, accept));
        }
    }

    fn passed(&mut self, report: &PassReport) {
        if let Some(error) = &report.error {
            self.problems.push(format!("{}: {error}", report.pass));
        }
    }

    fn unopened(&mut self, store: &Unopened) {
        self.problems
            .push(format!("{}: {}", store.store, store.error));
    }
}

/// Text for people; a program that asked for JSON gets objects only.
fn say(out: &mut Out, text: &str) {
    if !out.json {
        out.lines(text);
    }
}

fn next(proposal: &Proposal, output: &Path, call: &str) -> String {
    let config = output.display();
    let mut first = String::new();
    if !proposal.pairs {
        first.push_str("  make the REST interface of the server reachable (see the note above): nothing is removed before\n");
    }
    if !proposal.confirmed {
        let correct = format!("  correct {config} where it says guess, and set confirmed = true\n");
        first.push_str(&correct);
    }
    let second = if proposal.points.is_some() {
        SECOND_NIGHT
    } else {
        ""
    };
    format!(
        "\nNext:\n{first}  {call} --dry-run                  every action with its reason; writes nothing\n  \
         {call} --run-now                  the first night: reports, takes a pair, removes nothing\n  \
         {call} --run-now --accept HASH    lets one pass do what it reported{second}"
    )
}
