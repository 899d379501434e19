//! What stands beside the points of a store that are its rows: links to them, and a log.

use crate::config::checks::Checks;
use crate::config::raw;
use crate::config::reader::Key;
use crate::config::{Links, ListKey, MemoryLog, PayloadFilter, Qdrant};

/// Reads the links; `points` are those of the memories, where they are the rows.
pub(super) fn links(
    raw: &raw::Links,
    points: Option<&Qdrant>,
    checks: &mut Checks,
) -> Option<Links> {
    refuse_without_points(&raw.collection, points.is_some(), checks);
    let (points, true) = (points?, raw.collection.is_on()) else {
        return None;
    };
    let allowed = "the name of another collection, with {collection} for that of the memories";
    let template = checks.text(&raw.collection, "", allowed);
    let collection = template.replace("{collection}", &points.collection);
    if collection.contains(['{', '}']) || collection == points.collection {
        checks.refuse(&raw.collection, allowed);
    }
    Some(Links {
        points: Qdrant {
            collection,
            filter: PayloadFilter::default(),
            ..points.clone()
        },
        key: list_key(&raw.key, checks)?,
    })
}

fn list_key(key: &Key, checks: &mut Checks) -> Option<ListKey> {
    let allowed = "a payload key, or several spellings of one with | between them";
    let read = ListKey::parse(&checks.text(key, "linked_memory_ids", allowed));
    if read.is_none() {
        checks.refuse(key, allowed);
    }
    read
}

/// Reads the log.
pub(super) fn log(raw: &raw::Log, are_points: bool, checks: &mut Checks) -> Option<MemoryLog> {
    refuse_without_points(&raw.path, are_points, checks);
    let path = checks.optional_path(&raw.path).filter(|_| are_points)?;
    if !raw.last.is_given() {
        checks.missing(
            &raw.last.field,
            "a query of what the log says last of each memory: its id, whether it was deleted, its text",
        );
    }
    Some(MemoryLog {
        path,
        last: checks.text(
            &raw.last,
            "",
            "a query of what the log says last of each memory: its id, whether it was deleted, its text",
        ),
    })
}

fn refuse_without_points(key: &Key, are_points: bool, checks: &mut Checks) {
    if key.is_on() && !are_points {
        checks.refuse(key, "nothing where rows.kind is not \"points\"");
    }
}
