//! What keeps an action from being taken back, before either store is looked at.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::plan::Reason;
use crate::state::{IntentRecord, NamespaceHash, StateReader};
use crate::store::Stores;
use crate::store::identity::Identity;
use crate::store::rows::{OwnerBook, Standing};

use super::super::ApplyError;
use super::super::files::Home;
use super::{Fate, Why};

/// Namespaces that were erased, and when.
pub(super) type Erased = [(NamespaceHash, Timestamp)];

/// What is known of the store as a whole.
pub(super) struct Judge<'a> {
    stores: &'a Stores,
    identity: Identity,
    owners: Option<OwnerBook>,
    erased: BTreeMap<NamespaceHash, Timestamp>,
}

impl<'a> Judge<'a> {
    /// Reads who exists, and who was erased.
    pub(super) fn new(stores: &'a Stores, main: &StateReader) -> Result<Self, ApplyError> {
        Ok(Self {
            stores,
            identity: Identity::of(&stores.config),
            owners: stores.owners()?,
            erased: main.erased_namespaces()?.into_iter().collect(),
        })
    }

    /// Why an action is not taken back; `None` when it may be. `erased` is what the state file of its row database says.
    pub(super) fn forbids(
        &self,
        record: &IntentRecord,
        home: &Home<'_>,
        erased: &Erased,
    ) -> Option<Fate> {
        let intent = &record.intent;
        if record.undone_at.is_some() {
            return Some(Fate::Already);
        }
        let has_image = intent.unit.is_some() || !intent.images.is_empty();
        if intent.erase || !has_image || self.was_erased_since(record, erased) {
            return Some(Fate::Erased);
        }
        if !self.identity.changes_since(&record.stores).is_empty() {
            return Some(Fate::Left(Why::OtherStores));
        }
        if let Some(why) = self.owner_forbids(record) {
            return Some(Fate::Left(why));
        }
        let needs_file = intent.unit.is_some();
        let lacks_file = needs_file && !matches!(home, Home::File(_));
        let lacks_vectors = !intent.images.is_empty() && self.stores.vectors.is_none();
        if lacks_file {
            return Some(Fate::Left(Why::FileMissing));
        }
        lacks_vectors.then_some(Fate::Left(Why::OtherStores))
    }

    fn was_erased_since(&self, record: &IntentRecord, erased: &Erased) -> bool {
        let Some(namespace) = &record.intent.namespace else {
            return false;
        };
        let hash = NamespaceHash::of(namespace);
        let own = erased.iter().find(|(known, _)| *known == hash);
        let at = own.map(|(_, at)| *at).max(self.erased.get(&hash).copied());
        at.is_some_and(|at| record.settled.is_none_or(|(_, settled)| settled <= at))
    }

    fn owner_forbids(&self, record: &IntentRecord) -> Option<Why> {
        let (Some(owners), Some(namespace)) = (&self.owners, &record.intent.namespace) else {
            return None;
        };
        match owners.standing(namespace) {
            Standing::Deleted { .. } => Some(Why::OwnerDeleted),
            // A point that was dropped for that very reason.
            Standing::Unknown if record.intent.reason != Reason::OwnerUnknown => {
                Some(Why::OwnerUnknown)
            }
            Standing::Unknown | Standing::Living | Standing::NoTable => None,
        }
    }
}
