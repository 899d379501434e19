//! The same fact several times: what is folded, what is asked about, and what nothing brings together.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;
use serde_json::{Value, json};

use crate::support::{BACKENDS, Backend, DAY, DIM, Output, World, now, open, vector};

mod directions;
mod levels;

use levels::{falling, merged};

fn world(backend: Backend) -> World {
    let world = World::new(backend);
    for user in ["ana", "bea"] {
        world.user(user, None);
    }
    world
}

/// Remembers a text with a vector of its own.
fn say(world: &mut World, user: &str, text: &str, vector: Vec<f32>) -> i64 {
    let id = world.row(user, now() - DAY, None);
    set(world, "content", text, id);
    world.put_vectors(&[(format!("user:{user}"), id, vector)]);
    id
}

fn set(world: &World, column: &str, value: impl rusqlite::ToSql, id: i64) {
    let sql = format!("UPDATE memories SET {column} = ?1 WHERE id = ?2");
    world.rows().execute(&sql, params![value, id]).unwrap();
}

/// Of unit length, at this cosine to the vector of an id, in a direction that depends on `towards`.
fn near(id: i64, cosine: f32, towards: i64) -> Vec<f32> {
    let (base, other) = (vector(id), vector(towards));
    let along: f32 = base.iter().zip(&other).map(|(a, b)| a * b).sum();
    let rest: Vec<f32> = base
        .iter()
        .zip(&other)
        .map(|(a, b)| b - along * a)
        .collect();
    let length = rest.iter().map(|x| x * x).sum::<f32>().sqrt();
    let aside = (1.0 - cosine * cosine).sqrt() / length;
    base.iter()
        .zip(&rest)
        .map(|(a, b)| cosine * a + aside * b)
        .collect()
}

/// Which memory each hidden one is behind.
fn hidden(world: &World) -> BTreeMap<i64, i64> {
    let db = world.rows();
    let mut read = db
        .prepare("SELECT id, superseded_by FROM memories WHERE superseded_by IS NOT NULL")
        .unwrap();
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// The memories that are left visible.
fn live(world: &World) -> BTreeSet<i64> {
    let hidden = hidden(world);
    world
        .ids()
        .into_iter()
        .filter(|id| !hidden.contains_key(id))
        .collect()
}

/// The memories of each open question about similar ones.
fn asked(world: &World) -> BTreeSet<BTreeSet<i64>> {
    let queue = world.run(&["review", "--json"]).expect(0);
    let entries = queue.objects("entry");
    let similar = entries.iter().filter(|entry| entry["kind"] == "similar");
    let ids = |entry: &Value| {
        let memories = entry["memories"].as_array().unwrap().clone();
        let id = |memory: Value| memory["id"].as_str().unwrap().parse().unwrap();
        memories.into_iter().map(id).collect()
    };
    similar.map(ids).collect()
}

fn is_quiet(world: &World) {
    let before = (world.dump(), world.all_points(), asked(world));
    for _ in 0..2 {
        let _ = world.night().expect(0).all_passes("idle");
    }
    assert_eq!((world.dump(), world.all_points(), asked(world)), before);
}

#[test]
fn one_sentence_in_several_spellings_is_one_memory() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let spellings = [
            "Não usa Docker às segundas.",
            "nao usa docker as segundas",
            "NÃO  USA  DOCKER,  às segundas!",
        ];
        // As far from each other as can be: the text decides.
        let ids: Vec<i64> = (1..)
            .zip(spellings)
            .map(|(n, text)| say(&mut world, "ana", text, vector(n)))
            .collect();
        set(&world, "created_at", now() - 90 * DAY, ids[0]);
        set(&world, "last_used_at", now() - 2 * DAY, ids[0]);
        set(&world, "created_at", now() - 3 * DAY, ids[1]);
        set(&world, "created_at", now() - 9 * DAY, ids[2]);
        let night = world.night().expect(0);
        assert_eq!(night.pass("duplicates")["applied"], json!({"supersede": 2}));
        assert_eq!(
            hidden(&world),
            [(ids[0], ids[1]), (ids[2], ids[1])].into(),
            "the latest stays"
        );
        assert_eq!(world.point_rows(), [ids[1]].into());
        let (created, used): (i64, i64) = world
            .rows()
            .query_row(
                "SELECT created_at, last_used_at FROM memories WHERE id = ?1",
                [ids[1]],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert!(
            (created - (now() - 90 * DAY)).abs() < 3600,
            "the earliest creation stays"
        );
        assert!(
            (used - (now() - 2 * DAY)).abs() < 3600,
            "and the latest use"
        );
        is_quiet(&world);
    }
}

/// `ttl` counts history from when it became history: two old memories are no old history the night after.
#[test]
fn what_was_hidden_tonight_is_history_from_tonight() {
    for backend in BACKENDS {
        let mut world = world(backend);
        for _ in 0..2 {
            let id = say(&mut world, "ana", "Ana likes green tea", vector(1));
            set(&world, "created_at", now() - 900 * DAY, id);
            set(&world, "last_used_at", now(), id);
        }
        world.night().expect(0);
        assert_eq!(hidden(&world).len(), 1);
        is_quiet(&world);
        assert_eq!(world.ids().len(), 2);
        let later = world.run(&["--dry-run", "--json", "--at", "+179d", "--only", "ttl"]);
        assert_eq!(later.expect(0).plan("ttl")["planned"], json!({}));
        let later = world.run(&["--dry-run", "--json", "--at", "+181d", "--only", "ttl"]);
        assert_eq!(later.expect(0).plan("ttl")["planned"], json!({"delete": 1}));
    }
}

#[rustfmt::skip]
const LOOK_ALIKES: [(&str, &str); 6] = [
    ("the review is on 15 October", "the review is on 16 October"),
    ("needs version 2.1 of the tool", "needs version 2.10 of the tool"),
    ("prefers npm", "prefers pnpm"),
    ("nao usa", "usa"),
    ("port 8080", "port 9090"),
    ("Ana likes tea", "Bruno likes tea"),
];

#[test]
fn look_alikes_stay_apart_however_near_and_are_asked_about() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure(
            "[pass.review]",
            "[pass.duplicates]\nmerge_at = 0.7\n[pass.review]",
        );
        let pairs: BTreeSet<BTreeSet<i64>> = (1..)
            .zip(LOOK_ALIKES)
            .map(|(n, (a, b))| {
                let mut say = |text| say(&mut world, "ana", text, vector(n));
                BTreeSet::from([say(a), say(b)])
            })
            .collect();
        let night = world.night().expect(0);
        assert_eq!(hidden(&world), BTreeMap::new());
        assert_eq!(world.point_rows().len(), 2 * LOOK_ALIKES.len());
        assert_eq!(asked(&world), pairs, "{night:#?}");
        assert_eq!(night.pass("duplicates")["findings"]["kept_apart"], 6);
        is_quiet(&world);
    }
}

#[test]
fn nothing_crosses_a_namespace_or_a_type() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let text = "Prefers short answers";
        let ids = ["ana", "bea", "ana"].map(|user| say(&mut world, user, text, vector(1)));
        set(&world, "memory_type", "preference", ids[2]);
        let _ = world.night().expect(0).all_passes("idle");
        assert_eq!(world.ids(), ids.into());
        assert_eq!(asked(&world), BTreeSet::new());
    }
}

/// A in the middle: B and C are near it and not near each other; only what is near the survivor joins it.
#[test]
fn nobody_joins_by_way_of_a_third() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let texts = [
            "User prefers dark mode",
            "The user prefers dark mode",
            "The user prefers the dark mode",
        ];
        let vectors = [
            near(1, 0.95, 2),
            vector(1),
            near(1, -0.95, 2).iter().map(|x| -x).collect(),
        ];
        let ids: Vec<i64> = texts
            .into_iter()
            .zip(vectors)
            .map(|(text, vector)| say(&mut world, "ana", text, vector))
            .collect();
        // The first one is the best: it takes in the second, and the third is near nobody that is left.
        for (age, id) in (1..).zip(&ids) {
            set(&world, "created_at", now() - age * DAY, *id);
        }
        world.night().expect(0);
        assert_eq!(hidden(&world), [(ids[1], ids[0])].into());
        assert_eq!(asked(&world), [[ids[0], ids[2]].into()].into());
        is_quiet(&world);
    }
}

/// Two memories of one text and vector, a column of each set.
fn pair(world: &mut World, text: &str, first: (&str, f64), second: (&str, f64)) -> [i64; 2] {
    [first, second].map(|(column, value)| {
        let id = say(world, "ana", text, vector(9));
        set(world, column, value, id);
        id
    })
}

/// A vague memory that was just used hides no other one that says what it leaves out.
#[test]
fn what_says_more_goes_for_nothing_that_says_less() {
    let mut world = world(Backend::Sqlite);
    let vague = say(&mut world, "ana", "Ana takes the pill", near(1, 1.0, 2));
    let before = say(
        &mut world,
        "ana",
        "Ana takes the pill before lunch",
        near(1, 0.99, 2),
    );
    let after = say(
        &mut world,
        "ana",
        "Ana takes the pill after lunch",
        near(1, 0.98, 3),
    );
    set(&world, "last_used_at", now() - 60, vague);
    world.night().expect(0);
    assert_eq!(live(&world), [vague, before, after].into());
    assert_eq!(asked(&world), [[vague, before, after].into()].into());
    is_quiet(&world);
}

#[test]
fn trust_pins_and_lifetimes_are_respected() {
    let mut world = world(Backend::Sqlite);
    world
        .rows()
        .execute_batch(
            "ALTER TABLE memories ADD COLUMN trust REAL;
             ALTER TABLE memories ADD COLUMN pinned INTEGER",
        )
        .unwrap();
    world.configure(
        "preset = \"ttl-days\"",
        "preset = \"ttl-days\"\ntrust = \"trust\"\npinned = \"pinned\"",
    );
    // A flood of younger copies from a source that is trusted less.
    let [trusted, flood] = pair(&mut world, "Ana is a pilot", ("trust", 0.9), ("trust", 0.1));
    let pinned = pair(
        &mut world,
        "Ana likes green tea",
        ("pinned", 1.0),
        ("pinned", 1.0),
    );
    let [brief, lasting] = pair(
        &mut world,
        "Ana is in Rome",
        ("ttl_days", 7.0),
        ("ttl_days", 30.0),
    );
    set(&world, "created_at", now() - 2 * DAY, lasting);
    // The better one would go first.
    let [gone_soon, kept] = pair(
        &mut world,
        "Ana has a dog",
        ("ttl_days", 7.0),
        ("ttl_days", 30.0),
    );
    set(&world, "trust", 0.9, gone_soon);
    set(&world, "created_at", now() - 2 * DAY, kept);
    world.night().expect(0);
    let hidden = hidden(&world);
    assert_eq!(hidden.get(&flood), Some(&trusted));
    assert!(pinned.iter().all(|id| !hidden.contains_key(id)));
    assert_eq!(
        hidden.get(&brief),
        None,
        "the younger would go first, and stays for the rest of its time"
    );
    assert_eq!(
        hidden.get(&lasting),
        None,
        "and the one that lasts is not hidden behind it"
    );
    assert!(!hidden.contains_key(&gone_soon) && !hidden.contains_key(&kept));
    assert_eq!(hidden.len(), 1);
    is_quiet(&world);
}

#[test]
fn without_vectors_equal_texts_are_merged_and_the_pass_says_so() {
    let mut world = world(Backend::Sqlite);
    let vectors = world.vectors_config();
    world.configure(&vectors, "");
    let ids = ["User likes tea", "user likes TEA!", "The user likes tea"]
        .map(|text| say(&mut world, "ana", text, vector(1)));
    let night = world.night().expect(0);
    let pass = night.pass("duplicates");
    assert_eq!(pass["applied"], json!({"supersede": 1}));
    assert!(
        pass["degraded"].to_string().contains("no vectors"),
        "{pass:#}"
    );
    assert!(live(&world).contains(&ids[2]) && live(&world).len() == 2);
}

/// What is new is compared with everything, what is not with nothing; other settings are another question.
#[test]
fn what_is_new_or_changed_is_compared_with_the_rest() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let old = say(&mut world, "ana", "User likes harbours", vector(1));
        let other = say(&mut world, "ana", "The user likes rivers", near(1, 0.9, 2));
        for id in [old, other] {
            set(&world, "created_at", now() - 3 * DAY, id);
        }
        world.night().expect(0);
        assert_eq!(asked(&world), [[old, other].into()].into());
        is_quiet(&world);
        let new = say(
            &mut world,
            "ana",
            "The user likes harbours",
            near(1, 0.99, 3),
        );
        world.night().expect(0);
        assert_eq!(hidden(&world), [(old, new)].into());
        is_quiet(&world);
        set(&world, "content", "The user likes harbours", other);
        world.night().expect(0);
        assert_eq!(hidden(&world).len(), 2, "equal by now");
        is_quiet(&world);
        let far = say(
            &mut world,
            "ana",
            "User likes the harbours",
            near(1, 0.85, 5),
        );
        world.night().expect(0);
        assert!(live(&world).contains(&far));
        world.configure(
            "[pass.review]",
            "[pass.duplicates]\nmerge_at = 0.7\n[pass.review]",
        );
        world.night().expect(0);
        assert_eq!(
            live(&world).len(),
            1,
            "at another setting all are compared again"
        );
    }
}

#[test]
fn an_answered_question_is_put_again_only_when_it_is_another_one() {
    let mut world = world(Backend::Sqlite);
    let a = say(&mut world, "ana", "User likes harbours", vector(1));
    let b = say(&mut world, "ana", "User likes rivers", near(1, 0.9, 2));
    world.night().expect(0);
    let queue = world.run(&["review", "--json"]).expect(0);
    let entry = queue.objects("entry")[0]["entry"].to_string();
    world.run(&["review", "keep", &entry]).expect(0);
    is_quiet(&world);
    assert_eq!(asked(&world), BTreeSet::new());
    let c = say(&mut world, "ana", "User likes towers", near(1, 0.9, 3));
    world.night().expect(0);
    assert_eq!(asked(&world), [[a, b, c].into()].into());
    is_quiet(&world);
    // A question that has not been answered gives way to the one that covers it.
    let d = say(&mut world, "ana", "User likes pianos", near(1, 0.9, 4));
    world.night().expect(0);
    assert_eq!(asked(&world), [[a, b, c, d].into()].into());
}

/// The order in which rows and points were written does not matter.
#[test]
fn the_outcome_does_not_depend_on_the_order_of_the_rows() {
    let plans = [false, true].map(|reversed| {
        let mut world = world(Backend::Sqlite);
        falling(&mut world, |vector| vector);
        for text in ["User likes tea", "user likes tea.", "USER likes tea"] {
            say(&mut world, "ana", text, vector(7));
        }
        set(&world, "created_at", 1_700_000_000, 1);
        world
            .rows()
            .execute("UPDATE memories SET created_at = 1700000000", [])
            .unwrap();
        if reversed {
            world
                .rows()
                .execute_batch(
                    "CREATE TEMP TABLE kept AS SELECT * FROM memories ORDER BY id DESC;
                     DELETE FROM memories;
                     UPDATE kept SET id = id + 1000;
                     INSERT INTO memories SELECT * FROM kept;
                     UPDATE memories SET id = id - 1000",
                )
                .unwrap();
        }
        let dry = world
            .run(&["--dry-run", "--json", "--only", "duplicates"])
            .expect(0);
        dry.plan("duplicates")["actions"].clone()
    });
    assert!(plans[0].as_array().unwrap().len() > 10);
    let strip = |actions: &Value| -> BTreeSet<String> {
        let actions = actions.as_array().unwrap().iter();
        actions.map(ToString::to_string).collect()
    };
    assert_eq!(strip(&plans[0]), strip(&plans[1]));
}

#[test]
fn a_dry_run_lists_what_the_run_hides() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 1.0\n[pass.orphans]",
        );
        let pairs = falling(&mut world, |vector| vector);
        // What `ttl` takes is nobody's survivor.
        let expired = say(&mut world, "ana", "User likes apples", vector(100));
        set(&world, "created_at", now() - 9 * DAY, expired);
        set(&world, "ttl_days", 7, expired);
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let of = |action: &Value| {
            (action["action"] == "supersede")
                .then(|| action["id"].as_str().unwrap().parse().unwrap())
        };
        let actions = dry.plan("duplicates")["actions"].clone();
        let planned: BTreeSet<i64> = actions.as_array().unwrap().iter().filter_map(of).collect();
        world.night().expect(0);
        assert_eq!(planned, hidden(&world).into_keys().collect());
        assert_eq!(planned.len(), merged(&world, &pairs).len());
    }
}

/// An application that changed a row and not its point: the vector says nothing of the memory any more.
#[test]
fn a_vector_of_another_text_brings_nothing_together() {
    let mut world = world(Backend::Sqlite);
    let rule = "[store.vectors]\n";
    world.configure(rule, "[store.vectors]\ntext = \"meta.said\"\n");
    let made_of = |world: &World, id: i64, text: &str| {
        let db = crate::support::open(&world.path("vectors.db"));
        let sql = "UPDATE points SET payload = json_set(payload, '$.meta', json_object('said', ?1)) WHERE id = ?2";
        let point = crate::support::point_id("user:ana", id).to_string();
        assert_eq!(db.execute(sql, [text, &point]).unwrap(), 1);
    };
    let a = say(&mut world, "ana", "The user prefers dark mode", vector(1));
    let b = say(
        &mut world,
        "ana",
        "The user prefers the dark mode",
        near(1, 0.97, 2),
    );
    let c = say(&mut world, "ana", "The user likes rivers", near(1, 0.8, 3));
    made_of(&world, a, "the user prefers  dark mode.");
    made_of(&world, b, "The user prefers the light mode");
    made_of(&world, c, "The user likes lakes");
    let check = world.run(&["check", "--json"]).expect(3);
    let check = &check.objects("check")[0];
    assert_eq!(check["drift"]["stale_point"], 2, "{check}");
    let night = world.night().expect(0);
    let pass = night.pass("duplicates");
    assert_eq!(pass["findings"]["without_vector"], 2, "{night:#?}");
    assert_eq!(
        (hidden(&world), asked(&world)),
        (BTreeMap::new(), BTreeSet::new())
    );
    is_quiet(&world);

    // Embedded again, or of a point that does not say.
    made_of(&world, b, "The user prefers the dark mode");
    let night = world.night().expect(0);
    assert_eq!(night.pass("duplicates")["applied"], json!({"supersede": 1}));
    let db = crate::support::open(&world.path("vectors.db"));
    db.execute("UPDATE points SET payload = NULL", []).unwrap();
    let night = world.night().expect(0);
    let findings = &night.pass("duplicates")["findings"];
    assert_eq!(*findings, json!({}), "{night:#?}");
    assert_eq!(asked(&world).len(), 1, "{night:#?}");
    let _ = world.run(&["check"]).expect(0);
}

#[test]
fn equal_texts_are_told_as_such_whatever_their_vectors_say() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..2 {
        world.memory("ana", now(), None);
    }
    world
        .rows()
        .execute_batch("UPDATE memories SET content = 'Ana has a canary.'")
        .unwrap();
    let dry = world.run(&["--dry-run", "--json"]).expect(0);
    let reason = &dry.plan("duplicates")["actions"][0]["reason"];
    assert_eq!(
        *reason,
        serde_json::json!({"duplicate": {"cosine_e4": null}}),
        "{dry:#?}"
    );
    let told = world.run(&["--dry-run"]).expect(0).stdout;
    assert!(told.contains("the same text"), "{told}");
}
