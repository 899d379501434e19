//! `hypnos snapshot`: take a pair, list the pairs, verify them, put one back.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::{Global, SnapshotVerb};
use crate::clock::{self, Timestamp};
use crate::config::{self, Config};
use crate::engine::{self, How, Options};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::output::Out;
use crate::pass::{Cx, Silent};
use crate::snapshot::restore::{GivenUp, Restored, TakenOut};
use crate::snapshot::{Manifest, Pair, Shelf, SnapshotError, verify};
use crate::stop::Stop;

/// Does what was asked.
pub(super) fn snapshot(
    verb: &SnapshotVerb,
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    match verb {
        SnapshotVerb::Now { store } => now(&config, store, out),
        SnapshotVerb::List { store } => list(&config, store, out),
        SnapshotVerb::Restore {
            pair,
            store,
            bring_back,
            no_safety_pair,
            without_state,
        } => {
            let how = How {
                bring_back: *bring_back,
                keep_old: *no_safety_pair,
                without_state: *without_state,
            };
            restore(&config, pair, store.as_deref(), how, global, out)
        }
        SnapshotVerb::Cancel { store } => cancel(&config, store.as_deref(), out),
        SnapshotVerb::Verify { pair, store } => verify_all(&config, pair.as_deref(), store, out),
    }
}

fn wanted<'a>(
    config: &'a Config,
    names: &'a [String],
) -> Result<impl Iterator<Item = &'a config::Store>, Failure> {
    super::check_store_names(config, names)?;
    let is_wanted = |store: &&config::Store| names.is_empty() || names.contains(&store.name);
    Ok(config.stores.iter().filter(is_wanted))
}

fn now(config: &Config, names: &[String], out: &mut Out) -> Result<Exit, Failure> {
    let stop = super::run::stop_on_signals()?;
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    let options = Options::new(clock::now(), "snapshot now");
    for store in wanted(config, names)? {
        let manifest = engine::take_now(config, store, &options, &cx)?;
        PairLine::of(&manifest, None).print(out);
    }
    Ok(Exit::Done)
}

fn list(config: &Config, names: &[String], out: &mut Out) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for store in wanted(config, names)? {
        let listing = Shelf::of(store)
            .list(clock::now())
            .map_err(|error| Failure::from(&error))?;
        for Pair { manifest, .. } in &listing.pairs {
            PairLine::of(manifest, None).print(out);
        }
        for (name, error) in &listing.damaged {
            exit = Exit::LeftOver;
            damaged(&store.name, name, error, out);
        }
        for (Pair { manifest, .. }, error) in &listing.foreign {
            PairLine {
                other_store: Some(chain(error)),
                ..PairLine::of(manifest, None)
            }
            .print(out);
        }
        for (name, error) in &listing.strange {
            strange(&store.name, name, error, out);
        }
        if !out.json && listing.pairs.is_empty() && listing.damaged.is_empty() {
            out.line(&format!("{}  no pair yet", store.name));
        }
    }
    Ok(exit)
}

/// Puts a pair back, and checks the store as it is then.
fn restore(
    config: &Config,
    pair: &str,
    store: Option<&str>,
    how: How,
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let store = the_store(config, store)?;
    let stop = super::run::stop_on_signals()?;
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    let options = Options::new(clock::now(), &format!("snapshot restore {pair}"));
    let pair = Shelf::of(store)
        .find(pair)
        .map_err(|error| Failure::from(&error))?;
    let restored = engine::restore(config, store, &pair, how, &options, &cx)?;
    if out.json {
        out.object("restored", &restored);
    } else {
        out.line(&described(&restored));
    }
    let exit = super::check::check(std::slice::from_ref(&store.name), global, out)?;
    let kept = (!restored.kept.is_empty()).then_some(Exit::LeftOver);
    let exits = kept.into_iter().chain([exit]);
    let exit = exits.max_by_key(|exit| exit.gravity()).unwrap_or(exit);
    if exit != Exit::Done {
        // A refusal may end with the same code.
        let (pair, code) = (&pair.name, exit.code());
        tracing::warn!(
            code,
            "pair {pair} is put back, and there is something to look at: see above"
        );
    }
    Ok(exit)
}

fn described(restored: &Restored) -> String {
    let Restored {
        store,
        pair,
        safety_pair,
        memories,
        points,
        taken_out,
        kept,
    } = restored;
    let points = points.map_or(String::new(), |points| format!(", {points} points"));
    let mut line = format!("{store}  restored {pair}: {memories} memories{points}");
    let TakenOut {
        memories,
        marked,
        points,
    } = taken_out;
    if memories + marked + points > 0 {
        let _ = write!(
            line,
            "; removed later, and so again: {memories} memories, {marked} hidden, {points} points"
        );
    }
    if let Some(safety) = safety_pair {
        let _ = write!(line, "; what was there before is pair {safety}");
    }
    for kept in kept {
        let _ = write!(line, "; {kept}");
    }
    line
}

/// Gives up a restore that was cut off.
fn cancel(config: &Config, store: Option<&str>, out: &mut Out) -> Result<Exit, Failure> {
    let store = the_store(config, store)?;
    let stop = super::run::stop_on_signals()?;
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    let options = Options::new(clock::now(), "snapshot cancel");
    let given_up = engine::give_up_restore(config, store, &options, &cx)?;
    if out.json {
        out.object("given_up", &given_up);
    } else {
        out.line(&told(&given_up));
    }
    Ok(match given_up.left {
        Some(_) => Exit::LeftOver,
        None => Exit::Done,
    })
}

fn told(given_up: &GivenUp) -> String {
    let GivenUp {
        store, pair, left, ..
    } = given_up;
    let Some(pair) = pair else {
        return format!("{store}  no restore is to be given up");
    };
    let left = left.as_ref().map(|why| {
        format!("; what was staged for it could not be removed, which the next run does: {why}")
    });
    format!(
        "{store}  the restore of pair {pair} is given up: nothing was replaced{}",
        left.unwrap_or_default()
    )
}

/// The store that is named, or the only one.
fn the_store<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a config::Store, Failure> {
    match (name, &config.stores[..]) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Failure::new(
            Exit::Usage,
            "there are several stores: say which with --store",
        )),
        (Some(name), stores) => {
            super::check_store_names(config, &[name.to_owned()])?;
            let mut named = stores.iter().filter(|store| store.name == name);
            named
                .next()
                .ok_or_else(|| Failure::new(Exit::Usage, format!("no store named {name:?}")))
        }
    }
}

/// Verifies one pair, or every pair of the stores.
fn verify_all(
    config: &Config,
    pair: Option<&str>,
    names: &[String],
    out: &mut Out,
) -> Result<Exit, Failure> {
    let stop = super::run::stop_on_signals()?;
    let mut exit = Exit::Done;
    let mut found = 0_usize;
    for store in wanted(config, names)? {
        let shelf = Shelf::of(store);
        let listing = shelf
            .list(clock::now())
            .map_err(|error| Failure::from(&error))?;
        let is_asked = |name: &str| pair.is_none_or(|pair| pair == name);
        for (name, error) in listing.damaged.iter().filter(|(name, _)| is_asked(name)) {
            found += 1;
            exit = Exit::Failed;
            damaged(&store.name, name, error, out);
        }
        let foreign = listing.foreign.iter().map(|(pair, _)| pair);
        let pairs = listing.pairs.iter().chain(foreign);
        for pair in pairs.filter(|pair| is_asked(&pair.name)) {
            found += 1;
            if !verify_one(store, &shelf, pair, &stop, out)? {
                exit = Exit::Failed;
            }
        }
    }
    match pair {
        Some(pair) if found == 0 => Err(no_pair(pair)),
        _ => Ok(exit),
    }
}

fn verify_one(
    store: &config::Store,
    shelf: &Shelf,
    pair: &Pair,
    stop: &Stop,
    out: &mut Out,
) -> Result<bool, Failure> {
    match verify(store, shelf, pair, stop) {
        Ok(()) => {
            PairLine::of(&pair.manifest, Some(true)).print(out);
            Ok(true)
        }
        Err(error) if error.is_interruption() => Err(Failure::from(&error)),
        Err(error) => {
            damaged(&store.name, &pair.name, &error, out);
            Ok(false)
        }
    }
}

fn no_pair(pair: &str) -> Failure {
    Failure::new(Exit::Usage, format!("no pair {pair:?}"))
        .with_hint("hypnos snapshot list shows the pairs")
}

/// A pair that cannot be believed.
fn damaged(store: &str, pair: &str, error: &SnapshotError, out: &mut Out) {
    #[derive(Serialize)]
    struct Damaged<'a> {
        store: &'a str,
        pair: &'a str,
        /// `None`: it could not be looked at, so that nothing is said of the pair.
        #[serde(skip_serializing_if = "Option::is_none")]
        verified: Option<bool>,
        problem: String,
    }
    let problem = chain(error);
    let (verified, verdict) = match error {
        SnapshotError::OtherStore(_) => (Some(false), "of another store"),
        error if error.is_verdict() => (Some(false), "not to be trusted"),
        _ => (None, "could not be verified"),
    };
    if out.json {
        let line = Damaged {
            store,
            pair,
            verified,
            problem,
        };
        out.object("pair", &line);
    } else {
        out.line(&format!("{store}  {pair}  {verdict}: {problem}"));
    }
}

/// Tells of what another store has left of a pair: it is left alone.
fn strange(store: &str, name: &str, error: &SnapshotError, out: &mut Out) {
    #[derive(Serialize)]
    struct Line<'a> {
        store: &'a str,
        partial: &'a str,
        other_store: String,
    }
    let other_store = chain(error);
    if out.json {
        let line = Line {
            store,
            partial: name,
            other_store,
        };
        out.object("partial", &line);
    } else {
        out.line(&format!(
            "{store}  {name}  never whole, and left alone: {other_store}"
        ));
    }
}

/// A pair as it is shown.
#[derive(Debug, Serialize)]
struct PairLine<'a> {
    store: &'a str,
    pair: &'a str,
    purpose: &'static str,
    taken_at: Timestamp,
    memories: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<u64>,
    rows_bytes: u64,
    vectors_bytes: u64,
    /// Whether rows were written to while the pair was taken.
    drifted: bool,
    /// Said only by what has just read the whole pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    /// How its stores differ from those that are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_store: Option<String>,
}

impl<'a> PairLine<'a> {
    fn of(manifest: &'a Manifest, verified: Option<bool>) -> Self {
        let (rows_bytes, vectors_bytes) = manifest.bytes();
        Self {
            store: &manifest.store,
            pair: &manifest.pair,
            purpose: manifest.purpose.as_str(),
            taken_at: manifest.taken_at,
            memories: manifest.memories(),
            points: manifest.points.as_ref().map(|points| points.count.total),
            rows_bytes,
            vectors_bytes,
            drifted: manifest.drift.written > 0,
            verified,
            other_store: None,
        }
    }

    fn print(&self, out: &mut Out) {
        if out.json {
            return out.object("pair", self);
        }
        let points = self
            .points
            .map_or(String::new(), |points| format!(", {points} points"));
        let verified = match (self.verified, &self.other_store) {
            (Some(true), _) => "  verified",
            (_, Some(why)) => &format!("  of another store: {why}"),
            _ => "",
        };
        out.line(&format!(
            "{}  {}  {}  {} memories{points}, {} bytes{verified}",
            self.store,
            self.pair,
            self.purpose,
            self.memories,
            self.rows_bytes + self.vectors_bytes
        ));
    }
}
