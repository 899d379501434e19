//! What of a namespace is in the pairs of snapshots, and how it goes.
//!
//! A pair holds the memories of everybody, so that none is dropped before there is a good one: the newest pair that can be
//! believed and verifies, without the owner, and of which a server has not copied what it keeps of removed points. Where
//! there is none, one is taken, for which the points are written anew. Nothing is dropped when that fails. Pairs that count
//! nothing of the owner, and are likely to have words of him in the segments of a server, go with the others; but not for
//! a new pair that may have them, too.

use crate::clock::Timestamp;
use crate::config;
use crate::engine;
use crate::error::{Failure, chain};
use crate::failpoint::{Failpoint, hit};
use crate::memory::Namespace;
use crate::snapshot::holders::{Holders, Holding, has_old_segments};
use crate::snapshot::manifest::Purpose;
use crate::snapshot::shelf::Listing;
use crate::snapshot::{Order, Pair, Shelf, SnapshotError, take, verify};

use super::erasing::Erasing;
use super::{Erased, Target};

/// Says what the pairs hold, and counts those that would be dropped. Writes nothing.
pub(super) fn foresee(
    store: &config::Store,
    target: Target<'_>,
    removed: Option<Timestamp>,
    now: Timestamp,
    erased: &mut Erased,
) {
    let folder = Shelf::of(store);
    let named = folder.list(now).map(|listing| {
        let holders = Holders::among(&listing, target.namespace, removed);
        if target.from_pairs {
            for name in doomed(&listing, &holders, true) {
                erased.removed("pair", &place(&folder, name), 1);
            }
        } else {
            name_holders(&folder, &holders, &listing, erased);
        }
        name_unknown(&folder, &listing, target.from_pairs, erased);
        let tainted = if target.from_pairs {
            0
        } else {
            holders.tainted.len()
        };
        name_unsure(&folder, &holders, tainted, erased);
    });
    if let Err(error) = named {
        unlisted(&folder, &error, target.from_pairs, erased);
    }
}

impl Erasing<'_> {
    /// Names the pairs that hold something of a namespace; drops them when they are wanted and its rows and points are
    /// gone.
    pub(super) fn pairs(
        &self,
        namespace: &Namespace,
        removed: Option<Timestamp>,
        are_wanted: bool,
        erased: &mut Erased,
    ) -> Result<(), Failure> {
        hit(Failpoint::ForgetPairsBefore).map_err(engine::injected)?;
        let folder = Shelf::of(&self.stores.config);
        let result = if are_wanted && !erased.is_in_stores() {
            self.drop_holders(&folder, namespace, removed, erased)
        } else {
            Ok(())
        };
        let problem = match result {
            Err(error) if error.is_interruption() => {
                erased.interrupted = true;
                return Ok(());
            }
            result => result.err().map(|error| erased.fail(&error)),
        };
        match folder.list(self.options.now) {
            Ok(listing) => {
                let mut holders = Holders::among(&listing, namespace, removed);
                if problem.is_none() && !erased.is_in_stores() {
                    // What they have, the new pair may have, too.
                    holders.perhaps.append(&mut holders.tainted);
                }
                if are_wanted {
                    let why = match &problem {
                        Some(problem) => problem,
                        None if erased.is_in_stores() => {
                            "it stays until its rows and points are gone"
                        }
                        None => "the agent is writing it",
                    };
                    left(&folder, &holders, &listing, why, erased);
                } else {
                    name_holders(&folder, &holders, &listing, erased);
                }
                name_unknown(&folder, &listing, are_wanted, erased);
                let tainted = if are_wanted { 0 } else { holders.tainted.len() };
                name_unsure(&folder, &holders, tainted, erased);
            }
            Err(error) => unlisted(&folder, &error, are_wanted, erased),
        }
        hit(Failpoint::ForgetPairsDone).map_err(engine::injected)
    }

    fn drop_holders(
        &self,
        folder: &Shelf,
        namespace: &Namespace,
        removed: Option<Timestamp>,
        erased: &mut Erased,
    ) -> Result<(), SnapshotError> {
        let listing = folder.list(self.options.now)?;
        let holders = Holders::among(&listing, namespace, removed);
        let mut is_clean = true;
        let is_any = !holders.sure.is_empty() || !holders.tainted.is_empty();
        if is_any && !self.has_good_pair(folder, &listing, &holders)? {
            let new = self.new_pair(folder)?;
            is_clean = !has_old_segments(&new.manifest);
            erased.new_pair = Some(new.name);
        }
        for name in doomed(&listing, &holders, is_clean) {
            if self.cx.stop.is_requested() {
                return Err(SnapshotError::Interrupted);
            }
            folder.drop_pair(name)?;
            erased.removed("pair", &place(folder, name), 1);
        }
        Ok(())
    }

    /// Whether the newest pair is without the owner, also in what a server keeps of removed points, and verifies.
    fn has_good_pair(
        &self,
        folder: &Shelf,
        listing: &Listing,
        holders: &Holders<'_>,
    ) -> Result<bool, SnapshotError> {
        let newest = listing.newest();
        let is_without =
            |newest: &&Pair| !holders.has(&newest.name) && !has_old_segments(&newest.manifest);
        let Some(newest) = newest.filter(is_without) else {
            return Ok(false);
        };
        match verify(&self.stores.config, folder, newest, self.cx.stop) {
            Err(error) if error.is_interruption() => Err(error),
            verified => Ok(verified.is_ok()),
        }
    }

    /// Takes a pair, with points that are written anew where that can be, and verifies it.
    fn new_pair(&self, folder: &Shelf) -> Result<Pair, SnapshotError> {
        let manifest = take(Order {
            stores: self.stores,
            purpose: Purpose::Asked,
            run: &self.options.run,
            now: self.options.now,
            is_anew: true,
            cx: self.cx,
        })?;
        let name = manifest.pair.clone();
        let pair = Pair { name, manifest };
        verify(&self.stores.config, folder, &pair, self.cx.stop)?;
        Ok(pair)
    }
}

/// What is dropped: pairs that hold memories, those that are likely to have words of them if `are_tainted_too`, and what is
/// left of pairs that were never whole.
fn doomed<'a>(
    listing: &'a Listing,
    holders: &Holders<'a>,
    are_tainted_too: bool,
) -> impl Iterator<Item = &'a str> {
    let sure = holders.sure.iter().map(|(pair, _)| *pair);
    let tainted = holders.tainted.iter().copied().filter(|_| are_tainted_too);
    let pairs: Vec<&str> = sure.chain(tainted).map(|pair| &*pair.name).collect();
    let partial = listing.partial.iter().map(String::as_str);
    pairs.into_iter().chain(partial)
}

/// Names the pairs that stay, since nobody asked that they go.
fn name_holders(folder: &Shelf, holders: &Holders<'_>, listing: &Listing, erased: &mut Erased) {
    for (pair, holding) in &holders.sure {
        let why = format!(
            "{}, until it is no longer kept, or until forget --snapshots: no restore brings them back",
            spelled(*holding)
        );
        erased.remains("pair", &place(folder, &pair.name), why, false);
    }
    for name in &listing.partial {
        let why =
            "what is left of a pair that was never whole, until the next night with snapshots";
        erased.remains("pair", &place(folder, name), why, false);
    }
}

/// Names the pairs that should be gone.
fn left(folder: &Shelf, holders: &Holders<'_>, listing: &Listing, why: &str, erased: &mut Erased) {
    for (pair, holding) in &holders.sure {
        let why = format!("{}: {why}", spelled(*holding));
        erased.remains("pair", &place(folder, &pair.name), why, true);
    }
    for pair in &holders.tainted {
        let why = format!("segments of the server, which keep what was removed from them: {why}");
        erased.remains("pair", &place(folder, &pair.name), why, true);
    }
    for name in &listing.partial {
        let why = format!("what is left of a pair that was never whole: {why}");
        erased.remains("pair", &place(folder, name), why, true);
    }
}

/// Names the pairs of which it is not known. Where the pairs are to go, one that cannot be read, or is of other stores, is
/// left for a person to remove: whether it holds the last copy of what others still need is not known either.
fn name_unknown(folder: &Shelf, listing: &Listing, are_wanted: bool, erased: &mut Erased) {
    for (name, error) in &listing.damaged {
        let what_to_do = if are_wanted {
            "; look at it, remove the folder by hand, and forget it again (or let the next run do so)"
        } else {
            ""
        };
        let why = format!(
            "whether it holds something is not known, and it is left alone: {}{what_to_do}",
            chain(error)
        );
        erased.remains("pair", &place(folder, name), why, are_wanted);
    }
    for (pair, error) in &listing.foreign {
        let what_to_do = if are_wanted {
            "; if it is of the past of this store, remove the folder by hand; if another configuration uses this snapshot_dir, \
             forget there, and give each a folder of its own"
        } else {
            ""
        };
        let why = format!("it was not touched: {}{what_to_do}", chain(error));
        erased.remains("pair", &place(folder, &pair.name), why, are_wanted);
    }
    for (name, error) in &listing.strange {
        let why = format!(
            "what is left of a pair that was never whole: {}",
            chain(error)
        );
        erased.remains("pair", &place(folder, name), why, are_wanted);
    }
}

/// Counts the pairs that can have words of it, `tainted` ones among them.
fn name_unsure(folder: &Shelf, holders: &Holders<'_>, tainted: usize, erased: &mut Erased) {
    let perhaps = holders.unsure(erased.new_pair.as_deref()) + tainted;
    if perhaps > 0 {
        let why = format!(
            "{perhaps} pairs that count nothing of it: their text index, or the segments of the server or the pages in them, can have words of what was removed before each was taken"
        );
        let place = folder.folder().display().to_string();
        erased.remains("older_pairs", &place, why, false);
    }
}

fn unlisted(folder: &Shelf, error: &SnapshotError, are_wanted: bool, erased: &mut Erased) {
    let why = format!(
        "whether a pair holds something is not known: {}",
        chain(error)
    );
    erased.remains(
        "pair",
        &folder.folder().display().to_string(),
        why,
        are_wanted,
    );
}

fn spelled(holding: Holding) -> String {
    format!("{} rows and {} points of it", holding.rows, holding.points)
}

fn place(folder: &Shelf, name: &str) -> String {
    folder.path(name).display().to_string()
}
