//! `hypnos why ID`: the life of one memory, from its row, its point, the queue and the journal. Writes nothing.
//!
//! What each pass thinks of it is what the pass plans: the same plan that a dry run prints, looked through for the
//! memory. A memory that is gone is told by the journal, for as long as that remembers it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cli::Global;
use crate::clock::{self, Timestamp};
use crate::config::{self, Config};
use crate::engine;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::memory::{MemoryId, Namespace, Role};
use crate::output::Out;
use crate::pass::{Cx, Silent, registry};
use crate::plan::{Plan, QuestionKind};
use crate::state::{self, Entry, IntentRecord, StateError, StateReader, Tombstone};
use crate::stop::Stop;
use crate::store::rows::{Partition, Told};
use crate::store::sqlite::Access;
use crate::store::{MAIN, Stores};
use crate::view::{Sightings, View};

mod life;
mod point;

use life::{Life, Opinion};

/// Everything that a row tells.
const ROLES: [Role; 18] = [
    Role::Content,
    Role::Type,
    Role::CreatedAt,
    Role::UpdatedAt,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ExpiresAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::Ttl,
    Role::SupersededBy,
    Role::Supersedes,
    Role::Uses,
    Role::Salience,
    Role::Source,
    Role::Pinned,
    Role::Trust,
    Role::Point,
];

/// Tells the life of every memory with this id, in the stores that are named.
pub(super) fn why(
    id: &str,
    names: &[String],
    namespace: Option<&str>,
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    let namespace = super::parse_namespace(namespace)?;
    let wanted = |store: &&config::Store| names.is_empty() || names.contains(&store.name);
    let (mut lives, mut is_partial) = (0, false);
    for store in config.stores.iter().filter(wanted) {
        let search = Search::open(&config, store, namespace.clone())?;
        let found = search.lives(&MemoryId::spelled(id))?;
        is_partial |= search.is_partial.get();
        for life in &found {
            life.print(out);
        }
        lives += found.len();
    }
    if lives == 0 {
        let message = format!("no memory {id} is or was known");
        let exit = if is_partial {
            Exit::LeftOver
        } else {
            Exit::Usage
        };
        return Err(Failure::new(exit, message).with_hint(
            "an id is given as hypnos prints it; --store and --namespace narrow the search",
        ));
    }
    Ok(if is_partial {
        Exit::LeftOver
    } else {
        Exit::Done
    })
}

/// One store, looked through for a memory.
struct Search {
    now: Timestamp,
    stores: Stores,
    main: Option<StateReader>,
    namespace: Option<Namespace>,
    /// Whether a row database could not be read.
    is_partial: std::cell::Cell<bool>,
}

/// What the journal knows of a memory.
#[derive(Default)]
struct Past {
    intents: Vec<IntentRecord>,
    tombstones: Vec<Tombstone>,
}

impl Search {
    fn open(
        config: &Config,
        store: &config::Store,
        namespace: Option<Namespace>,
    ) -> Result<Self, Failure> {
        let stores = Stores::open(store, &config.state_dir, Access::Read, &Stop::default())?;
        let main = stores
            .state
            .read(state::Partition::Main)
            .map_err(|error| super::state_failure(&store.name, &error))?;
        if let Some(state) = &main {
            engine::place::mention(state, store);
        }
        Ok(Self {
            now: clock::now(),
            stores,
            main,
            namespace,
            is_partial: false.into(),
        })
    }

    fn lives(&self, ids: &[MemoryId]) -> Result<Vec<Life>, Failure> {
        let failed = |error: StateError| super::state_failure(&self.stores.name, &error);
        let entries = match &self.main {
            Some(state) => state.entries(&QuestionKind::ALL).map_err(failed)?,
            None => Vec::new(),
        };
        let mut plans = None;
        let mut lives = Vec::new();
        let files = self.files();
        for partition in self.partitions(&files).map_err(failed)? {
            let mut rows = self.rows(&files, &partition, ids);
            for id in ids {
                let row = rows.remove(id);
                let past = self.past(&partition, id).map_err(failed)?;
                let asked = self.asked(&entries, &partition, id);
                let is_known = !past.intents.is_empty() || !past.tombstones.is_empty();
                if row.is_none() && !is_known && asked.is_empty() {
                    continue;
                }
                let mut life = Life::new(&self.stores, &partition, id, row.as_ref(), self.now);
                if let Some(row) = &row {
                    life.point = Some(point::of(&self.stores, &row.memory));
                    let plans = plans.get_or_insert_with(|| self.plans());
                    life.passes = plans
                        .iter()
                        .map(|(pass, plan)| Opinion::of(*pass, plan, &partition, id))
                        .collect();
                }
                life.remember(&asked, &past);
                lives.push(life);
            }
        }
        Ok(lives)
    }

    /// The row databases that are there.
    fn files(&self) -> Vec<Partition> {
        self.stores.rows.partitions().unwrap_or_else(|error| {
            self.warn("the row databases", &chain(&error));
            Vec::new()
        })
    }

    /// The row databases that the memory may be or have been in, those that are gone included.
    fn partitions(&self, files: &[Partition]) -> Result<Vec<Arc<str>>, StateError> {
        let rows = &self.stores.config.rows;
        if !rows.is_per_tenant() {
            return Ok(vec![MAIN.into()]);
        }
        if let Some(tenant) = self.namespace.as_ref().and_then(|ns| rows.tenant_of(ns)) {
            return Ok(vec![tenant.into()]);
        }
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        names.extend(files.iter().map(|file| Arc::clone(&file.name)));
        let had_state = self.stores.state.tenants()?;
        for (file, error) in &had_state.damaged {
            self.warn(file, &chain(error));
        }
        names.extend(had_state.names.into_iter().map(Arc::from));
        Ok(names.into_iter().collect())
    }

    /// The memories with one of the ids in a row database, as they are now.
    fn rows(&self, files: &[Partition], name: &str, ids: &[MemoryId]) -> HashMap<MemoryId, Told> {
        let Some(file) = files.iter().find(|file| &*file.name == name) else {
            return HashMap::new();
        };
        let read = self
            .stores
            .rows
            .reader(file)
            .and_then(|reader| reader.snapshot(|snapshot| snapshot.told(&ROLES, ids)));
        match read {
            Ok(rows) => rows
                .into_iter()
                .filter(|row| self.wants(row.memory.namespace.as_ref()))
                .filter_map(|row| Some((row.memory.id.clone()?, row)))
                .collect(),
            Err(error) => {
                self.warn(name, &chain(&error));
                HashMap::new()
            }
        }
    }

    fn warn(&self, what: &str, problem: &str) {
        self.is_partial.set(true);
        tracing::warn!(store = %self.stores.name, what, problem, "not everything could be read");
    }

    /// Whose memory is asked about; what was erased names nobody any more, and is never left out.
    fn wants(&self, namespace: Option<&Namespace>) -> bool {
        match (&self.namespace, namespace) {
            (Some(_), None) | (None, _) => true,
            (wanted, Some(namespace)) => super::wants_namespace(wanted.as_ref(), namespace),
        }
    }

    fn past(&self, partition: &str, id: &MemoryId) -> Result<Past, StateError> {
        let per_tenant = self.stores.config.rows.is_per_tenant();
        let mut past = Past::default();
        let own;
        let state = if per_tenant {
            let place = state::Partition::of(partition, per_tenant);
            own = self.stores.state.read(place)?;
            own.as_ref()
        } else {
            self.main.as_ref()
        };
        if let Some(state) = state {
            past.intents = state.intents_of_memory(id)?;
            past.intents
                .retain(|record| self.wants(record.intent.namespace.as_ref()));
            past.tombstones = state.tombstones_of(id)?;
        }
        Ok(past)
    }

    fn asked<'e>(
        &self,
        entries: &'e [Entry],
        partition: &Arc<str>,
        id: &MemoryId,
    ) -> Vec<&'e Entry> {
        let concerns = |entry: &&Entry| {
            let question = &entry.question;
            question.partition == *partition
                && question.members.iter().any(|member| member.id == *id)
                && self.wants(Some(&question.namespace))
        };
        entries.iter().filter(concerns).collect()
    }

    /// What every pass that is switched on plans for the store.
    fn plans(&self) -> Vec<(crate::pass::PassName, Result<Plan, String>)> {
        let sightings = match &self.main {
            Some(state) => state.sightings().map_err(|error| chain(&error)),
            None => Ok(Sightings::new()),
        };
        let stop = Stop::default();
        let cx = Cx {
            stop: &stop,
            progress: &Silent,
        };
        registry()
            .into_iter()
            .filter(|pass| pass.name().is_about_memories())
            .filter(|pass| pass.name().is_enabled(&self.stores.config.passes))
            .map(|pass| {
                let plan = sightings.clone().and_then(|sightings| {
                    let view = View::new(self.now, &self.stores, &sightings);
                    pass.decide(&view, &cx).map_err(|error| chain(&error))
                });
                (pass.name(), plan)
            })
            .collect()
    }
}
