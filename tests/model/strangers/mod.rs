//! Stores of every preset among strangers: two nights take away exactly what drifted, and everything else that is in the
//! same files, collections and servers is as it was, byte for byte.
//!
//! A store is made from a recipe: so many things, each of some kind and of some owner. What each preset makes of the
//! kinds stands in the modules. What is there before and after is read with SQL and with scrolls of the client.

mod alone;
mod side_tables;
mod tenants;
mod webui;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hypnos::report::Outcome;
use proptest::prelude::*;
use qdrant_peer::Peer;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::Value;
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore};
use crate::support::qdrant::{block_on, client_of};
use crate::support::{DIM, open, write};
use crate::{NOW, alone, check, night_at};

/// Things by kind and owner.
pub(crate) type Recipe = [(u8, u8)];

/// Any recipe; every preset takes a kind and an owner modulo what it knows.
pub(crate) fn recipe() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..32_u8, 0..4_u8), 0..28)
}

/// A UUID for a number of a kind, the same in every run.
pub(crate) fn id(kind: &str, number: usize) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{kind}/{number}").as_bytes()).to_string()
}

/// A vector of its own for every number: those of two numbers are far from each other.
pub(crate) fn vector(number: usize) -> Vec<f32> {
    crate::support::vector(i64::try_from(number).unwrap() + 1)
}

/// Where a line of the whole store belongs to, and what in it tells which it is.
type Mark = (String, String);

fn is_marked(line: &str, (place, mark): &Mark) -> bool {
    line.starts_with(place.as_str()) && line.contains(mark.as_str())
}

/// A store among strangers, and what should become of it.
pub(crate) struct Case {
    pub(crate) store: PointStore,
    peer: Option<Peer>,
    /// Points that are still to be put, by collection: each request is made durable by the server.
    waiting: RefCell<BTreeMap<String, Vec<NewPoint>>>,
    /// Databases that can be read, below the folder of the store.
    files: Vec<String>,
    /// Files that cannot: not one byte of them changes.
    opaque: Vec<String>,
    doomed: Vec<Mark>,
    /// Two that say the same: one of them goes, and the other may take over what is known of it.
    twins: Vec<[Mark; 2]>,
    /// What else of a twin may change or go.
    of_twins: Vec<Mark>,
}

impl Case {
    /// An empty one, with a server of its own if it `has_points` there.
    pub(crate) fn new(has_points: bool) -> Self {
        let peer = has_points.then(Peer::start);
        let urls = peer.as_ref().map(|peer| (peer.url(), peer.rest_url()));
        let (url, rest_url) = urls.unwrap_or_default();
        Self {
            store: PointStore::at(&url, &rest_url),
            peer,
            waiting: RefCell::default(),
            files: Vec::new(),
            opaque: Vec::new(),
            doomed: Vec::new(),
            twins: Vec::new(),
            of_twins: Vec::new(),
        }
    }

    /// Writes the configuration of a store of a preset: `rows` and `vectors` are what those tables say beside it.
    pub(crate) fn configure(&self, preset: &str, rows: &str, vectors: &str, more: &str) {
        let kind = match &self.peer {
            None => "kind = \"sqlite\"\n".to_owned(),
            Some(peer) => format!(
                "kind = \"qdrant\"\nurl = \"{}\"\nrest_url = \"{}\"\n",
                peer.url(),
                peer.rest_url()
            ),
        };
        let config = format!(
            "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n[pass.review]\nenabled = false\n\
             [pass.contradictions]\nenabled = false\n[pass.snapshot]\nenabled = false\n\
             [[store]]\nname = \"agent\"\n[store.rows]\npreset = \"{preset}\"\n{rows}\n\
             [store.vectors]\n{kind}{vectors}\n{more}\n"
        );
        write(&self.path("hypnos.toml"), &config);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.store.dir.path().join(name)
    }

    /// Makes a row database, and says that it belongs to the store.
    pub(crate) fn database(&mut self, name: &str, ddl: &str) -> Connection {
        hypnos::store::vec0::register();
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let db = open(&path);
        db.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;\n{ddl}"
        ))
        .unwrap();
        self.files.push(name.to_owned());
        db
    }

    /// Writes a file that is no database that anybody could read, and says that it belongs to the store.
    pub(crate) fn opaque(&mut self, name: &str, text: &str) {
        write(&self.path(name), text);
        self.opaque.push(name.to_owned());
    }

    /// Makes a row database that its application keeps locked as long as the connection lives.
    pub(crate) fn locked(&mut self, name: &str, sql: &str) -> Connection {
        let db = open(&self.path(name));
        db.execute_batch(&format!("{sql}; BEGIN EXCLUSIVE"))
            .unwrap();
        self.opaque.push(name.to_owned());
        db
    }

    pub(crate) fn collection(&mut self, name: &str, indexes: &[&str]) {
        self.store.create(name, DIM.into(), None);
        for key in indexes {
            self.store.index(name, key);
        }
    }

    pub(crate) fn put(&self, collection: &str, id: &str, payload: Value, seed: usize) {
        self.put_point(collection, NewPoint::new(id, payload, vector(seed)));
    }

    pub(crate) fn put_point(&self, collection: &str, point: NewPoint) {
        let mut waiting = self.waiting.borrow_mut();
        waiting
            .entry(collection.to_owned())
            .or_default()
            .push(point);
    }

    pub(crate) fn doom(&mut self, place: &str, mark: &str) {
        self.doomed.push((place.to_owned(), mark.to_owned()));
    }

    /// Says that of two things one goes; `places` are where else they have parts.
    pub(crate) fn twins(&mut self, place: &str, [one, other]: [&str; 2], places: &[&str]) {
        let mark = |place: &str, of: &str| (place.to_owned(), of.to_owned());
        self.twins.push([mark(place, one), mark(place, other)]);
        for place in places {
            self.of_twins.extend([mark(place, one), mark(place, other)]);
        }
    }

    /// Says that a part of a twin may be changed.
    pub(crate) fn may_change(&mut self, place: &str, mark: &str) {
        self.of_twins.push((place.to_owned(), mark.to_owned()));
    }

    /// Every row of every table and every point of every collection, a line each.
    fn everything(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for file in &self.files {
            lines.extend(rows(&open(&self.path(file)), file));
        }
        for file in &self.opaque {
            let bytes = std::fs::read(self.path(file)).unwrap();
            lines.insert(format!("{file}: {bytes:?}"));
        }
        if let Some(peer) = &self.peer {
            let listed = block_on(client_of(&peer.url()).list_collections()).unwrap();
            for name in listed.collections.into_iter().map(|found| found.name) {
                let points = self.store.whole(&name).into_iter();
                lines.extend(points.map(|(id, whole)| format!("{name}/{id}: {whole}")));
            }
        }
        lines
    }

    fn night(&self, hours: i64) -> hypnos::report::RunReport {
        night_at(&self.path("hypnos.toml"), NOW + hours * 3_600, &[])
    }

    /// Two nights, and a third one that finds nothing to do.
    pub(crate) fn nights(&self) -> Result<(), TestCaseError> {
        for (collection, points) in self.waiting.take() {
            self.store.put(&collection, &points);
        }
        let before = self.everything();
        let first = self.night(0);
        let second = self.night(21);
        let after = self.everything();
        let others = |lines: &BTreeSet<String>| -> BTreeSet<String> {
            let marks = || {
                let twins = self.twins.iter().flatten().chain(&self.of_twins);
                self.doomed.iter().chain(twins)
            };
            let is_other = |line: &&String| !marks().any(|mark| is_marked(line, mark));
            lines.iter().filter(is_other).cloned().collect()
        };
        let (left, was) = (others(&after), others(&before));
        let lost: Vec<_> = was.difference(&left).collect();
        let new: Vec<_> = left.difference(&was).collect();
        prop_assert!(
            lost.is_empty() && new.is_empty(),
            "lost {lost:#?}, new {new:#?}: {:#?}",
            second.passes
        );
        for mark in &self.doomed {
            let left = after.iter().find(|line| is_marked(line, mark));
            prop_assert!(left.is_none(), "{left:?} is left: {:#?}", second.passes);
        }
        for pair in &self.twins {
            let is_there = |mark| after.iter().any(|line| is_marked(line, mark));
            let left = pair.iter().filter(|mark| is_there(mark)).count();
            prop_assert_eq!(
                left,
                1,
                "of {:?}: {:#?}",
                pair,
                [&first.passes, &second.passes]
            );
        }
        let third = self.night(42);
        prop_assert_eq!(&self.everything(), &after);
        let idle = |pass: &hypnos::report::PassReport| {
            pass.outcome == Outcome::Idle || !pass.unread.is_empty()
        };
        prop_assert!(third.passes.iter().all(idle), "{:#?}", third.passes);
        Ok(())
    }
}

/// Every row of every table of a database; what sqlite-vec and FTS5 keep their own by is left out, what they hold is not.
fn rows(db: &Connection, file: &str) -> Vec<String> {
    let mut tables = db
        .prepare(
            "SELECT name, type FROM pragma_table_list AS t WHERE schema = 'main' AND type IN ('table', 'virtual')
             AND name NOT LIKE 'sqlite%' AND NOT EXISTS (
               SELECT 1 FROM sqlite_schema AS v WHERE v.sql LIKE 'CREATE VIRTUAL%'
               AND (v.name = t.name AND v.sql LIKE '%fts5%' OR t.name GLOB v.name || '_*'))",
        )
        .unwrap();
    let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let tables: Vec<(String, String)> = tables.unwrap().map(Result::unwrap).collect();
    let mut lines = Vec::new();
    for (table, kind) in tables {
        let columns = if kind == "virtual" { "rowid, *" } else { "*" };
        let mut read = db
            .prepare(&format!("SELECT {columns} FROM \"{table}\""))
            .unwrap();
        let count = read.column_count();
        let found = read.query_map([], |row| {
            let values = (0..count).map(|i| value(row.get_ref(i).unwrap()));
            Ok(values.collect::<Vec<_>>().join(" | "))
        });
        let found = found.unwrap().map(Result::unwrap);
        lines.extend(found.map(|row| format!("{file}:{table}: {row}")));
    }
    lines
}

/// A value as text, its storage class told.
fn value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

/// Checks that strangers of a preset's stores are left alone.
fn holds(cases: u32, build: impl Fn(&mut Case, &Recipe), has_points: bool) {
    let _alone = alone();
    check(cases, &recipe(), |recipe| {
        let mut case = Case::new(has_points);
        build(&mut case, &recipe);
        case.nights()
    });
}
