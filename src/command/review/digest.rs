//! The new memories of the day, with their source: what an agent read can become a standing instruction, so somebody
//! should look at it.

use std::ops::ControlFlow;

use serde::Serialize;

use super::super::wants_namespace;
use super::texts::{MemoryLine, ROLES};
use crate::clock::{self, Timestamp};
use crate::config::{self, HumanDuration};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::memory::{MemoryId, Namespace, Role, printable};
use crate::output::{Out, memory};
use crate::store::rows::{Partition, RowError, RowStore, Told};

/// What tells whether a memory is new and live.
const BIRTH: [Role; 4] = [
    Role::CreatedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
];

/// A memory as JSON has it.
#[derive(Serialize)]
struct NewLine<'a> {
    store: &'a str,
    namespace: &'a Namespace,
    partition: &'a str,
    #[serde(flatten)]
    memory: MemoryLine,
}

/// Prints the live memories of a store that were written in the last `age`, oldest first.
pub(super) fn print(
    store: &config::Store,
    age: HumanDuration,
    namespace: Option<&Namespace>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let now = clock::now();
    let since = now.checked_sub(age.get()).unwrap_or(Timestamp::MIN);
    let rows = RowStore::new(&store.rows);
    let partitions = rows.partitions().map_err(|error| Failure::from(&error))?;
    let (mut new, mut exit) = (Vec::new(), Exit::Done);
    for partition in &partitions {
        match read(&rows, partition, since, now, namespace) {
            Ok(found) => new.extend(found.into_iter().map(|told| (told, &partition.name))),
            Err(error) if partition.tenant.is_some() => {
                let problem = chain(&error);
                tracing::warn!(store = store.name, partition = %partition.name, problem, "memories cannot be read");
                exit = Exit::LeftOver;
            }
            Err(error) => return Err(Failure::from(&error)),
        }
    }
    new.sort_by_key(|(told, _)| told.memory.created_at.latest());
    if !out.json {
        out.line(&format!(
            "{}: {} new since {since:.0}",
            store.name,
            new.len()
        ));
    }
    for (told, partition) in &new {
        let Some(namespace) = &told.memory.namespace else {
            continue;
        };
        let memory = MemoryLine::of(told);
        if out.json {
            let partition = partition.as_ref();
            let line = NewLine {
                store: &store.name,
                namespace,
                partition,
                memory,
            };
            out.object("memory", &line);
        } else {
            print_memory(namespace, &memory, out);
        }
    }
    Ok(exit)
}

fn read(
    rows: &RowStore,
    partition: &Partition,
    since: Timestamp,
    now: Timestamp,
    namespace: Option<&Namespace>,
) -> Result<Vec<Told>, RowError> {
    rows.reader(partition)?.snapshot(|snapshot| {
        let mut new: Vec<MemoryId> = Vec::new();
        snapshot.scan(&BIRTH, &mut |memory| {
            let is_new = memory.created_at.latest().is_some_and(|at| at > since);
            let is_wanted = memory
                .namespace
                .as_ref()
                .is_some_and(|found| wants_namespace(namespace, found));
            if is_new && is_wanted && !memory.is_hidden(now) {
                new.extend(memory.id);
            }
            ControlFlow::Continue(())
        })?;
        snapshot.told(&ROLES, &new)
    })
}

fn print_memory(namespace: &Namespace, shown: &MemoryLine, out: &mut Out) {
    let created = shown.created_at.map(|at| format!("{at:.0}"));
    let source = shown.source.as_deref().unwrap_or("source unknown");
    let head = format!(
        "  {}  {namespace}  {}  {source}",
        created.unwrap_or_default(),
        shown.head()
    );
    out.line(&printable(&head));
    let text = shown.text.as_deref().unwrap_or_default();
    let line = memory::line("       ", text, memory::width(out));
    out.line(&line);
}
