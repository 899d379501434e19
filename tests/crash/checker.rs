//! The promises, checked by code that shares nothing with the passes: it opens the files and the vector store itself,
//! and knows from the seed who should be there.
//!
//! | promise | how it is checked |
//! | --- | --- |
//! | 1 nothing lost, nothing back | who lives is there byte for byte; who was gone after the crash is not there later |
//! | 2 complete in both stores | a memory without its point, where it had one, is named by an open intent; a point outlives no row |
//! | 3 one survivor | of each cluster at least one is to be seen at all times, and exactly one in the end |
//! | 4 no namespace is crossed | a twin in another namespace lives; points of scopes without owners stay |
//! | 5 owners who exist keep everything | whatever fails, the same as 1 |
//! | 6 a guard changes nothing | a store under a guard that lets nothing through: the same as 1 |
//! | 10 the agent keeps working | its writes during a run succeed, and are there afterwards |
//! | 11 the outcome is honest | the journal has the exit code that the process gave |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use uuid::Uuid;

use crate::seed::{Case, Fate};
use crate::support::open;

/// A memory: its user and its id.
pub(crate) type Key = (String, i64);
/// Rows, every column as text that tells storage classes apart.
pub(crate) type Rows = BTreeMap<Key, BTreeMap<String, String>>;

/// The first promise that does not hold, as a sentence.
pub(crate) type Verdict<T> = Result<T, String>;

macro_rules! promise {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

/// Ids from here on are those of memories that the agent wrote meanwhile.
pub(crate) const AGENTS: i64 = 10_000;

/// What a store was seen to hold.
pub(crate) struct Seen {
    rows: Rows,
    points: BTreeMap<Uuid, crate::support::Point>,
}

impl Seen {
    /// The memories that can be found: there, and not hidden.
    pub(crate) fn visible(&self) -> BTreeSet<&Key> {
        let all = self.rows.iter();
        all.filter(|(_, row)| !is_hidden(row))
            .map(|(key, _)| key)
            .collect()
    }
}

fn is_hidden(row: &BTreeMap<String, String>) -> bool {
    let is_set = |column| row.get(column).is_some_and(|value| value != "Null");
    is_set("superseded_by") || is_set("deleted_at")
}

/// Reads every row of some databases.
pub(crate) fn rows(files: &[(PathBuf, Option<String>)]) -> Rows {
    let mut found = Rows::new();
    for (file, tenant) in files {
        let db = open(file);
        let mut read = db.prepare("SELECT * FROM memories").unwrap();
        let names: Vec<String> = read.column_names().map(str::to_owned).collect();
        let mut all = read.query([]).unwrap();
        while let Some(row) = all.next().unwrap() {
            let user = match tenant {
                Some(tenant) => tenant.clone(),
                None => row.get("user_id").unwrap(),
            };
            let value = |index| format!("{:?}", row.get_ref(index).unwrap());
            let values = names.iter().cloned().zip((0..names.len()).map(value));
            let _ = found.insert((user, row.get("id").unwrap()), values.collect());
        }
    }
    found
}

/// What must hold at any instant at which no run is under way.
pub(crate) fn at_any_time(case: &Case) -> Verdict<Seen> {
    let seen = Seen {
        rows: rows(&case.truth.files),
        points: case.world.all_points(),
    };
    who_lives_is_whole(case, &seen)?;
    nothing_was_invented(case, &seen)?;
    removals_are_complete_or_open(case, &seen)?;
    fading_keeps_to_its_share(case, &seen)?;
    for cluster in clusters(case) {
        let whole = |key: &&Key| {
            let point = case.truth.memories[*key].point;
            seen.visible().contains(key) && point.is_none_or(|id| seen.points.contains_key(&id))
        };
        promise!(
            cluster.iter().any(whole),
            "promise 3: no memory of {cluster:?} is left"
        );
    }
    files_are_sound(case)?;
    Ok(seen)
}

fn who_lives_is_whole(case: &Case, seen: &Seen) -> Verdict<()> {
    for (key, memory) in &case.truth.memories {
        if memory.fate != Fate::Lives {
            continue;
        }
        promise!(
            seen.rows.contains_key(key),
            "promise 1: the live memory {key:?} is gone"
        );
        promise!(
            seen.rows[key] == case.truth.rows[key],
            "promise 1: the live memory {key:?} was changed: {:?}",
            seen.rows[key]
        );
        if let Some(id) = memory.point {
            // An edited memory waits for its point as long as an intent is open.
            let is_whole = seen.points.get(&id) == case.truth.points.get(&id);
            promise!(
                is_whole || open_intents(case).contains(&named(case, key)),
                "promise 1: the point of the live memory {key:?} is gone or changed"
            );
        }
    }
    for id in &case.truth.others {
        let is_whole = seen.points.get(id) == case.truth.points.get(id);
        promise!(
            is_whole,
            "promise 4: the point {id}, which nobody may sweep, is gone or changed"
        );
    }
    Ok(())
}

fn nothing_was_invented(case: &Case, seen: &Seen) -> Verdict<()> {
    for key in seen.rows.keys().filter(|(_, id)| *id < AGENTS) {
        promise!(
            case.truth.memories.contains_key(key),
            "nobody wrote the memory {key:?}"
        );
    }
    for (id, point) in &seen.points {
        let of_agent = point.payload["row"]
            .as_i64()
            .is_some_and(|row| row >= AGENTS);
        let was = case.truth.points.get(id);
        promise!(
            of_agent || was == Some(point),
            "nobody wrote the point {id} as it is"
        );
    }
    Ok(())
}

fn removals_are_complete_or_open(case: &Case, seen: &Seen) -> Verdict<()> {
    let (open, visible) = (open_intents(case), seen.visible());
    for (key, memory) in &case.truth.memories {
        let Some(point) = memory.point.map(|id| seen.points.contains_key(&id)) else {
            continue;
        };
        match visible.contains(key) {
            true => promise!(
                point || open.contains(&named(case, key)),
                "promise 2: {key:?} has lost its point, and no open intent says so"
            ),
            false => promise!(!point, "promise 2: the point of {key:?} outlives its row"),
        }
    }
    Ok(())
}

fn fading_keeps_to_its_share(case: &Case, seen: &Seen) -> Verdict<()> {
    let visible = seen.visible();
    let stays = &case.truth.fading[case.truth.share.min(case.truth.fading.len())..];
    for key in stays {
        promise!(
            visible.contains(key),
            "{key:?} faded although the share of the night was spent"
        );
    }
    Ok(())
}

fn clusters(case: &Case) -> Vec<Vec<&Key>> {
    let mut clusters: BTreeMap<usize, Vec<&Key>> = BTreeMap::new();
    for (key, memory) in &case.truth.memories {
        if let Fate::Merges(cluster) = memory.fate {
            clusters.entry(cluster).or_default().push(key);
        }
    }
    clusters.into_values().collect()
}

fn files_are_sound(case: &Case) -> Verdict<()> {
    for (file, tenant) in &case.truth.files {
        let db = open(file);
        let sound: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        promise!(sound == "ok", "{}: {sound}", file.display());
        if tenant.is_none() {
            let dangling =
                "SELECT count(*) FROM memory_tags WHERE memory_id NOT IN (SELECT id FROM memories)";
            let dangling: i64 = db.query_row(dangling, [], |row| row.get(0)).unwrap();
            promise!(
                dangling == 0,
                "{dangling} children are left without their memory"
            );
        }
    }
    Ok(())
}

/// What must hold after one more run that came to its end; `before` is what was seen before it.
pub(crate) fn after_one_more_run(case: &Case, before: &Seen) -> Verdict<()> {
    let seen = at_any_time(case)?;
    let (visible, earlier) = (seen.visible(), before.visible());
    for key in &visible {
        promise!(
            earlier.contains(key) || key.1 >= AGENTS,
            "promise 1: {key:?} is back, and had been removed"
        );
    }
    let open = open_intents(case);
    promise!(open.is_empty(), "promise 2: still open: {open:?}");
    let mut points = case.truth.others.clone();
    for (key, memory) in &case.truth.memories {
        let stays = match memory.fate {
            Fate::Lives => true,
            Fate::Goes => false,
            Fate::Fades => !case.truth.fading[..case.truth.share].contains(key),
            Fate::Merges(_) | Fate::Asked => visible.contains(key),
        };
        let is_there = match memory.fate {
            Fate::Lives | Fate::Goes => seen.rows.contains_key(key),
            _ => visible.contains(key),
        };
        promise!(
            is_there == stays,
            "promise 1: {key:?} ({:?}) is there: {is_there}",
            memory.fate
        );
        points.extend(memory.point.filter(|_| stays));
    }
    for cluster in clusters(case) {
        let left = cluster.iter().filter(|key| visible.contains(*key)).count();
        promise!(
            left == 1,
            "promise 3: {left} memories of {cluster:?} are left"
        );
    }
    let found = seen.points.iter();
    let found = found.filter(|(_, point)| point.payload["row"].as_i64().unwrap() < AGENTS);
    let found: BTreeSet<Uuid> = found.map(|(id, _)| *id).collect();
    promise!(
        found == points,
        "promise 2: the points are not those of the rows"
    );
    questions_were_put_once(case)
}

fn questions_were_put_once(case: &Case) -> Verdict<()> {
    let db = state(&case.world.path("state/agent/main.db"));
    let count = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let all = count("SELECT count(*) FROM queue WHERE answer IS NOT 'void'");
    let members = count("SELECT count(DISTINCT members) FROM queue WHERE answer IS NOT 'void'");
    let wanted = i64::try_from(case.truth.questions).unwrap();
    // What a killed answer took away was not answered: the question is void, and taken back.
    let is_void = case.truth.memories.iter().any(|(key, memory)| {
        memory.fate == Fate::Asked && !rows(&case.truth.files).contains_key(key)
    });
    promise!(
        members == all && (all == wanted || is_void && all < wanted),
        "{all} questions about {members} sets of memories, not {wanted}"
    );
    Ok(())
}

/// The journal must say of the last run what its process said: a run that failed is not remembered as a success.
pub(crate) fn the_journal_is_honest(case: &Case, code: Option<i32>) -> Verdict<()> {
    the_journal_in_is_honest(case.world.dir.path(), code)
}

/// The same of the store in a folder.
pub(crate) fn the_journal_in_is_honest(folder: &Path, code: Option<i32>) -> Verdict<()> {
    let path = folder.join("state/agent/main.db");
    if !path.exists() {
        return Ok(());
    }
    let last = "SELECT exit, outcome FROM runs ORDER BY id DESC LIMIT 1";
    let exit = state(&path).query_row(last, [], |row| row.get::<_, Option<i32>>(0));
    let exit = match exit {
        Err(rusqlite::Error::QueryReturnedNoRows) => None,
        exit => exit.unwrap(),
    };
    let is_honest = match (exit, code) {
        // Cut off: nothing is said of how it ended, or it had ended; or a failure after the last word.
        (None, _) | (Some(_), None | Some(1)) => true,
        (Some(exit), Some(code)) => exit == code,
    };
    promise!(
        is_honest,
        "promise 11: the journal has {exit:?}, the process ended with {code:?}"
    );
    Ok(())
}

/// The memories that open intents name: by the file they are in, and their id.
fn open_intents(case: &Case) -> BTreeSet<(String, i64)> {
    let mut open = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(case.world.path("state/agent")) else {
        return open;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "db") {
            continue;
        }
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let db = state(&path);
        let mut read = db
            .prepare("SELECT coalesce(memory, -id) FROM intents WHERE outcome IS NULL")
            .unwrap();
        let ids = read.query_map([], |row| row.get(0)).unwrap();
        open.extend(ids.map(|id| (file.clone(), id.unwrap())));
    }
    open
}

/// How an open intent names a memory.
fn named(case: &Case, (user, id): &Key) -> (String, i64) {
    let has_tenants = case.truth.files.iter().any(|(_, tenant)| tenant.is_some());
    (
        if has_tenants {
            user.clone()
        } else {
            "main".to_owned()
        },
        *id,
    )
}

/// A state file, opened so that looking at it changes nothing in it.
fn state(path: &Path) -> Connection {
    let db = open(path);
    let _ = db
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    db
}
