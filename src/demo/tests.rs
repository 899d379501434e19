use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::seed::{ACCOUNTS, Held, PLACES, Plant, SEEDS, Scope, Seed};
use super::vectors::{VECTORS as UNIT_VECTORS, cosine};
use super::*;

/// Limits of the passes in days, and the cosines, at their defaults.
const STALE_AFTER: f64 = 90.0;
const UNUSED_AFTER: f64 = 180.0;
const RETENTION: f64 = 180.0;
const WINDOW: f64 = 7.0;
const FLOOR: f64 = 0.05;
const CLUSTER_AT: f64 = 0.70;
const MERGE_AT: f64 = 0.92;
/// How far from a cosine's limit a planted pair has to stay: the loss of quantisation is a tenth of it.
const MARGIN: f64 = 0.02;

fn now() -> Timestamp {
    "2026-03-14T03:00:00.75Z".parse().unwrap()
}

fn index(key: &str) -> usize {
    SEEDS.iter().position(|seed| seed.key == key).unwrap()
}

fn seed(place: &Place) -> &'static Seed {
    &SEEDS[index(place.key)]
}

fn similarity(a: &Place, b: &Place) -> f64 {
    cosine(&UNIT_VECTORS[index(a.key)], &UNIT_VECTORS[index(b.key)])
}

fn keys<'a>(places: impl IntoIterator<Item = &'a Place>) -> BTreeSet<&'static str> {
    places.into_iter().map(|place| place.key).collect()
}

/// Keys of the users' memories that have a row and of which `holds` is true.
fn rows_where(holds: impl Fn(&Seed) -> bool) -> BTreeSet<&'static str> {
    SEEDS
        .iter()
        .filter(|seed| seed.scope == Scope::User && seed.place != Held::Point && holds(seed))
        .map(|seed| seed.key)
        .collect()
}

/// Keys that no pass before `decay` takes, and that are not hidden.
fn alive_after_merging(key: &str) -> bool {
    let planted = planted();
    let merged = planted
        .merges
        .iter()
        .flat_map(|merge| merge.reworded.iter().chain(&merge.same_text));
    let mut gone = keys(merged.chain(&planted.hidden));
    gone.extend(keys(planted.removed_by_ttl()));
    gone.extend(keys(planted.removed_by_orphans()));
    !gone.contains(key)
}

fn is_exempt(seed: &Seed) -> bool {
    ["preference", "procedure", "error_pattern"].contains(&seed.kind)
}

#[test]
fn the_demo_has_something_for_every_pass() {
    let planted = planted();
    assert_eq!(planted.expired.len(), 30);
    assert_eq!(planted.history.len(), 3);
    assert_eq!(planted.behind.len(), 1);
    assert_eq!(planted.not_yet_expired.len(), 7);
    assert_eq!(planted.hidden.len(), 4);
    assert_eq!(planted.owner_deleted.len(), 26);
    assert_eq!(planted.ghosts.len(), 12);
    assert_eq!(planted.rowless.len(), 8);
    assert_eq!(planted.merges.len(), 27);
    let members = |of: fn(&Merge) -> usize| planted.merges.iter().map(of).sum::<usize>();
    assert_eq!(members(|merge| merge.reworded.len()), 23);
    assert_eq!(members(|merge| merge.same_text.len()), 6);
    assert_eq!(planted.similar.len(), 6);
    assert_eq!(planted.look_alikes.len(), 21);
    assert_eq!(planted.contradictions.len(), 12);
    assert_eq!(planted.apart.len(), 5);
    assert_eq!(planted.faded.len(), 15);
    assert_eq!(planted.stale.len(), 25);
    assert_eq!(planted.unused.len(), 5);
}

#[test]
fn every_kind_of_difference_and_signal_is_there() {
    let planted = planted();
    let by = |pairs: &[Pair]| pairs.iter().map(|pair| pair.by).collect::<BTreeSet<_>>();
    assert_eq!(
        by(&planted.look_alikes),
        BTreeSet::from([
            "date", "name", "not", "number", "port", "time", "tool", "unit", "version", "weekday"
        ])
    );
    assert_eq!(
        by(&planted.contradictions),
        BTreeSet::from(["antonym", "negation", "numeric"])
    );
    assert_eq!(by(&planted.apart), BTreeSet::from(["namespace", "window"]));
}

#[test]
fn every_account_remembers_something_and_ghosts_have_no_account() {
    let accounts: BTreeSet<_> = ACCOUNTS.iter().map(|account| account.id).collect();
    let with_rows = rows_where(|_| true)
        .iter()
        .map(|key| SEEDS[index(key)].owner)
        .collect();
    assert_eq!(accounts, with_rows);
    let closed: BTreeSet<_> = ACCOUNTS
        .iter()
        .filter(|account| account.deleted_days.is_some())
        .map(|account| account.id)
        .collect();
    let owners = |places: &[Place]| {
        places
            .iter()
            .map(|p| seed(p).owner)
            .collect::<BTreeSet<_>>()
    };
    let planted = planted();
    assert_eq!(owners(&planted.owner_deleted), closed);
    assert_eq!(owners(&planted.ghosts), BTreeSet::from(["bruno", "helga"]));
    assert!(owners(&planted.ghosts).is_disjoint(&accounts));
    assert!(owners(&planted.rowless).is_subset(&(&accounts - &closed)));
    assert_eq!(
        rows_where(|seed| closed.contains(seed.owner)),
        keys(&planted.owner_deleted)
    );
    let points_only = SEEDS
        .iter()
        .filter(|seed| seed.place == Held::Point)
        .map(|seed| seed.key)
        .collect();
    assert_eq!(
        keys(planted.ghosts.iter().chain(&planted.rowless)),
        points_only
    );
}

#[test]
fn names_ids_and_texts_are_unique() {
    let names: BTreeSet<_> = SEEDS.iter().map(|seed| seed.key).collect();
    assert_eq!(names.len(), SEEDS.len());
    let texts: BTreeSet<_> = SEEDS.iter().map(|seed| seed.text.as_str()).collect();
    assert_eq!(texts.len(), SEEDS.len());
    let points: BTreeSet<_> = PLACES.iter().map(Place::point).collect();
    assert_eq!(points.len(), SEEDS.len());
    let rows: BTreeSet<_> = SEEDS
        .iter()
        .zip(PLACES.iter())
        .map(|(seed, place)| (seed.scope, place.id))
        .collect();
    assert_eq!(rows.len(), SEEDS.len());
}

#[test]
fn awkward_but_legal_texts_are_among_them() {
    let some = |holds: fn(&str) -> bool| SEEDS.iter().any(|seed| holds(&seed.text));
    assert!(some(|text| text.contains('😅')));
    assert!(some(|text| text.contains('"')));
    assert!(some(|text| text.contains('\'')));
    assert!(some(|text| text.contains('\n')));
    assert!(some(|text| text.contains("https://")));
    assert!(some(|text| text.contains("  ")));
    assert!(some(|text| text.chars().count() >= 600));
    assert!(some(
        |text| text.contains('\u{200b}') && text.contains('\u{200f}')
    ));
}

#[test]
fn times_make_sense() {
    for seed in SEEDS.iter() {
        let key = seed.key;
        assert!(seed.age_days > 0.0, "{key}");
        assert!(
            seed.used_days.is_none_or(|used| used <= seed.age_days),
            "{key}"
        );
        assert!(
            seed.confirmed_days
                .is_none_or(|confirmed| confirmed <= seed.age_days),
            "{key}"
        );
        assert_eq!(seed.used_days.is_some(), seed.uses > 0, "{key}");
    }
}

#[test]
fn pairs_are_noted_at_the_newer_one_and_stay_in_their_namespace() {
    let planted = planted();
    let all = planted
        .similar
        .iter()
        .chain(&planted.look_alikes)
        .chain(&planted.contradictions)
        .chain(&planted.apart);
    for Pair { older, newer, by } in all {
        assert!(seed(older).age_days > seed(newer).age_days, "{older:?}");
        assert_eq!(older.namespace == newer.namespace, *by != "namespace");
        assert_eq!(seed(older).kind, seed(newer).kind, "{older:?}");
    }
    for Merge {
        survivor,
        reworded,
        same_text,
    } in &planted.merges
    {
        for member in reworded.iter().chain(same_text) {
            assert_eq!(survivor.namespace, member.namespace);
            assert_eq!(seed(survivor).kind, seed(member).kind, "{member:?}");
        }
    }
}

#[test]
fn what_has_to_go_by_ttl_is_what_is_past_its_time() {
    let planted = planted();
    let past = |seed: &Seed| {
        seed.ttl_days
            .is_some_and(|days| seed.age_days >= f64::from(i32::try_from(days).unwrap()))
    };
    assert_eq!(rows_where(past), keys(&planted.expired));
    let alive = rows_where(|seed| seed.ttl_days.is_some() && !past(seed));
    assert_eq!(alive, keys(&planted.not_yet_expired));
    // The instant itself counts as past; half a day before it does not, and lasts for a while.
    let left = |place: &Place| {
        f64::from(i32::try_from(seed(place).ttl_days.unwrap()).unwrap()) - seed(place).age_days
    };
    assert!(planted.expired.iter().any(|place| left(place) == 0.0));
    assert!(
        planted
            .not_yet_expired
            .iter()
            .any(|place| left(place) == 0.5)
    );
    assert!(
        planted
            .not_yet_expired
            .iter()
            .all(|place| left(place) >= 0.5)
    );
}

#[test]
fn superseded_chains_end_alive_and_are_old_or_not() {
    let planted = planted();
    let hidden = rows_where(|seed| seed.superseded_by.is_some());
    let history_and_hidden = planted.history.iter().chain(&planted.hidden);
    assert_eq!(hidden, keys(history_and_hidden.chain(&planted.behind)));
    let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
    for key in &hidden {
        let mut at = *key;
        while let Some(next) = SEEDS[index(at)].superseded_by {
            let (this, newer) = (&SEEDS[index(at)], &SEEDS[index(next)]);
            assert_eq!(this.owner, newer.owner);
            assert!(this.age_days > newer.age_days, "{at}");
            at = next;
        }
        *lengths.entry(at).or_insert(1) += 1;
    }
    let mut sorted: Vec<_> = lengths.values().copied().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [2, 2, 2, 3, 4]);
    // Counted from the creation of the hidden memory or from that of the one that hides it: the same answer.
    let age_hidden = |place: &Place| {
        let newer = seed(place).superseded_by.unwrap();
        (seed(place).age_days, SEEDS[index(newer)].age_days)
    };
    for place in &planted.history {
        let (older, newer) = age_hidden(place);
        assert!(
            older > RETENTION + 1.0 && newer > RETENTION + 1.0,
            "{place:?}"
        );
    }
    for place in planted.hidden.iter().chain(&planted.behind) {
        assert!(age_hidden(place).0 < RETENTION - 1.0, "{place:?}");
    }
    for place in &planted.behind {
        let head = seed(place).superseded_by.unwrap();
        assert!(keys(&planted.expired).contains(head));
    }
}

#[test]
fn no_night_comes_near_the_guard() {
    let planted = planted();
    let rows = rows_where(|_| true).len();
    let merged: Vec<_> = planted
        .merges
        .iter()
        .flat_map(|merge| merge.reworded.iter().chain(&merge.same_text))
        .collect();
    for removed in [
        planted.removed_by_ttl().collect(),
        planted.removed_by_orphans().collect(),
        merged,
        planted.faded.iter().collect::<Vec<_>>(),
    ] {
        assert!(removed.len() < 50);
        assert!(removed.len() * 5 < rows, "{} of {rows}", removed.len());
        for account in ACCOUNTS
            .iter()
            .filter(|account| account.deleted_days.is_none())
        {
            let of_owner = |key: &str| SEEDS[index(key)].owner == account.id;
            let gone = removed.iter().filter(|place| of_owner(place.key)).count();
            let all = rows_where(|seed| seed.owner == account.id).len();
            assert!(gone * 5 < all, "{gone} of {all} of {}", account.id);
        }
    }
}

#[test]
fn what_has_to_fade_is_what_is_weak() {
    let strength = |seed: &Seed| {
        let scale = if seed.kind == "observation" {
            14.0
        } else {
            90.0
        };
        let uses = f64::from(i32::try_from(seed.uses).unwrap());
        let since = seed
            .used_days
            .or(seed.confirmed_days)
            .unwrap_or(seed.age_days);
        (-since / (scale * (1.0 + uses.ln_1p()))).exp()
    };
    let fades = |floor: f64| {
        rows_where(|seed| {
            !is_exempt(seed)
                && !seed.pinned
                && strength(seed) < floor
                && alive_after_merging(seed.key)
        })
    };
    let planted = keys(&planted().faded);
    assert_eq!(fades(FLOOR), planted);
    // Nor does one of them stand so near to the floor that a day more or less decides.
    assert_eq!(fades(FLOOR * 0.8), planted);
    assert_eq!(fades(FLOOR * 1.5), planted);
}

#[test]
fn what_has_to_be_reviewed_is_what_is_stale_or_unused() {
    let planted = planted();
    let faded = keys(&planted.faded);
    let since = |event: Option<f64>, seed: &Seed| event.unwrap_or(seed.age_days);
    let live = |seed: &Seed| alive_after_merging(seed.key) && !faded.contains(seed.key);
    for margin in [-1.0, 0.0, 1.0] {
        let stale = rows_where(|seed| {
            live(seed) && since(seed.confirmed_days, seed) > STALE_AFTER + margin
        });
        assert_eq!(stale, keys(&planted.stale));
        let unused = rows_where(|seed| {
            live(seed) && is_exempt(seed) && since(seed.used_days, seed) > UNUSED_AFTER + margin
        });
        assert_eq!(unused, keys(&planted.unused));
    }
    assert!(
        planted
            .stale
            .iter()
            .all(|place| seed(place).kind == "preference")
    );
}

#[test]
fn vectors_are_there_for_every_memory_and_of_unit_length() {
    assert_eq!(UNIT_VECTORS.len(), SEEDS.len());
    for vector in UNIT_VECTORS.iter() {
        assert_eq!(vector.len(), 512);
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn duplicates_are_near_and_their_survivor_leads_in_everything() {
    for Merge {
        survivor,
        reworded,
        same_text,
    } in planted().merges
    {
        for member in &reworded {
            let near = similarity(&survivor, member);
            assert!(near >= MERGE_AT + MARGIN, "{} {near}", member.key);
        }
        for member in &same_text {
            let normal = |place: &Place| normalised(&seed(place).text);
            assert_eq!(normal(&survivor), normal(member));
        }
        for member in reworded.iter().chain(&same_text) {
            let (first, other) = (seed(&survivor), seed(member));
            assert!(
                first.confirmed_days.is_some() && other.confirmed_days.is_none(),
                "{}",
                other.key
            );
            assert!(first.pinned >= other.pinned);
            assert!(first.uses > other.uses, "{}", other.key);
            assert!(
                first.used_days < Some(other.used_days.unwrap_or(other.age_days)),
                "{}",
                other.key
            );
        }
    }
}

/// Letters and digits without case or accents, for the accents that the texts use.
fn normalised(text: &str) -> String {
    let plain = |c: char| match c {
        'á' | 'â' | 'ã' | 'à' => 'a',
        'é' | 'ê' => 'e',
        'í' => 'i',
        'ó' | 'ô' | 'õ' => 'o',
        'ú' => 'u',
        'ç' => 'c',
        _ => c,
    };
    text.to_lowercase()
        .chars()
        .map(plain)
        .filter(|c| c.is_alphanumeric())
        .collect()
}

#[test]
fn pairs_stand_at_the_cosines_they_were_planted_for() {
    let planted = planted();
    for Pair { older, newer, .. } in &planted.similar {
        let near = similarity(older, newer);
        assert!(
            (CLUSTER_AT + MARGIN..MERGE_AT - MARGIN).contains(&near),
            "{} {near}",
            newer.key
        );
    }
    for Pair { older, newer, .. } in planted
        .look_alikes
        .iter()
        .chain(&planted.contradictions)
        .chain(&planted.apart)
    {
        let near = similarity(older, newer);
        assert!(near >= CLUSTER_AT + MARGIN, "{} {near}", newer.key);
    }
    // Cosine alone would merge many of them: that is what the guards are for.
    let merged_by_cosine = planted
        .look_alikes
        .iter()
        .filter(|pair| similarity(&pair.older, &pair.newer) >= MERGE_AT);
    assert!(merged_by_cosine.count() >= 8);
}

#[test]
fn only_contradictions_disagree_within_the_window() {
    let planted = planted();
    let days_apart = |pair: &Pair| seed(&pair.older).age_days - seed(&pair.newer).age_days;
    for pair in &planted.contradictions {
        assert!(days_apart(pair) < WINDOW - 0.5, "{pair:?}");
    }
    for pair in &planted.look_alikes {
        assert!(days_apart(pair) > WINDOW + 0.5, "{pair:?}");
    }
    for pair in &planted.apart {
        assert_eq!(
            days_apart(pair) > WINDOW + 0.5,
            pair.by == "window",
            "{pair:?}"
        );
    }
}

#[test]
fn nothing_is_near_that_was_not_planted_near() {
    let planted = planted();
    let mut group: BTreeMap<&str, &str> = BTreeMap::new();
    let pairs = planted
        .similar
        .iter()
        .chain(&planted.look_alikes)
        .chain(&planted.contradictions)
        .chain(&planted.apart);
    let merges = planted.merges.iter().flat_map(|merge| {
        let members = merge.reworded.iter().chain(&merge.same_text);
        members.map(|member| (merge.survivor.key, member.key))
    });
    let links: Vec<_> = pairs
        .map(|pair| (pair.older.key, pair.newer.key))
        .chain(merges)
        .collect();
    let root = |group: &BTreeMap<&'static str, &'static str>, mut key: &'static str| {
        while let Some(&next) = group.get(key) {
            key = next;
        }
        key
    };
    for (a, b) in links {
        let (a, b) = (root(&group, a), root(&group, b));
        if a != b {
            group.insert(b, a);
        }
    }
    let live: Vec<usize> = (0..SEEDS.len())
        .filter(|&i| SEEDS[i].place != Held::Point && SEEDS[i].superseded_by.is_none())
        .collect();
    for (n, &i) in live.iter().enumerate() {
        for &j in &live[n + 1..] {
            let (a, b) = (&SEEDS[i], &SEEDS[j]);
            if PLACES[i].namespace != PLACES[j].namespace
                || root(&group, a.key) == root(&group, b.key)
            {
                continue;
            }
            let near = cosine(&UNIT_VECTORS[i], &UNIT_VECTORS[j]);
            assert!(near < CLUSTER_AT - MARGIN, "{} {} {near}", a.key, b.key);
        }
    }
}

#[test]
fn random_pairs_are_far_apart() {
    let mut cosines: Vec<f64> = (0..SEEDS.len())
        .map(|i| cosine(&UNIT_VECTORS[i], &UNIT_VECTORS[(i * 7 + 151) % SEEDS.len()]))
        .collect();
    cosines.sort_by(f64::total_cmp);
    assert!(cosines[cosines.len() / 2] < 0.2);
}

// What is built.

/// Every value of a query, row by row.
fn table(db: &Path, sql: &str) -> Vec<Vec<Value>> {
    let connection = Connection::open(db).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    statement
        .query_map([], |row| (0..columns).map(|i| row.get(i)).collect())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Everything in both databases and in the configuration.
fn content(dir: &Path) -> (Vec<Vec<Vec<Value>>>, String) {
    let memory = dir.join(MEMORY);
    let tables = vec![
        table(&memory, "SELECT name, sql FROM sqlite_schema ORDER BY name"),
        table(&memory, "SELECT * FROM users ORDER BY id"),
        table(&memory, "SELECT * FROM memories ORDER BY id"),
        table(&memory, "SELECT * FROM memory_tags ORDER BY memory_id, tag"),
        table(&memory, "SELECT * FROM team_memories ORDER BY id"),
        table(
            &dir.join(VECTORS),
            "SELECT name, sql FROM sqlite_schema ORDER BY name",
        ),
        table(&dir.join(VECTORS), "SELECT * FROM points ORDER BY id"),
    ];
    (tables, fs::read_to_string(dir.join(CONFIG)).unwrap())
}

fn count(db: &Path, sql: &str) -> i64 {
    match table(db, sql)[..] {
        [ref row] => match row[..] {
            [Value::Integer(count)] => count,
            _ => panic!("{sql}: {row:?}"),
        },
        ref rows => panic!("{sql}: {rows:?}"),
    }
}

#[test]
fn a_demo_is_built_whole() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    let built = build(&dir, now()).unwrap();
    let expected = Built {
        rows: 285,
        team_rows: 24,
        points: 323,
        users: 8,
        teams: 2,
    };
    assert_eq!(built, expected);
    assert!(is_demo(&dir));

    let (memory, vectors) = (dir.join(MEMORY), dir.join(VECTORS));
    assert_eq!(count(&memory, "SELECT count(*) FROM memories"), 285);
    assert_eq!(count(&memory, "SELECT count(*) FROM team_memories"), 24);
    assert_eq!(count(&memory, "SELECT count(*) FROM users"), 8);
    assert_eq!(
        count(
            &memory,
            "SELECT count(*) FROM users WHERE deleted_at IS NOT NULL"
        ),
        2
    );
    assert!(count(&memory, "SELECT count(*) FROM memory_tags") > 40);
    assert_eq!(count(&vectors, "SELECT count(*) FROM points"), 323);
    assert_eq!(
        count(
            &vectors,
            "SELECT count(*) FROM points WHERE length(vector) = 2048"
        ),
        323
    );
    for db in [&memory, &vectors] {
        assert_eq!(
            table(db, "PRAGMA integrity_check"),
            [[Value::Text("ok".into())]]
        );
        assert_eq!(
            table(db, "PRAGMA journal_mode"),
            [[Value::Text("wal".into())]]
        );
    }
    assert!(table(&memory, "PRAGMA foreign_key_check").is_empty());
}

#[test]
fn a_new_demo_is_three_private_files() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name(),
                entry.metadata().unwrap().permissions().mode() & 0o777,
            )
        })
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            (CONFIG.into(), 0o600),
            (MEMORY.into(), 0o600),
            (VECTORS.into(), 0o600)
        ]
    );
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn rows_and_points_agree_but_for_what_was_planted() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let points: BTreeMap<String, serde_json::Value> = table(
        &dir.join(VECTORS),
        "SELECT id, namespace, payload FROM points",
    )
    .iter()
    .map(|row| {
        let payload: serde_json::Value = serde_json::from_str(&text(&row[2])).unwrap();
        assert_eq!(payload["namespace"], text(&row[1]));
        assert_eq!(
            payload["namespace"],
            format!(
                "{}:{}",
                payload["scope"].as_str().unwrap(),
                payload["owner"].as_str().unwrap()
            )
        );
        (text(&row[0]), payload)
    })
    .collect();
    let rows: BTreeSet<String> = table(
        &dir.join(MEMORY),
        "SELECT 'user:' || user_id || '::' || id FROM memories UNION ALL SELECT 'team:' || team || '::' || id FROM team_memories",
    )
    .iter()
    .map(|row| text(&row[0]))
    .collect();
    let planted = planted();
    let rowless: BTreeSet<_> = points
        .values()
        .map(|payload| payload["doc_id"].as_str().unwrap().to_owned())
        .filter(|doc_id| !rows.contains(doc_id))
        .collect();
    assert_eq!(
        rowless,
        planted
            .ghosts
            .iter()
            .chain(&planted.rowless)
            .map(Place::doc_id)
            .collect()
    );
    let pointless: BTreeSet<_> = rows
        .into_iter()
        .filter(|doc_id| {
            !points.contains_key(
                &uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_DNS, doc_id.as_bytes()).to_string(),
            )
        })
        .collect();
    let hidden = planted
        .hidden
        .iter()
        .chain(&planted.behind)
        .chain(&planted.history);
    let without_point = hidden.filter(|place| seed(place).place == Held::Row);
    assert_eq!(pointless, without_point.map(Place::doc_id).collect());
    assert_eq!(pointless.len(), 6);
}

#[test]
fn times_count_back_from_now() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let second = now().as_second();
    let place = PLACES.iter().find(|place| place.key == "ana-025").unwrap();
    let sql = format!(
        "SELECT created_at, ttl_days, last_used_at FROM memories WHERE id = {}",
        place.id
    );
    assert_eq!(
        table(&dir.join(MEMORY), &sql),
        [[
            Value::Integer(second - 6 * 86_400 - 43_200),
            Value::Integer(7),
            Value::Null
        ]]
    );
    assert_eq!(
        table(
            &dir.join(MEMORY),
            "SELECT deleted_at FROM users WHERE id = 'greg'"
        ),
        [[Value::Integer(second - 3 * 86_400)]]
    );
    let latest = format!(
        "SELECT count(*) FROM memories WHERE max(created_at, ifnull(last_used_at, 0), ifnull(confirmed_at, 0)) > {second}"
    );
    assert_eq!(count(&dir.join(MEMORY), &latest), 0);
}

#[test]
fn the_same_now_gives_the_same_content() {
    let world = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| world.path().join(name));
    build(&dirs[0], now()).unwrap();
    build(&dirs[1], now()).unwrap();
    build(&dirs[2], now() + jiff::SignedDuration::from_secs(1)).unwrap();
    assert!(content(&dirs[0]) == content(&dirs[1]));
    assert!(content(&dirs[0]) != content(&dirs[2]));
}

#[test]
fn the_text_index_follows_the_rows() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let connection = Connection::open(dir.join(MEMORY)).unwrap();
    let found = |word: &str| -> Vec<i64> {
        let mut statement = connection
            .prepare("SELECT rowid FROM memories_text WHERE memories_text MATCH ? ORDER BY rowid")
            .unwrap();
        statement
            .query_map([word], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let check = || {
        connection
            .execute(
                "INSERT INTO memories_text(memories_text, rank) VALUES ('integrity-check', 1)",
                [],
            )
            .unwrap()
    };
    check();
    let [id] = found("mapoteca NOT peroba OR glossary AND مهلة")[..] else {
        panic!("one memory")
    };
    connection
        .execute(
            "UPDATE memories SET content = 'Nothing of that kind.' WHERE id = ?",
            [id],
        )
        .unwrap();
    assert!(found("glossary AND مهلة").is_empty());
    check();
    let penicillin = found("penicilina");
    assert_eq!(penicillin.len(), 2);
    connection
        .execute("DELETE FROM memories WHERE id = ?", [penicillin[0]])
        .unwrap();
    assert_eq!(found("penicilina"), penicillin[1..]);
    assert_eq!(
        count(
            &dir.join(MEMORY),
            &format!(
                "SELECT count(*) FROM memory_tags WHERE memory_id = {}",
                penicillin[0]
            )
        ),
        0
    );
    check();
}

#[test]
fn removing_a_memory_takes_the_history_behind_it() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let head = PLACES
        .iter()
        .find(|place| place.key == "rafael-039")
        .unwrap();
    let connection = Connection::open(dir.join(MEMORY)).unwrap();
    connection.execute("PRAGMA foreign_keys = ON", []).unwrap();
    connection
        .execute("DELETE FROM memories WHERE id = ?", [head.id])
        .unwrap();
    assert_eq!(
        count(&dir.join(MEMORY), "SELECT count(*) FROM memories"),
        285 - 4
    );
}

#[test]
fn what_is_there_is_never_replaced() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let before = content(&dir);
    assert!(matches!(build(&dir, now()), Err(DemoError::Exists { .. })));
    assert!(content(&dir) == before);

    fs::remove_file(dir.join(VECTORS)).unwrap();
    assert!(!is_demo(&dir));
    assert!(matches!(
        build(&dir, now()),
        Err(DemoError::NotEmpty { .. })
    ));
    assert!(dir.join(MEMORY).exists());

    let file = dir.join(CONFIG);
    assert!(matches!(build(&file, now()), Err(DemoError::Io { .. })));
    assert!(!is_demo(world.path()) && !is_demo(&file));
}

#[test]
fn an_empty_folder_becomes_a_demo() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("empty");
    fs::create_dir(&dir).unwrap();
    build(&dir, now()).unwrap();
    assert!(is_demo(&dir));
}

#[test]
fn the_configuration_speaks_of_this_folder() {
    let text = include_str!("hypnos.toml");
    assert!(text.starts_with(MARK));
    let config: toml::Table = text.parse().unwrap();
    let store = &config["store"][0];
    assert_eq!(store["name"].as_str(), Some("demo"));
    assert_eq!(store["rows"]["path"].as_str(), Some(MEMORY));
    assert_eq!(store["vectors"]["path"].as_str(), Some(VECTORS));
    // Every column that it names is in the schema.
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now()).unwrap();
    let columns: BTreeSet<String> = table(
        &dir.join(MEMORY),
        "SELECT name FROM pragma_table_info('memories')",
    )
    .into_iter()
    .map(|row| match &row[0] {
        Value::Text(name) => name.clone(),
        other => panic!("{other:?}"),
    })
    .collect();
    let roles = store["rows"].as_table().unwrap().iter();
    for (role, column) in
        roles.filter(|(key, _)| !["path", "preset", "table"].contains(&key.as_str()))
    {
        let column = column.as_str().unwrap().split(':').next().unwrap();
        assert!(columns.contains(column), "{role} = {column}");
    }
}

#[test]
fn errors_say_what_to_do_with_which_folder() {
    let dir = PathBuf::from("/srv/x");
    assert_eq!(
        DemoError::Exists { dir: dir.clone() }.to_string(),
        "/srv/x already holds a demo"
    );
    let io = io_error("create", &dir)(io::ErrorKind::PermissionDenied.into());
    assert_eq!(io.to_string(), "create /srv/x");
    assert!(std::error::Error::source(&io).is_some());
}

#[test]
fn plants_of_the_teams_are_none() {
    let team = SEEDS.iter().filter(|seed| seed.scope == Scope::Team);
    assert_eq!(team.filter(|seed| seed.plant != None::<Plant>).count(), 0);
}
