//! The command line, as clap sees it. No logic.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::config::{HumanDuration, Similarity};
use crate::pass::PassName;
use crate::plan::QuestionKind;

/// The night shift of an AI agent's memory.
///
/// Hypnos removes what has expired, what belongs to owners who are gone and what has lost its other half from a memory
/// store kept in SQLite and Qdrant; it leaves a report of everything it did and the means to take it back.
///
/// Without a command it is a daemon: it runs when `[schedule]` in the configuration says so, and serves its figures over
/// HTTP. SIGTERM ends it after the batch at hand, SIGHUP makes it read the configuration again.
#[derive(Debug, Parser)]
#[command(name = "hypnos", version, override_usage = USAGE, after_help = EXIT_STATUS)]
pub struct Cli {
    /// What applies to a run.
    #[command(flatten)]
    pub run: RunArgs,
    /// What applies to every command.
    #[command(flatten)]
    pub global: Global,
    /// A command other than a run.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// Whether this is the daemon.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.command.is_none() && !self.run.run_now && !self.run.dry_run
    }
}

/// How hypnos is started: a run has no command of its own.
const USAGE: &str = "\
hypnos --dry-run | --run-now [OPTIONS]
       hypnos COMMAND [OPTIONS]
       hypnos [OPTIONS]    the daemon";

/// Shown below the options.
const EXIT_STATUS: &str = "\
Exit status:
  0    done, or nothing to do
  1    a pass or the command failed: no permission, a port in use, a full disk
  2    usage; no such memory, run, pair or entry
  3    finished, but something was refused, skipped or left over; `check` found something
  10   a store is missing or its schema does not match
  11   another run holds the lock
  78   invalid configuration, or a mapping that nobody has confirmed
  130  interrupted; what was begun is finished by the next run";

/// What applies to every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file [default: /etc/hypnos/hypnos.toml; ./hypnos.toml where that does not exist]
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but data and errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on stderr; twice for debugging
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// How to log; text without times where the journal of systemd has them
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What applies to a run.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Run the enabled passes once, now, and end
    #[arg(long)]
    pub run_now: bool,
    /// Print what a run would do, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Plan for another instant: 2026-12-24T03:00:00Z or +30d
    #[arg(
        long,
        value_name = "TIME",
        requires = "dry_run",
        allow_hyphen_values = true
    )]
    pub at: Option<String>,
    /// Only these, with commas: ttl, orphans, duplicates, decay, contradictions, review, vacuum, snapshot. A dry run plans
    /// also one that is switched off
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    pub only: Vec<PassName>,
    /// Not these passes
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    pub skip: Vec<PassName>,
    /// Only this store; may be repeated
    #[arg(long, value_name = "STORE")]
    pub store: Vec<String>,
    /// Run as usual, and let the plan of this hash past the guard; a plan that has changed since stays refused. May be
    /// repeated
    #[arg(long, value_name = "PLAN_HASH")]
    pub accept: Vec<String>,
}

impl RunArgs {
    /// The first option given that says what a run takes in; none of them means anything without a run.
    #[must_use]
    pub fn narrowed_by(&self) -> Option<&'static str> {
        let lists = [
            ("--only", self.only.is_empty()),
            ("--skip", self.skip.is_empty()),
            ("--store", self.store.is_empty()),
            ("--accept", self.accept.is_empty()),
        ];
        lists
            .into_iter()
            .find_map(|(name, is_empty)| (!is_empty).then_some(name))
    }
}

/// A command other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build a small real store and run over it; running it again changes nothing
    Demo {
        /// Where to build it
        #[arg(default_value = "hypnos-demo")]
        dir: PathBuf,
    },
    /// Recognise a store and write a configuration for it; the store is only read
    Init {
        /// The database (with {tenant} in the path for one per tenant), or the address of a Qdrant server on which the
        /// points are the rows
        #[arg(value_name = "ROWS")]
        rows: String,
        /// The gRPC address of a Qdrant server, a database with vectors, or none; behind the address of a server, the
        /// collection
        #[arg(value_name = "VECTORS")]
        vectors: Option<String>,
        /// The collection, where several could be meant
        #[arg(long, value_name = "NAME")]
        collection: Option<String>,
        /// The REST address of the Qdrant server [default: port 6333 of the same host, or the port before the gRPC one]
        #[arg(long, value_name = "URL")]
        rest_url: Option<String>,
        /// The preset, where several fit
        #[arg(long, value_name = "NAME")]
        preset: Option<String>,
        /// Where to write the configuration [default: what --config names, or ./hypnos.toml]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Write over a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Check the configuration and the stores, and count the drift between them; writes nothing
    Check {
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
    },
    /// Show whether all is well, what waits, and the last runs
    Status {
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
        /// How many runs to list; the last night is always there
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        runs: u32,
    },
    /// List what waits for a person, or answer it
    #[command(args_conflicts_with_subcommands = true)]
    Review {
        /// What to list.
        #[command(flatten)]
        list: ReviewArgs,
        /// An answer.
        #[command(subcommand)]
        verb: Option<ReviewVerb>,
    },
    /// Tell the life of a memory: what each pass thinks of it, what was asked about it and done to it
    Why {
        /// The memory, as hypnos prints its id
        #[arg(value_name = "ID", allow_negative_numbers = true)]
        id: String,
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
        /// Only in this namespace
        #[arg(long, value_name = "NAMESPACE")]
        namespace: Option<String>,
    },
    /// Take, list or verify pairs of snapshots
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// Put back what a run, or an answer, removed or hid, in both stores, as far as it was not changed since
    Undo {
        /// The run, as `hypnos status` lists it, or `last`: the last run or answer that changed a memory
        #[arg(value_name = "RUN")]
        run: String,
        /// Only what was done to this memory, or to this point without a memory
        #[arg(long, value_name = "ID", allow_negative_numbers = true)]
        id: Option<String>,
        /// Only this namespace
        #[arg(long, value_name = "NAMESPACE")]
        namespace: Option<String>,
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
        /// List what would be put back, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Erase an owner: every row, point and record of a namespace, with a certificate of each copy
    Forget {
        /// Whose memories, such as user:ana
        #[arg(value_name = "NAMESPACE")]
        namespace: String,
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
        /// Drop the pairs of snapshots that hold something of it, too, once there is a good pair without
        #[arg(long)]
        snapshots: bool,
        /// Count what would be erased, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not ask whether it is meant
        #[arg(long, short)]
        yes: bool,
        /// Write the certificate to this file, as JSON
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
    },
    /// What many try first
    #[command(hide = true)]
    Run,
    /// List the schemas that need no mapping by hand, or print one
    Presets {
        /// The preset to print
        name: Option<String>,
    },
    /// Measure how labelled pairs would be judged: precision, recall, F1
    #[command(subcommand)]
    Evaluate(Evaluate),
    /// Make what a package ships beside the program
    #[command(subcommand, hide = true)]
    Generate(Generate),
}

/// What to make for a package.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Write a man page for each command into a folder
    Man {
        /// The folder; it must exist
        dir: PathBuf,
    },
    /// Print a completion script
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// What to do about pairs of snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Take a pair now
    Now {
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
    },
    /// List the pairs, oldest first
    List {
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
    },
    /// Put a pair back: rows and points. The agent must be stopped; what is there now becomes a pair first
    Restore {
        /// The pair
        #[arg(value_name = "PAIR")]
        pair: String,
        /// The store [default: the only one]
        #[arg(long, value_name = "STORE")]
        store: Option<String>,
        /// Also what hypnos removed after the pair was taken; owners who were marked deleted or forgotten stay erased
        #[arg(long)]
        bring_back: bool,
        /// When the present state cannot be copied: keep its files beside the new ones instead
        #[arg(long)]
        no_safety_pair: bool,
        /// Also when the state is lost that knows what was removed since: owners who were erased come back
        #[arg(long)]
        without_state: bool,
    },
    /// Give up a restore that was cut off, as long as it has replaced nothing
    Cancel {
        /// The store [default: the only one]
        #[arg(long, value_name = "STORE")]
        store: Option<String>,
    },
    /// Read pairs again to the last byte, and count what is in them
    Verify {
        /// The pair [default: all of them]
        #[arg(value_name = "PAIR")]
        pair: Option<String>,
        /// Only this store; may be repeated
        #[arg(long, value_name = "STORE")]
        store: Vec<String>,
    },
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Evaluate {
    /// Which pairs would be queued as contradictions; label CONTRADICTION is right
    Contradictions {
        /// Tab-separated: `id text_a text_b label lang [cosine]`
        #[arg(value_name = "PAIRS.tsv")]
        pairs: PathBuf,
        /// Score from which a pair is queued, in place of the configured one
        #[arg(long, value_name = "SCORE", value_parser = clap::value_parser!(u32).range(1..=500))]
        threshold: Option<u32>,
        /// What applies to either.
        #[command(flatten)]
        common: EvaluateArgs,
    },
    /// Which pairs would be merged; label DUPLICATE is right
    Duplicates {
        /// Tab-separated: `id text_a text_b label lang [cosine]`
        #[arg(value_name = "PAIRS.tsv")]
        pairs: PathBuf,
        /// Cosine from which a pair may be merged, in place of the configured one
        #[arg(long, value_name = "COSINE", value_parser = similarity)]
        merge_at: Option<Similarity>,
        /// What applies to either.
        #[command(flatten)]
        common: EvaluateArgs,
    },
}

/// What applies to every measurement.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Use the settings of this store [default: the only one, or no configuration at all]
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
    /// List the ids of the pairs that were misjudged
    #[arg(long)]
    pub errors: bool,
}

fn entry(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    digits
        .parse()
        .map_err(|_| "a number, such as 12 or #12".to_owned())
}

fn similarity(text: &str) -> Result<Similarity, String> {
    text.parse()
        .ok()
        .and_then(Similarity::new)
        .ok_or_else(|| "a number from -1 to 1".to_owned())
}

/// What to list of the queue.
#[derive(Debug, Args)]
pub struct ReviewArgs {
    /// Only this store; may be repeated
    #[arg(long, value_name = "STORE")]
    pub store: Vec<String>,
    /// Only these kinds: stale, unused, contradiction, similar
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<QuestionKind>,
    /// Only this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// What is snoozed or answered, too
    #[arg(long)]
    pub all: bool,
    /// Instead of the queue: the memories written in this time, with their source, such as 1d
    #[arg(long, value_name = "TIME", conflicts_with_all = ["kind", "all"])]
    pub new_since: Option<HumanDuration>,
}

/// An answer to an entry of the queue.
#[derive(Debug, Subcommand)]
pub enum ReviewVerb {
    /// The memory still holds: writes that down
    Confirm {
        /// Which.
        #[command(flatten)]
        entry: EntryArgs,
    },
    /// One memory stands for the others, which are hidden behind it, ended or deleted
    Replace {
        /// Which.
        #[command(flatten)]
        entry: EntryArgs,
        /// The memory that stays [default: the newest]
        #[arg(long, value_name = "ID", allow_negative_numbers = true)]
        keep: Option<String>,
    },
    /// All stay as they are; not asked again unless one of them changes
    Keep {
        /// Which.
        #[command(flatten)]
        entry: EntryArgs,
    },
    /// The memory is to go, as if it had faded
    Forget {
        /// Which.
        #[command(flatten)]
        entry: EntryArgs,
        /// The memory, if the entry has several
        #[arg(long, value_name = "ID", allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Ask again later
    Snooze {
        /// Which.
        #[command(flatten)]
        entry: EntryArgs,
        /// How much later; 0s to show it again
        #[arg(long = "for", value_name = "TIME", default_value = "7d")]
        time: HumanDuration,
    },
}

/// An entry of the queue.
#[derive(Debug, Args)]
pub struct EntryArgs {
    /// Its number in the list, with or without the # (which a shell takes for a comment unless it is quoted)
    #[arg(value_parser = entry)]
    pub entry: i64,
    /// The store whose queue it is in, where there are several
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_entry_is_a_number_with_or_without_its_mark() {
        for (text, number) in [
            ("12", Some(12)),
            ("#12", Some(12)),
            ("# 12", None),
            ("", None),
        ] {
            assert_eq!(entry(text).ok(), number, "{text:?}");
        }
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        use crate::exit::Exit;
        let help = Cli::command().render_help().to_string();
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::LeftOver,
            Exit::NoStore,
            Exit::Locked,
            Exit::Config,
            Exit::Interrupted,
        ] {
            assert!(help.contains(&format!("\n  {} ", exit.code())), "{exit:?}");
        }
    }
}
