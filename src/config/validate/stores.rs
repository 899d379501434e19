//! The stores: each on its own, then against each other.
//!
//! Precedence, key by key: what the store says, then what the preset says, then what `[pass]` says for every store, then
//! the default.

use std::path::Path;

use super::{beside, lexical, passes, rows, vectors};
use crate::config::address::Address;
use crate::config::checks::{Checks, either};
use crate::config::raw;
use crate::config::reader::Key;
use crate::config::source::{self, Kind};
use crate::config::{Backend, Env, FirstRun, PointRule, Store, Vectors, presets};
use crate::memory::Role;

/// Longest name of a store, in bytes: it is a folder name and a metric label.
const NAME_LENGTH: usize = 64;

/// Where hypnos keeps what is of all stores.
#[derive(Clone, Copy)]
pub(super) struct Folders<'a> {
    /// Its state, one folder per store.
    pub(super) state: &'a Path,
    /// The pairs, one folder per store.
    pub(super) pairs: &'a Path,
}

/// Reads every store, with the settings of `global` under its own.
pub(super) fn stores(
    written: Vec<raw::Store>,
    global: &raw::Pass,
    folders: Folders<'_>,
    env: &Env,
    checks: &mut Checks,
) -> Vec<Store> {
    if written.is_empty() {
        if checks.is_sound("store") {
            checks.missing("store", "at least one [[store]]");
        }
        passes::passes(global, checks);
    }
    let mut stores: Vec<(String, Store)> = Vec::new();
    for raw in written {
        let at = raw.at.clone();
        let name_key = raw.name.clone();
        let read = Read {
            global,
            folders,
            env,
        };
        let store = match preset(&raw.rows.preset, checks) {
            Some(preset) => read.store(raw, preset, checks),
            None => read.of_unknown_preset(&raw, checks),
        };
        if stores.iter().any(|(_, other)| other.name == store.name)
            && checks.are_sound(&[&name_key])
        {
            checks.refuse(&name_key, "a name that no other store has");
        } else {
            stores.push((at, store));
        }
    }
    keep_apart(&stores, checks);
    stores.into_iter().map(|(_, store)| store).collect()
}

/// What a store is read with.
#[derive(Clone, Copy)]
struct Read<'a> {
    global: &'a raw::Pass,
    folders: Folders<'a>,
    env: &'a Env,
}

impl Read<'_> {
    /// Which preset was meant is not known: what is wrong whichever it was is told, and nothing that is wrong only because
    /// there is none.
    fn of_unknown_preset(self, written: &raw::Store, checks: &mut Checks) -> Store {
        let trial = |preset: &str| {
            let mut trial = checks.clone();
            let store = self.store(written.clone(), preset, &mut trial);
            (store, trial)
        };
        let (store, without) = trial("");
        let with = presets::ALL.iter().map(|preset| trial(preset.toml).1);
        let trials: Vec<Checks> = std::iter::once(without).chain(with).collect();
        checks.take_common(&trials);
        store
    }

    /// Reads a store over the text of a preset.
    fn store(self, written: raw::Store, preset: &str, checks: &mut Checks) -> Store {
        let Self {
            global,
            folders,
            env,
        } = self;
        let name = name(&written.name, checks);
        let first_runs = [("apply", FirstRun::Apply), ("report", FirstRun::Report)];
        let first_run = checks.choice(&written.first_run, FirstRun::Apply, &first_runs);
        let confirmed = checks.flag(&written.confirmed, true);
        vectors::refuse_foreign_keys(&written.vectors, checks);
        let raw = layered(written, preset, global);

        let mirrors = folders.state.join(&name).join("points");
        let (mut rows, scope) = rows::rows(&raw.rows, &raw.vectors.namespace, &mirrors, checks);
        let owners = rows::owners(&raw.owners, &raw.rows, scope.as_deref(), checks);
        let has_tenants = rows::has_tenants(&raw.rows);
        let mut vectors = vectors::vectors(&raw.vectors, &rows, has_tenants, env, checks);
        if rows::are_points(&raw.rows) {
            rows.points = vectors::make_rows(&raw.vectors, &mut vectors, checks).map(Box::new);
        }
        if let Some(PointRule::Column(column)) = vectors.as_ref().map(|vectors| &vectors.point_id) {
            match source::parse(column, Kind::Tenant) {
                Some(source) => rows.roles.push((Role::Point, source)),
                None => checks.refuse(
                    &raw.vectors.point_id,
                    "column(NAME) with the name of a column",
                ),
            }
        }
        if let Some(Backend::Sqlite(table)) = vectors.as_ref().map(|vectors| &vectors.backend)
            && table.path == Path::new(&rows.path)
        {
            rows.points_table = Some(table.table.clone());
        }
        let links = beside::links(&raw.links, rows.points.as_deref(), checks);
        let log = beside::log(&raw.log, rows.are_points(), checks);
        Store {
            first_run,
            confirmed,
            links,
            log,
            rows,
            owners,
            vectors,
            passes: passes::passes(&raw.pass, checks),
            pairs: folders.pairs.join(&name),
            name,
        }
    }
}

fn name(key: &Key, checks: &mut Checks) -> String {
    let allowed = format!(
        "a name of a-z, 0-9, _ and -, beginning with a letter or digit, up to {NAME_LENGTH} of them"
    );
    if !key.is_given() {
        checks.refuse(key, allowed);
        return String::new();
    }
    checks.value(key, String::new(), &allowed, |value| {
        let name = value.as_str()?;
        let is_start = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_part = |c: char| is_start(c) || matches!(c, '_' | '-');
        let fits =
            name.starts_with(is_start) && name.chars().all(is_part) && name.len() <= NAME_LENGTH;
        fits.then(|| name.to_owned())
    })
}

/// The store over its preset over the global settings.
fn layered(mut store: raw::Store, preset: &str, global: &raw::Pass) -> raw::Store {
    // As if its text stood in the store.
    let mut preset = match raw::Preset::parse(preset, &store.at) {
        Ok((preset, _)) => preset,
        Err(_) => raw::Preset::empty(&store.at),
    };
    // What the store says in another way is said: the preset's way of saying it goes.
    if rows::has_tenant_path(&store.rows) {
        preset.rows.tenant.value = None;
    }
    if store.rows.ttl_minutes.is_on() {
        preset.rows.ttl_days.value = None;
    }
    if store.rows.ttl_days.is_on() {
        preset.rows.ttl_minutes.value = None;
    }
    store.rows = store.rows.over(preset.rows);
    store.owners = store.owners.over(preset.owners);
    store.vectors = store.vectors.over(preset.vectors);
    store.links = store.links.over(preset.links);
    store.log = store.log.over(preset.log);
    // A preset knows its schema: what is right for every store must not end the history of a bitemporal one.
    store.pass = store.pass.over(preset.pass).over(global.clone());
    store
}

/// The text of the preset that a store names, empty for none; `None` where there is none of that name.
fn preset(key: &Key, checks: &mut Checks) -> Option<&'static str> {
    let names: Vec<_> = presets::ALL
        .iter()
        .map(|preset| format!("{:?}", preset.name))
        .collect();
    let allowed = format!("{}, or \"\" for none", either(&names));
    let read = |value: &toml::Value| match value.as_str()? {
        "" => Some(""),
        name => Some(presets::find(name)?.toml),
    };
    let is_none = !key.is_given();
    let text = checks.value(key, None, &allowed, |value| read(value).map(Some));
    if is_none { Some("") } else { text }
}

/// Refuses stores that would work on the same rows, or take each other's points for orphans. Stores that have problems of
/// their own are left out.
fn keep_apart(stores: &[(String, Store)], checks: &mut Checks) {
    let sound: Vec<_> = stores
        .iter()
        .filter(|(at, _)| checks.is_sound_below(at))
        .collect();
    for (index, (at, store)) in sound.iter().enumerate() {
        for (_, earlier) in &sound[..index] {
            if rows_of(store) == rows_of(earlier) {
                checks.refuse_value(
                    &format!("{at}.rows.path"),
                    format!("{:?}", store.rows.path),
                    format!(
                        "a database or table that store {} does not have",
                        earlier.name
                    ),
                );
            }
            if share_points(store, earlier) {
                checks.refuse_value(
                    &format!("{at}.vectors"),
                    describe_points(store),
                    format!(
                        "points or a scope that store {} does not have, or pass.orphans.enabled = false in both: each \
                         would take the points of the other for orphans",
                        earlier.name
                    ),
                );
            }
        }
    }
}

fn rows_of(store: &Store) -> (std::path::PathBuf, String) {
    (
        lexical(Path::new(&store.rows.path)),
        store.rows.table.to_ascii_lowercase(),
    )
}

fn share_points(a: &Store, b: &Store) -> bool {
    let scope = |store: &Store| store.rows.namespace.split(':').next().map(str::to_owned);
    let sweeps = a.passes.orphans.enabled || b.passes.orphans.enabled;
    let are_rows = a.rows.are_points() || b.rows.are_points();
    let (Some(points_a), Some(points_b)) = (&a.vectors, &b.vectors) else {
        return false;
    };
    let collide = are_rows || sweeps && scope(a) == scope(b);
    collide && points_of(points_a) == points_of(points_b) && !are_apart(points_a, points_b)
}

/// What two stores on the same points have in common.
fn points_of(vectors: &Vectors) -> (&'static str, String, String) {
    match &vectors.backend {
        Backend::Qdrant(qdrant) => (
            "qdrant",
            Address::parse(&qdrant.url).map_or_else(String::new, |address| address.canonical()),
            qdrant.collection.clone(),
        ),
        Backend::Sqlite(table) => (
            "sqlite",
            lexical(&table.path).display().to_string(),
            table.table.to_ascii_lowercase(),
        ),
    }
}

/// Whether no point of a common collection can be of both stores.
fn are_apart(a: &Vectors, b: &Vectors) -> bool {
    match (&a.backend, &b.backend) {
        (Backend::Qdrant(a), Backend::Qdrant(b)) => a.filter.excludes(&b.filter),
        _ => false,
    }
}

fn describe_points(store: &Store) -> String {
    let scope = store.rows.namespace.split(':').next().unwrap_or_default();
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        Some(Backend::Qdrant(qdrant)) => {
            format!(
                "collection {:?} at {}, scope {scope:?}",
                qdrant.collection, qdrant.url
            )
        }
        Some(Backend::Sqlite(table)) => {
            format!(
                "table {:?} in {}, scope {scope:?}",
                table.table,
                table.path.display()
            )
        }
        None => String::new(),
    }
}
