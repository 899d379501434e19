//! `hypnos forget NAMESPACE`: erases an owner, and certifies it.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::cli::Global;
use crate::clock;
use crate::config::{self, Config};
use crate::durable;
use crate::engine::Options;
use crate::error::Failure;
use crate::exit::Exit;
use crate::forget::{self as forgetting, Certificate, Target};
use crate::memory::Namespace;
use crate::output::Out;
use crate::pass::{Cx, Silent};

/// What is to be forgotten, as it was typed.
pub(super) struct What<'a> {
    pub(super) namespace: &'a str,
    pub(super) snapshots: bool,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) certificate: Option<&'a Path>,
}

/// Erases it from every store, once it is sure that it is meant.
pub(super) fn forget(
    what: &What<'_>,
    names: &[String],
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    let namespace = Namespace::parse(what.namespace).ok_or_else(|| {
        let message = format!(
            "forget {}: allowed is scope:owner, such as user:ana",
            what.namespace
        );
        Failure::new(Exit::Usage, message)
    })?;
    if let Some(path) = what.certificate {
        check_certificate(path)?;
    }
    // The name goes to no journal and no lock.
    let options = Options::new(clock::now(), "forget");
    let stop = super::run::stop_on_signals()?;
    let task = Task {
        stores: config
            .stores
            .iter()
            .filter(|store| names.is_empty() || names.contains(&store.name))
            .collect(),
        config: &config,
        target: Target {
            namespace: &namespace,
            from_pairs: what.snapshots,
        },
        options: &options,
        cx: Cx {
            stop: &stop,
            progress: &Silent,
        },
    };
    super::require_own_states(&config, &task.stores)?;
    if !what.yes || what.dry_run {
        let preview = task.preview()?;
        if what.dry_run {
            print(&preview, global, out);
            return Ok(preview.exit());
        }
        confirm(&preview, out)?;
    }
    let certificate = task.erase()?;
    print(&certificate, global, out);
    if let Some(path) = what.certificate {
        write(&certificate, path)?;
    }
    match certificate.failure() {
        Some(failure) => Err(failure),
        None => Ok(certificate.exit()),
    }
}

struct Task<'a> {
    config: &'a Config,
    stores: Vec<&'a config::Store>,
    target: Target<'a>,
    options: &'a Options,
    cx: Cx<'a>,
}

impl Task<'_> {
    fn preview(&self) -> Result<Certificate, Failure> {
        let mut preview = Certificate::new(self.target.namespace, None, self.options.now);
        for store in &self.stores {
            let found =
                forgetting::foresee(self.config, store, self.target, self.options, &self.cx)?;
            preview.stores.push(found);
        }
        Ok(preview)
    }

    fn erase(&self) -> Result<Certificate, Failure> {
        let run = Some(self.options.run.as_str());
        let mut certificate = Certificate::new(self.target.namespace, run, self.options.now);
        for store in &self.stores {
            let erased =
                forgetting::forget(self.config, store, self.target, self.options, &self.cx)?;
            certificate.stores.push(erased);
        }
        Ok(certificate)
    }
}

/// Before anything is erased: the certificate has somewhere to go.
fn check_certificate(path: &Path) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // A link is followed, if it leads somewhere.
    if folder.is_dir() && !path.is_dir() && (path.exists() || !path.is_symlink()) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Usage,
        format!(
            "--certificate {}: allowed is a file in a folder that exists",
            path.display()
        ),
    ))
}

/// Asks the person at the terminal; without one, `--yes` has to say it.
fn confirm(preview: &Certificate, out: &mut Out) -> Result<(), Failure> {
    let not_erased = |why: &str| Failure::new(Exit::Usage, format!("nothing was erased: {why}"));
    if !io::stdin().is_terminal() || !out.terminal {
        return Err(not_erased("nobody was there to ask")
            .with_hint("look at it with --dry-run, and say --yes: it cannot be undone"));
    }
    show(preview, out);
    out.line(&format!(
        "This cannot be undone. Type {} to erase all of it:",
        preview.namespace
    ));
    out.flush();
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| not_erased(&error.to_string()))?;
    if answer.trim() == preview.namespace {
        Ok(())
    } else {
        Err(not_erased("something else was typed"))
    }
}

fn write(certificate: &Certificate, path: &Path) -> Result<(), Failure> {
    let failed = |error: String| {
        let message = format!("write the certificate to {}: {error}", path.display());
        Failure::new(Exit::Failed, message)
            .with_hint("the namespace is erased; run it again for another certificate")
    };
    let mut text =
        serde_json::to_string_pretty(certificate).map_err(|error| failed(error.to_string()))?;
    text.push('\n');
    durable::put(path, text.as_bytes(), durable::PRIVATE).map_err(|error| failed(error.to_string()))
}

fn print(certificate: &Certificate, global: &Global, out: &mut Out) {
    if out.json {
        out.object("certificate", certificate);
    } else if !global.quiet {
        show(certificate, out);
    }
}

fn is_empty(certificate: &Certificate) -> bool {
    certificate.stores.iter().all(forgetting::Erased::is_empty)
}

fn headline(certificate: &Certificate) -> String {
    let namespace = &certificate.namespace;
    match (certificate.dry_run, is_empty(certificate)) {
        (false, true) => format!("{namespace}: nothing was found, nothing was erased"),
        (true, true) => format!("{namespace}: nothing was found, nothing would be erased"),
        (false, false) => format!("erased {namespace}"),
        (true, false) => format!("would erase {namespace}"),
    }
}

fn show(certificate: &Certificate, out: &mut Out) {
    out.line(&headline(certificate));
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(vec!["store", "what", "where", "count"]);
    for store in &certificate.stores {
        for copy in &store.removed {
            table.add_row(vec![
                store.store.to_string(),
                copy.what.to_owned(),
                copy.place.clone(),
                copy.count.to_string(),
            ]);
        }
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if !is_empty(certificate) {
        out.lines(&table.to_string());
    }
    for store in &certificate.stores {
        if let Some(at) = store.begun_at {
            out.line(&format!(
                "  gone on with  {}: a run that was cut off had begun it at {at:.0}; rows and points that it removed are \
                 counted above, what it removed of entities, of hypnos' own files and of pairs is not",
                store.store
            ));
        }
        if let Some(pair) = &store.new_pair {
            out.line(&format!(
                "  new pair  {}  {pair}: taken and verified without it",
                store.store
            ));
        }
        for remaining in &store.remaining {
            let label = if remaining.unfinished {
                "REMAINS"
            } else {
                "can remain"
            };
            out.line(&format!(
                "  {label}  {}  {}: {}",
                store.store, remaining.place, remaining.why
            ));
        }
        if store.interrupted {
            out.line(&format!(
                "  interrupted  {}: the next run goes on",
                store.store
            ));
        }
    }
    if certificate.dry_run {
        return;
    }
    for beyond in &certificate.beyond {
        out.line(&format!("  beyond hypnos  {beyond}"));
    }
    if let Some(run) = &certificate.run {
        out.line(&format!(
            "  kept: ids, times and the hash {}  run {run}",
            certificate.namespace_hash
        ));
    }
}
