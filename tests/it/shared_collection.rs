//! A collection in which a store's points are of one kind among others: those of the others are nobody's business.

use std::collections::BTreeSet;

use rusqlite::params;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::site::{Everything, Site, id};
use crate::support::{DAY, Point, SCHEMA, now, point_id};

const COLLECTION: &str = "agents";
const MAPPING: &str = r#"collection = "agents"
where = { "meta.kind" = ["memory", "fact"] }
point_id = "uuid5(dns, {namespace}::{id})"
[store.owners]
scope = "user"
table = "users"
id = "id"
deleted_at = "deleted_at"
[pass.orphans]
settle = "0s"
min_age = "0s"
[pass.duplicates]
enabled = false
"#;

fn payload(namespace: &str, kind: &Value) -> Value {
    json!({"namespace": namespace, "meta": {"kind": kind}, "text": "something"})
}

/// Ana lives and has memories, two of them expired; ben was deleted. Beside their points, and two that lost their row,
/// there are points of other kinds in every namespace.
struct Shared {
    site: Site,
    others: BTreeSet<Uuid>,
}

impl Shared {
    fn new() -> Self {
        let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
        site.collection(COLLECTION, &["namespace", "meta.kind"]);
        let db = site.rows();
        for (user, deleted_at) in [("ana", None), ("ben", Some(now() - DAY))] {
            db.execute(
                "INSERT INTO users VALUES (?1, ?1, ?2)",
                params![user, deleted_at],
            )
            .unwrap();
        }
        for row in 1..=12 {
            let user = if row <= 8 { "ana" } else { "ben" };
            let ttl = matches!(row, 7 | 8).then_some(1);
            db.execute(
                "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days)
                 VALUES (?1, ?2, 'fact ' || ?1, ?1, ?3, ?4)",
                params![row, user, now() - 2 * DAY, ttl],
            )
            .unwrap();
        }
        let shared = Self {
            others: others().into_iter().map(|(id, _)| id).collect(),
            site,
        };
        // The row 8 has none: under its id is a point of others.
        let rows = (1..=12).filter(|row| *row != 8);
        let own = rows.map(|row| (row, if row <= 8 { "user:ana" } else { "user:ben" }));
        let orphans = [(901, "user:ana"), (902, "user:nobody")];
        let ours = own.chain(orphans).map(|(row, namespace)| {
            let kind = if row % 2 == 0 { "memory" } else { "fact" };
            (point_id(namespace, row), payload(namespace, &json!(kind)))
        });
        shared.site.put(COLLECTION, &ours.collect::<Vec<_>>());
        shared.site.put(COLLECTION, &others());
        shared
    }

    /// The points of others.
    fn theirs(&self) -> Vec<(Uuid, Point)> {
        let mut points = self.site.points();
        let points = points.remove(COLLECTION).unwrap().into_iter();
        points.filter(|(id, _)| self.others.contains(id)).collect()
    }

    fn ours(&self) -> BTreeSet<Uuid> {
        let everything: Everything = self.site.points();
        let ids = everything[COLLECTION].keys().copied();
        ids.filter(|id| !self.others.contains(id)).collect()
    }
}

/// Points of other kinds, and of kinds that only look like ours.
fn others() -> Vec<(Uuid, Value)> {
    let kinds = [
        json!("file"),
        json!("Memory"),
        json!(["memory", "file"]),
        json!({"kind": "memory"}),
        json!(7),
        Value::Null,
    ];
    let namespaces = ["user:ana", "user:ben", "user:nobody", "team:acme", ""];
    let mut points: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| kinds.iter().map(|kind| payload(namespace, kind)))
        .enumerate()
        .map(|(number, payload)| (id("other", number), payload))
        .collect();
    points.push((id("bare", 0), json!({"namespace": "user:ana"})));
    points.push((point_id("user:ana", 8), payload("user:ana", &json!("file"))));
    points
}

#[test]
fn a_night_leaves_the_points_of_other_kinds() {
    let shared = Shared::new();
    let (before, theirs) = (shared.site.everything(), shared.theirs());
    let check = shared.site.run(&["check", "--json"]).expect(3);
    let check = &check.objects("check")[0];
    assert_eq!(check["points"], 13, "{check}");
    assert_eq!(check["drift"]["point_without_row"], 2, "{check}");
    assert_eq!(check["drift"]["row_without_point"], 1, "{check}");
    assert_eq!(check["drift"]["point_without_namespace"], 0, "{check}");

    let night = shared.site.night().expect(0);
    assert_eq!(shared.theirs(), theirs, "{night:#?}");
    let left: BTreeSet<Uuid> = (1..=6).map(|row| point_id("user:ana", row)).collect();
    assert_eq!(shared.ours(), left, "{night:#?}");
    let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let again = shared.site.night().expect(0);
    assert_eq!(shared.theirs(), theirs, "{again:#?}");

    // What was erased with its owner is not put back.
    let undo = shared.site.run(&["undo", &run, "--json"]);
    assert_eq!(shared.theirs(), theirs, "{undo:#?}");
    assert!(shared.ours().contains(&point_id("user:ana", 7)));
    assert!(before.1[COLLECTION].len() > shared.site.points()[COLLECTION].len());
}

#[test]
fn forgetting_an_owner_leaves_the_points_of_other_kinds() {
    let shared = Shared::new();
    let theirs = shared.theirs();
    let forget = shared
        .site
        .run(&["forget", "user:ana", "--yes", "--json"])
        .expect(0);
    assert_eq!(shared.theirs(), theirs, "{forget:#?}");
    let left = shared.ours();
    assert!(
        (1..=12).all(|row| !left.contains(&point_id("user:ana", row))),
        "{forget:#?}"
    );
}

#[test]
fn a_restore_leaves_the_points_of_other_kinds() {
    let shared = Shared::new();
    let ours = shared.ours();
    let taken = shared.site.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned();
    // Some of theirs change, some come.
    let changed = [(id("other", 0), payload("user:zoe", &json!("file")))];
    shared.site.put(COLLECTION, &changed);
    let before = shared.theirs();
    let night = shared.site.night().expect(0);
    assert_ne!(shared.ours(), ours, "{night:#?}");
    let restored = shared
        .site
        .run(&["snapshot", "restore", &pair, "--bring-back", "--json"]);
    assert_eq!(shared.theirs(), before, "{restored:#?}");
    // But for what was erased with its owner.
    let erased = (9..=12).map(|row| point_id("user:ben", row));
    let erased: BTreeSet<Uuid> = erased.collect();
    let expected: BTreeSet<Uuid> = ours.difference(&erased).copied().collect();
    assert_eq!(shared.ours(), expected, "{restored:#?}");
}
