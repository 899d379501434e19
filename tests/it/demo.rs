//! The demo: one command, a real store, and a second night that finds nothing.

use std::collections::{BTreeMap, BTreeSet};

use hypnos::demo::{Pair, Place, planted};

use crate::support::{Output, hypnos, open, shell};

#[test]
fn the_demo_does_its_work_once_and_is_idle_after_that() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Output::of(hypnos().current_dir(dir.path()).args(args));
    let first = run(&["demo"]).expect(0);
    for word in ["8 users", "2 teams", "Look next", "ttl", "orphans"] {
        assert!(first.stdout.contains(word), "{word} is not in {first:#?}");
    }
    let second = run(&["demo", "--json"]).expect(0).all_passes("idle");
    assert_eq!(second.objects("pass").len(), hypnos::pass::registry().len());
    let config = dir.path().join("hypnos-demo/hypnos.toml");
    let config = config.to_str().unwrap();
    let check = run(&["--config", config, "check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert!(
        drift.as_object().unwrap().values().all(|count| count == 0),
        "{check:#?}"
    );
    let _ = run(&["--config", config, "status"]).expect(0);
    let text = std::fs::read_to_string(config).unwrap();
    let calls: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .collect();
    assert_eq!(calls.len(), 2, "{text}");
    for call in calls {
        let _ = shell(&dir.path().join("hypnos-demo"), call).expect(0);
    }
}

#[test]
fn the_demo_does_not_build_over_somebody_elses_folder() {
    let dir = tempfile::tempdir().unwrap();
    crate::support::write(&dir.path().join("thesis.txt"), "two years of work");
    let refused = Output::of(hypnos().arg("demo").arg(dir.path())).expect(1);
    assert!(
        refused.stderr.contains("demo") || refused.stderr.contains("empty"),
        "{refused:#?}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// What a night left of the demo.
struct Left {
    /// Each row, and what it is hidden behind.
    rows: BTreeMap<i64, Option<i64>>,
    points: BTreeSet<String>,
    /// The memories of each open question, by its kind.
    asked: Vec<(String, BTreeSet<i64>)>,
}

impl Left {
    fn is_live(&self, place: &Place) -> bool {
        self.rows.get(&place.id) == Some(&None) && self.has_point(place)
    }

    fn has_point(&self, place: &Place) -> bool {
        self.points.contains(&place.point().to_string())
    }

    fn is_hidden_behind(&self, place: &Place, survivor: &Place) -> bool {
        self.rows.get(&place.id) == Some(&Some(survivor.id)) && !self.has_point(place)
    }

    fn is_gone(&self, place: &Place) -> bool {
        !self.rows.contains_key(&place.id) && !self.has_point(place)
    }

    /// Whether one question of this kind is about both.
    fn is_asked(&self, kind: &str, pair: &Pair) -> bool {
        self.asked.iter().any(|(of, members)| {
            of == kind && members.contains(&pair.older.id) && members.contains(&pair.newer.id)
        })
    }
}

fn night() -> Left {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Output::of(hypnos().current_dir(dir.path()).args(args));
    run(&["demo", "demo"]).expect(0);
    let config = dir.path().join("demo/hypnos.toml");
    let queue = run(&["--config", config.to_str().unwrap(), "review", "--json"]).expect(0);
    let asked = queue.objects("entry").into_iter().map(|entry| {
        let memories = entry["memories"].as_array().unwrap().iter();
        let ids = memories.map(|memory| memory["id"].as_str().unwrap().parse().unwrap());
        (entry["kind"].as_str().unwrap().to_owned(), ids.collect())
    });
    let rows = open(&dir.path().join("demo/memory.db"));
    let mut rows = rows
        .prepare("SELECT id, superseded_by FROM memories")
        .unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let points = open(&dir.path().join("demo/vectors.db"));
    let mut points = points.prepare("SELECT id FROM points").unwrap();
    let points = points.query_map([], |row| row.get(0));
    Left {
        rows: rows.unwrap().map(Result::unwrap).collect(),
        points: points.unwrap().map(Result::unwrap).collect(),
        asked: asked.collect(),
    }
}

#[test]
fn everything_planted_in_the_demo_ends_where_it_should() {
    let (left, planted) = (night(), planted());
    let every = |places: &[Place], holds: &dyn Fn(&Place) -> bool, what: &str| {
        let wrong: Vec<_> = places.iter().filter(|place| !holds(place)).collect();
        assert!(!places.is_empty() && wrong.is_empty(), "{what}: {wrong:#?}");
    };
    every(&planted.expired, &|place| left.is_gone(place), "expired");
    every(&planted.history, &|place| left.is_gone(place), "history");
    every(&planted.behind, &|place| left.is_gone(place), "behind");
    every(
        &planted.owner_deleted,
        &|place| left.is_gone(place),
        "owner deleted",
    );
    every(&planted.ghosts, &|place| left.is_gone(place), "ghosts");
    every(&planted.rowless, &|place| left.is_gone(place), "rowless");
    every(
        &planted.not_yet_expired,
        &|place| left.is_live(place),
        "not yet expired",
    );
    for merge in &planted.merges {
        let survivor = &merge.survivor;
        assert!(left.is_live(survivor), "{survivor:?}");
        for gone in merge.reworded.iter().chain(&merge.same_text) {
            assert!(
                left.is_hidden_behind(gone, survivor),
                "{gone:?} {:?}",
                left.rows.get(&gone.id)
            );
        }
    }
    let merged: usize = planted
        .merges
        .iter()
        .map(|merge| merge.reworded.len() + merge.same_text.len())
        .sum();
    let hidden = left.rows.values().flatten().count();
    assert_eq!(
        hidden,
        merged + planted.hidden.len(),
        "and nothing else is hidden"
    );
    let pairs = [
        &planted.retold,
        &planted.similar,
        &planted.look_alikes,
        &planted.contradictions,
    ];
    for pair in pairs.into_iter().flatten() {
        assert!(
            left.is_live(&pair.older) && left.is_live(&pair.newer),
            "{pair:?}"
        );
        assert!(left.is_asked("similar", pair), "{pair:?}");
    }
    for pair in &planted.apart {
        assert!(
            left.is_live(&pair.older) && left.is_live(&pair.newer),
            "{pair:?}"
        );
        assert!(!left.is_asked("contradiction", pair), "{pair:?}");
    }
}
