//! What is logged, where and how: hypnos' own events, on stderr.
//!
//! Text for a terminal or a file; for the journal of systemd the same without the time, which the journal knows, and with
//! the priority in front, which it takes off; or JSON. A library at debug level may print what it sends, so only events of
//! hypnos itself are let through: they never carry the text of a memory.

use std::fmt;
use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Layer as _;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::cli::{Cli, Color, Global, LogFormat};

/// Sets up the log. Called once, by `main`.
pub fn init(cli: &Cli) {
    let own = Targets::new().with_target("hypnos", level(cli));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(has_colour(&cli.global));
    let layer = match cli.global.log_format {
        LogFormat::Json => layer.json().flatten_event(true).with_ansi(false).boxed(),
        LogFormat::Text if stderr_is_the_journal() => {
            let plain = tracing_subscriber::fmt::format().with_ansi(false);
            layer
                .with_ansi(false)
                .event_format(Prioritised(plain.without_time().with_target(false)))
                .boxed()
        }
        LogFormat::Text => layer.boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(own))
        .init();
}

/// A daemon says what it does; a command only what is wrong.
fn level(cli: &Cli) -> LevelFilter {
    let usual = u8::from(cli.is_daemon());
    match (cli.global.quiet, usual + cli.global.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    }
}

fn has_colour(global: &Global) -> bool {
    match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => io::stderr().is_terminal(),
    }
}

/// Whether systemd has connected stderr with its journal: it says device and inode of the stream that it made.
fn stderr_is_the_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stat| stream == *format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Lines with the priority in front, as `sd-daemon(3)` describes.
struct Prioritised(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for Prioritised
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(cx, writer, event)
    }
}

/// The priority of syslog that a level has.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
