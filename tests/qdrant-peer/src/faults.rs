//! What can go wrong on purpose.
//!
//! A method is named as on the wire, `Points/Delete`; those of the REST interface have names of their own,
//! `Rest/CreateSnapshot`. Faults that concern the call as a whole (slow, failed, answer lost)
//! are applied by the [gate](crate::gate) around every method; those that change what a write means (acknowledged only,
//! a lying delete) are asked for by the write path itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tonic::{Code, Status};

use crate::store::Store;

/// Every method a fault can be set on.
pub const METHODS: [&str; 45] = [
    "Collections/CollectionExists",
    "Collections/Create",
    "Collections/Delete",
    "Collections/Get",
    "Collections/List",
    "Collections/ListAliases",
    "Collections/ListCollectionAliases",
    "Collections/Update",
    "Collections/UpdateAliases",
    "Points/ClearPayload",
    "Points/Count",
    "Points/CreateFieldIndex",
    "Points/Delete",
    "Points/DeleteFieldIndex",
    "Points/DeletePayload",
    "Points/DeleteVectors",
    "Points/Facet",
    "Points/Get",
    "Points/OverwritePayload",
    "Points/Query",
    "Points/QueryBatch",
    "Points/Scroll",
    "Points/Search",
    "Points/SearchBatch",
    "Points/SetPayload",
    "Points/UpdateBatch",
    "Points/UpdateVectors",
    "Points/Upsert",
    "Qdrant/HealthCheck",
    "Rest/Cluster",
    "Rest/CollectionCluster",
    "Rest/CreateSnapshot",
    "Rest/DeleteCollection",
    "Rest/DeleteSnapshot",
    "Rest/DownloadSnapshot",
    "Rest/GetCollection",
    "Rest/ListAliases",
    "Rest/ListSnapshots",
    "Rest/RecoverSnapshot",
    "Rest/UpdateAliases",
    "Rest/UploadSnapshot",
    "Rest/Version",
    "Snapshots/Create",
    "Snapshots/Delete",
    "Snapshots/List",
];

/// When in the life of a call it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before anything was done.
    Before,
    /// After all was done: the answer is lost, not the change.
    After,
}

/// What happens to a snapshot on its way to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The connection breaks after so many bytes.
    Cut(usize),
    /// Nothing comes after so many bytes, and the connection stays open.
    Stall(usize),
    /// One bit of the byte at that place is another one.
    Flip(usize),
    /// The answer says that the snapshot is so many bytes long, and ends there without an error.
    Shorten(usize),
}

/// One planned failure.
#[derive(Debug, Clone)]
struct Failure {
    moment: Moment,
    /// Calls until it strikes, `None` for every call.
    countdown: Option<u64>,
    code: Code,
    message: String,
}

#[derive(Debug, Default)]
struct State {
    slow: BTreeMap<String, Duration>,
    failures: BTreeMap<String, Vec<Failure>>,
    /// The one that strikes whatever is called.
    of_any: Option<(Failure, bool)>,
    struck: u64,
    acknowledge_only: BTreeSet<String>,
    delete_keeps: usize,
    damage: Option<Damage>,
    wrong_checksum: bool,
    store: Weak<Store>,
}

impl State {
    fn strike_any(&mut self) -> Option<Status> {
        let (failure, for_good) = self.of_any.as_mut()?;
        let left = failure.countdown.map_or(0, |left| left.saturating_sub(1));
        failure.countdown = Some(left.max(u64::from(*for_good && left == 0)));
        if left > 0 {
            return None;
        }
        let status = Status::new(failure.code, failure.message.clone());
        self.struck += 1;
        if !*for_good {
            self.of_any = None;
        }
        Some(status)
    }
}

/// What the calls to come suffer from. Clones share their state, and it outlives a restart of the peer.
///
/// Every method that takes a method's name panics on a name that is not in [`METHODS`]: a fault that can never strike
/// makes a test that can never fail.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

impl Faults {
    /// Every call of `method` takes `delay` longer.
    pub fn slow(&self, method: &str, delay: Duration) {
        self.state().slow.insert(known(method), delay);
    }

    /// The `n`th call of `method` from now on (1 is the next) fails before it did anything. Other calls pass.
    pub fn fail_nth(&self, method: &str, n: u64, code: Code, message: &str) {
        self.plan(method, Moment::Before, Some(n), code, message);
    }

    /// Every call of `method` fails before it did anything.
    pub fn fail_always(&self, method: &str, code: Code, message: &str) {
        self.plan(method, Moment::Before, None, code, message);
    }

    /// The `n`th call from now on, whatever it is, fails before it did anything; with `for_good` every one after it, too.
    ///
    /// # Panics
    ///
    /// When `n` is 0.
    pub fn fail_call(&self, n: u64, for_good: bool, code: Code, message: &str) {
        assert_ne!(n, 0, "calls are counted from 1");
        let failure = Failure {
            moment: Moment::Before,
            countdown: Some(n),
            code,
            message: message.to_owned(),
        };
        self.state().of_any = Some((failure, for_good));
    }

    /// How many calls [`Faults::fail_call`] has failed, ever.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.state().struck
    }

    /// The `n`th call of `method` from now on does its work, and its answer is an error all the same.
    pub fn lose_answer_nth(&self, method: &str, n: u64, code: Code, message: &str) {
        self.plan(method, Moment::After, Some(n), code, message);
    }

    /// A write by `method` answers `Acknowledged` although the client asked to wait, and nothing has changed yet.
    ///
    /// The change is made by [`Faults::settle`], [`Faults::clear`], before the next write of the same collection (writes
    /// keep their order), or when the peer stops.
    pub fn acknowledge_only(&self, method: &str) {
        self.state().acknowledge_only.insert(known(method));
    }

    /// A delete by ids answers `Completed` and leaves the last `k` points it was asked to delete.
    pub fn lie_about_delete(&self, k: usize) {
        self.state().delete_keeps = k;
    }

    /// Every snapshot that is downloaded suffers `damage`.
    pub fn damage_downloads(&self, damage: Damage) {
        self.state().damage = Some(damage);
    }

    /// Snapshots are described with the checksum of something else.
    pub fn lie_about_checksums(&self) {
        self.state().wrong_checksum = true;
    }

    /// Makes every change that was acknowledged only.
    pub fn settle(&self) {
        let store = self.state().store.upgrade();
        if let Some(store) = store {
            store.settle();
        }
    }

    /// Ends every fault, and settles.
    pub fn clear(&self) {
        {
            let mut state = self.state();
            let store = std::mem::take(&mut state.store);
            let struck = state.struck;
            *state = State {
                struck,
                store,
                ..State::default()
            };
        }
        self.settle();
    }

    pub(crate) fn attach(&self, store: &Arc<Store>) {
        self.state().store = Arc::downgrade(store);
    }

    pub(crate) fn delay(&self, method: &str) -> Option<Duration> {
        self.state().slow.get(method).copied()
    }

    /// Counts a call towards the failures planned for `moment`, and returns the one that strikes.
    pub(crate) fn strike(&self, method: &str, moment: Moment) -> Option<Status> {
        let mut state = self.state();
        if moment == Moment::Before
            && let Some(status) = state.strike_any()
        {
            return Some(status);
        }
        let planned = state.failures.get_mut(method)?;
        let mut status = None;
        planned.retain_mut(|failure| {
            if failure.moment != moment {
                return true;
            }
            let strikes = failure.countdown.is_none_or(|left| left <= 1);
            if strikes && status.is_none() {
                status = Some(Status::new(failure.code, failure.message.clone()));
            }
            failure.countdown = failure.countdown.map(|left| left.saturating_sub(1));
            failure.countdown != Some(0)
        });
        status
    }

    pub(crate) fn acknowledges_only(&self, method: &str) -> bool {
        self.state().acknowledge_only.contains(method)
    }

    pub(crate) fn damage(&self) -> Option<Damage> {
        self.state().damage
    }

    pub(crate) fn wrong_checksum(&self) -> bool {
        self.state().wrong_checksum
    }

    pub(crate) fn delete_keeps(&self) -> usize {
        self.state().delete_keeps
    }

    fn plan(
        &self,
        method: &str,
        moment: Moment,
        countdown: Option<u64>,
        code: Code,
        message: &str,
    ) {
        assert_ne!(countdown, Some(0), "calls are counted from 1");
        let failure = Failure {
            moment,
            countdown,
            code,
            message: message.to_owned(),
        };
        self.state()
            .failures
            .entry(known(method))
            .or_default()
            .push(failure);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn known(method: &str) -> String {
    assert!(
        METHODS.contains(&method),
        "no such method: {method}, see METHODS"
    );
    method.to_owned()
}
