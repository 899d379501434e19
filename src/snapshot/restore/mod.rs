//! Putting a pair back: both halves or none.
//!
//! ```text
//! verify -> nobody has the store open -> safety pair -> stage both halves beside the live ones
//!        -> take out what was removed since -> count -> [decided] -> switch both -> done
//! ```
//!
//! Up to the decision the live store is untouched, and a restore that was cut off is discarded; from there on it is
//! finished by the next run, or taken back where nothing was replaced yet, see [`switch`]. Which of the two is in a small
//! journal beside the state of the store, see [`journal`].
//!
//! What hypnos removed after the pair was taken stays removed: the state file knows, see [`clean`]. A person may want it
//! back; what belongs to an owner who was erased never comes back.

use std::path::Path;

use serde::Serialize;

use super::manifest::{CopiedRows, Purpose};
use super::verify::partition;
use super::{Manifest, Order, Pair, Shelf, SnapshotError, take, verify};
use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::failpoint::{Failpoint, hit};
use crate::pass::Cx;
use crate::state::{NamespaceHash, StateDir};
use crate::store::copies::{CopyError, PointCopies, count_points};
use crate::store::database;
use crate::store::rows::{Partition, RowStore, Snapshot};
use crate::store::sqlite::Access;
use crate::store::swap;
use crate::store::vectors::{self, VectorStore};
use crate::store::{Stores, place};

mod clean;
pub mod journal;
pub mod switch;

pub use clean::TakenOut;
use journal::{Journal, Phase};
use switch::End;
pub use switch::{GivenUp, Resumed, give_up, resume};

/// What is to be put back, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The store.
    pub store: &'a config::Store,
    /// The pair.
    pub pair: &'a Pair,
    /// The run.
    pub run: &'a str,
    /// The present instant.
    pub now: Timestamp,
    /// Also what was removed after the pair was taken, but for owners who were erased.
    pub bring_back: bool,
    /// Without a safety pair: the present files are kept beside the new ones instead.
    pub keep_old: bool,
    /// Also where the state that knows what was removed after the pair was taken is lost.
    pub without_state: bool,
    /// Whether to stop.
    pub cx: Cx<'a>,
}

/// What was put back.
#[derive(Debug, Serialize)]
pub struct Restored {
    /// The store.
    pub store: String,
    /// The pair that was put back.
    pub pair: String,
    /// The pair of what was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_pair: Option<String>,
    /// Memories that are there now.
    pub memories: u64,
    /// Points that are there now; `None` for a store without vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<u64>,
    /// What the pair held and was not put back.
    pub taken_out: TakenOut,
    /// What was written to after the first file was replaced, and where that is now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// Puts a pair back. The caller holds the lock of the store, and has dealt with a restore that was cut off.
///
/// # Errors
///
/// When it is not done: then the store is as it was, or the journal says that the next run has to finish it.
pub fn restore(request: Request<'_>) -> Result<Restored, SnapshotError> {
    let Request { store, pair, .. } = request;
    let shelf = Shelf::of(store);
    verify(store, &shelf, pair, request.cx.stop)?;
    let state = StateDir::new(&request.config.state_dir, &store.name);
    if !request.without_state {
        clean::require_state(&state, &pair.manifest)?;
    }
    let copies = vectors::copies(store, request.cx.stop)?;
    // As long as it lives, what stands for the rows is there to be staged beside.
    let rows = RowStore::new(&store.rows);
    let homes = homes(request, &state, &rows)?;
    require_idle(&homes, copies.as_deref())?;
    // Before the safety pair: what is written from here on might be missing in it.
    let mut journal = Journal::begin(request, &homes, copies.as_deref(), state.epoch()? + 1)?;
    let safety_pair = safety_pair(request)?;

    journal.write(&state)?;
    hit(Failpoint::RestoreBegun)?;
    let decided = stage(request, &state, &homes, copies.as_deref(), &journal).and_then(|staged| {
        journal.enter(Phase::Switching, &state)?;
        hit(Failpoint::RestoreDecided)?;
        Ok(staged)
    });
    let (memories, points, taken_out) = match decided {
        Ok(staged) => staged,
        Err(error) => {
            return Err(switch::take_back(
                journal,
                &state,
                copies.as_deref(),
                error,
            )?);
        }
    };
    let kept = match switch::finish(journal, &state, copies.as_deref())? {
        End::Finished { kept } => kept,
        End::TakenBack(error) => return Err(error),
    };
    Ok(Restored {
        store: store.name.clone(),
        pair: pair.name.clone(),
        safety_pair,
        memories,
        points,
        taken_out,
        kept,
    })
}

/// Where one row database of the pair goes.
struct Home<'a> {
    copied: &'a CopiedRows,
    /// The live place.
    partition: Partition,
}

impl Home<'_> {
    /// The same row database at its new place.
    fn staged(&self, tag: &str) -> Partition {
        Partition {
            path: swap::staged_path(&self.partition.path, tag),
            twin: None,
            ..self.partition.clone()
        }
    }
}

/// Finds out where the row databases of the pair go. That of a tenant who was erased since goes nowhere.
fn homes<'a>(
    request: Request<'a>,
    state: &StateDir,
    rows: &RowStore,
) -> Result<Vec<Home<'a>>, SnapshotError> {
    let Request { store, pair, .. } = request;
    let erased = clean::erased(state, &pair.manifest)?;
    let mut homes = Vec::new();
    for copied in &pair.manifest.rows {
        let partition = partition(rows, copied).ok_or_else(|| {
            SnapshotError::Foreign(format!(
                "no row database of this store is {}",
                copied.partition
            ))
        })?;
        if is_erased(store, &partition, &erased) {
            continue;
        }
        require_schema(&partition, copied)?;
        homes.push(Home { copied, partition });
    }
    let files = match rows.partitions() {
        Ok(files) => files,
        // What is lost is what is put back.
        Err(_) if request.keep_old => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let later = files.into_iter().find(|file| {
        pair.manifest
            .rows
            .iter()
            .all(|rows| *rows.partition != *file.name)
    });
    match later {
        // Its points would go, and its rows stay.
        Some(file) if file.tenant.is_some() => Err(SnapshotError::Foreign(format!(
            "{} is not in pair {}: move {} away first",
            file.name,
            pair.name,
            file.path.display()
        ))),
        _ => Ok(homes),
    }
}

fn is_erased(store: &config::Store, partition: &Partition, erased: &[NamespaceHash]) -> bool {
    partition.tenant.as_ref().is_some_and(|tenant| {
        let name = store.rows.namespace.replace("{tenant}", tenant);
        crate::memory::Namespace::parse(&name)
            .is_some_and(|namespace| erased.contains(&NamespaceHash::of(&namespace)))
    })
}

/// Refuses to put rows back under an application whose schema has moved on. A database that is lost or damaged has no
/// schema to compare with.
fn require_schema(partition: &Partition, copied: &CopiedRows) -> Result<(), SnapshotError> {
    let Ok(live) = crate::store::sqlite::open(&partition.path, Access::Read) else {
        return Ok(());
    };
    match database::schema(&live) {
        Ok(schema) if schema != copied.schema => Err(SnapshotError::Foreign(format!(
            "the schema of {} has changed since the pair was taken: put it back with the version of the agent that fits",
            partition.path.display()
        ))),
        _ => Ok(()),
    }
}

fn require_idle(homes: &[Home<'_>], copies: Option<&dyn PointCopies>) -> Result<(), SnapshotError> {
    for home in homes {
        swap::require_idle(&home.partition.path).map_err(half(&home.partition))?;
    }
    copies.map_or(Ok(()), |copies| {
        copies.require_idle().map_err(SnapshotError::half("points"))
    })
}

/// Takes a pair of what is about to be replaced.
fn safety_pair(request: Request<'_>) -> Result<Option<String>, SnapshotError> {
    if request.keep_old {
        return Ok(None);
    }
    let Request {
        config, store, cx, ..
    } = request;
    let safety = Stores::open(store, &config.state_dir, Access::Read, cx.stop)
        .map_err(|failure| SnapshotError::NoSafety {
            reason: failure.message,
        })
        .and_then(|stores| {
            take(Order {
                stores: &stores,
                purpose: Purpose::Safety,
                run: request.run,
                now: request.now,
                is_anew: false,
                cx,
            })
        })?;
    Ok(Some(safety.pair))
}

/// Puts both halves into new places, takes out what must not come back, and counts what is left: memories, points.
fn stage(
    request: Request<'_>,
    state: &StateDir,
    homes: &[Home<'_>],
    copies: Option<&dyn PointCopies>,
    journal: &Journal,
) -> Result<(u64, Option<u64>, TakenOut), SnapshotError> {
    let Request { store, pair, .. } = request;
    let folder = Shelf::of(store).path(&pair.name);
    for home in homes {
        if request.cx.stop.is_requested() {
            return Err(SnapshotError::Interrupted);
        }
        stage_rows(&folder, home, &journal.tag)?;
    }
    if let (Some(copies), Some(points)) = (copies, &pair.manifest.points) {
        copies
            .stage(&folder, points, &journal.tag)
            .map_err(SnapshotError::half("points"))?;
    }
    hit(Failpoint::RestoreStaged)?;
    let opened = copies
        .map(|copies| vectors::open(&copies.staged(&journal.tag), Access::Erase, request.cx.stop))
        .transpose()?;
    let points = opened.as_deref();
    let taken_out = clean::clean(request, state, homes, points, &journal.tag)?;
    hit(Failpoint::RestoreCleaned)?;
    let (memories, points) = recount(
        store,
        &pair.manifest,
        homes,
        points,
        &taken_out,
        &journal.tag,
    )?;
    drop(opened);
    if taken_out != TakenOut::default() {
        write_anew(homes, copies, journal, request.cx)?;
    }
    Ok((memories, points, taken_out))
}

/// Writes the files at the new places anew, without what was taken out of them.
fn write_anew(
    homes: &[Home<'_>],
    copies: Option<&dyn PointCopies>,
    journal: &Journal,
    cx: Cx<'_>,
) -> Result<(), SnapshotError> {
    for home in homes {
        let staged = home.staged(&journal.tag).path;
        database::compact(&staged, cx.stop).map_err(half(&home.partition))?;
    }
    match copies.map(|copies| copies.staged(&journal.tag).backend) {
        Some(config::Backend::Sqlite(table)) => {
            database::compact(&table.path, cx.stop).map_err(SnapshotError::half("points"))
        }
        _ => Ok(()),
    }
}

fn stage_rows(folder: &Path, home: &Home<'_>, tag: &str) -> Result<(), SnapshotError> {
    let staged = home.staged(tag).path;
    crate::durable::create_dir(crate::durable::folder_of(&staged)).map_err(SnapshotError::io(
        format!("create the folder of {}", staged.display()),
    ))?;
    let is_wal = home.copied.journal_mode == "wal";
    database::stage(&folder.join(&home.copied.file.name), &staged, is_wal)
        .map_err(half(&home.partition))
}

/// Counts both halves at their new places: nothing but what was taken out may be missing.
fn recount(
    store: &config::Store,
    manifest: &Manifest,
    homes: &[Home<'_>],
    points: Option<&dyn VectorStore>,
    taken_out: &TakenOut,
    tag: &str,
) -> Result<(u64, Option<u64>), SnapshotError> {
    let rows = RowStore::new(&store.rows);
    let (mut memories, mut expected) = (0, 0);
    for home in homes {
        memories += rows
            .reader(&home.staged(tag))?
            .snapshot(Snapshot::count)?
            .total;
        expected += home.copied.count.total;
    }
    if memories + taken_out.memories != expected {
        return Err(SnapshotError::Damaged(format!(
            "{memories} memories arrived of {expected}, and {} were taken out",
            taken_out.memories
        )));
    }
    let Some((points, copied)) = points.zip(manifest.points.as_ref()) else {
        return Ok((memories, None));
    };
    let arrived = count_points(points)?.total;
    if arrived + taken_out.points != copied.count.total {
        return Err(SnapshotError::Damaged(format!(
            "{arrived} points arrived of {}, and {} were taken out",
            copied.count.total, taken_out.points
        )));
    }
    Ok((memories, Some(arrived)))
}

fn half(partition: &Partition) -> impl FnOnce(CopyError) -> SnapshotError {
    SnapshotError::half(format!("rows of {}", partition.name))
}

/// The state file that belongs to a row database.
fn state_of<'a>(home: &'a Home<'_>) -> crate::state::Partition<'a> {
    place(&home.partition.name, home.partition.tenant.is_some())
}

/// A restore that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// The pair that it was of.
    pub pair: String,
    /// Whether something may have been replaced already.
    pub is_decided: bool,
}

/// Whether a restore of the store was cut off.
///
/// # Errors
///
/// When the journal is there and cannot be read.
pub fn cut_off(state: &StateDir) -> Result<Option<CutOff>, SnapshotError> {
    Ok(Journal::read(state)?.map(|journal| CutOff {
        pair: journal.pair,
        is_decided: journal.phase != Phase::Staging,
    }))
}
