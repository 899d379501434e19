//! Making a staged collection the live one: an alias is moved, a collection is replaced.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::QdrantCopies;
use super::cluster::Node;
use crate::store::copies::{CopyError, IdSet, Keep, Switched};
use crate::store::vectors::qdrant::QdrantVectors;
use crate::store::vectors::qdrant::read::single_text;
use crate::store::vectors::{VectorError, payload};

/// How many states of the live collection one restore may keep.
const ATTEMPTS: u8 = 16;

/// What the configured name is.
enum Live {
    /// A collection.
    Collection,
    /// An alias of this collection.
    Alias(String),
    /// Nothing on this server.
    Nothing,
}

impl QdrantCopies {
    /// What tells whether the live collection has been changed, see [`PointCopies::mark`].
    ///
    /// [`PointCopies::mark`]: crate::store::copies::PointCopies::mark
    pub(super) fn mark_live(&self) -> Result<Value, CopyError> {
        match self.live(&self.server.aliases()?)? {
            Live::Nothing => Ok(Value::Null),
            Live::Alias(_) | Live::Collection => self.mark_of(&self.config.collection),
        }
    }

    fn live(&self, aliases: &BTreeMap<String, String>) -> Result<Live, VectorError> {
        let name = &self.config.collection;
        Ok(match aliases.get(name) {
            Some(collection) => Live::Alias(collection.clone()),
            None if self.server.collection(name)?.is_some() => Live::Collection,
            None => Live::Nothing,
        })
    }

    /// The alias that marks what the collection was before the switch of a tag.
    fn marker_of(&self, tag: &str) -> String {
        format!("{}-old", self.name_of(tag))
    }

    /// Makes what is staged under a tag the live collection, see [`PointCopies::switch`].
    ///
    /// [`PointCopies::switch`]: crate::store::copies::PointCopies::switch
    pub(super) fn switch_over(
        &self,
        tag: &str,
        was: &Value,
        keep: Keep,
    ) -> Result<Switched, CopyError> {
        let staged = self.name_of(tag);
        let live = self.live(&self.server.aliases()?)?;
        if matches!(&live, Live::Alias(collection) if *collection == staged) {
            return Ok(Switched::Before);
        }
        if self.server.collection(&staged)?.is_none() {
            return match live {
                // Nothing but `discard` removes it, which comes after the switch.
                Live::Collection => Ok(Switched::Before),
                Live::Alias(_) if self.is_shared() => Ok(Switched::Before),
                Live::Alias(_) | Live::Nothing => Err(VectorError::Missing {
                    what: format!("collection {staged:?}"),
                }
                .into()),
            };
        }
        let now = match self.mark_live() {
            // What is damaged is put back on request.
            Err(error) if keep == Keep::Always && !error.is_interruption() => Value::Null,
            now => now?,
        };
        let is_changed = !now.is_null() && now != *was;
        let is_moved = matches!(live, Live::Alias(_)) && !self.is_shared();
        if is_changed && !is_moved && now == self.mark_of(&staged)? {
            // It was done, and not confirmed.
            return Ok(Switched::Before);
        }
        let name = &self.config.collection;
        let is_kept = keep.decide(is_changed, format_args!("collection {name:?}"))?;
        match live {
            Live::Alias(from) if is_moved => {
                self.move_alias(&from, tag, is_kept)?;
                Ok(kept(is_changed, &from))
            }
            Live::Nothing => {
                self.replace(&staged, name, tag)?;
                Ok(Switched::Now)
            }
            Live::Alias(_) | Live::Collection => {
                let aside = if is_changed {
                    self.keep_aside(tag)?
                } else {
                    String::new()
                };
                if self.is_shared() {
                    self.replace_own(tag)?;
                } else {
                    self.replace(&staged, name, tag)?;
                }
                Ok(kept(is_changed, &aside))
            }
        }
    }

    /// Sees that what was staged can take the place of the live points.
    pub(super) fn check_staged(&self, tag: &str) -> Result<(), CopyError> {
        let live = self.live(&self.server.aliases()?)?;
        if self.is_shared() && !matches!(live, Live::Nothing) {
            self.check_fits(tag)?;
        }
        Ok(())
    }

    /// The store's points of a collection: their payloads and, bit for bit, their vectors.
    fn mark_of(&self, collection: &str) -> Result<Value, CopyError> {
        let key = &self.vectors.namespace_key;
        let points = QdrantVectors::connect(&self.config_of(collection), key, self.stop.clone())?;
        let (mut total, mut set, mut vectors) = (0_u64, IdSet::default(), IdSet::default());
        points.own_whole(&mut |id, payload, digest| {
            if self.is_of_others(&payload) {
                return;
            }
            let mut payload = Value::Object(payload);
            payload.sort_all_objects();
            set.add(&format!("{id} {payload}"));
            vectors.add(&format!("{id} {digest}"));
            total += 1;
        })?;
        Ok(json!({"total": total, "points": set, "vectors": vectors}))
    }

    /// Whether a point is of another kind than memories are.
    fn is_of_others(&self, payload: &serde_json::Map<String, Value>) -> bool {
        let value = single_text(payload::lookup(payload, &self.vectors.namespace_key));
        let value = value.filter(|value| !value.is_empty());
        let spelling = self.vectors.spelling.as_ref();
        matches!((spelling, value), (Some(spelling), Some(value)) if spelling.read(value).is_none())
    }

    /// Copies the live collection to one of its own, which stays, and answers its name. What an earlier attempt kept is
    /// another state of it, and stays, too.
    fn keep_aside(&self, tag: &str) -> Result<String, CopyError> {
        let aliases = self.server.aliases()?;
        let name = &self.config.collection;
        let live = aliases.get(name).unwrap_or(name);
        for attempt in 0..ATTEMPTS {
            let aside = self.marker_of(&format!("{tag}{attempt:x}"));
            if self.server.collection(&aside)?.is_none() {
                self.replace(live, &aside, tag)?;
                return Ok(aside);
            }
        }
        Err(CopyError::Foreign(format!(
            "{ATTEMPTS} copies of {name:?} were kept: remove those that nobody needs"
        )))
    }

    /// Makes a collection, which is no alias, what another one is.
    fn replace(&self, from: &str, into: &str, tag: &str) -> Result<(), CopyError> {
        let name = format!("hypnos-{tag}.snapshot");
        let nodes = self.nodes(from)?;
        let copied: Vec<&Node> = nodes.iter().filter(|node| node.copied).collect();
        if copied.len() > 1 {
            return Err(CopyError::Foreign(format!(
                "the collection {into:?} is spread over {} nodes and cannot be replaced in one step; make its name an alias",
                copied.len()
            )));
        }
        let server = match copied.first() {
            Some(node) => self.server_of(node.peer_id, &node.uri)?,
            None => self.server.clone(),
        };
        server.replace(from, into, &name)
    }

    /// Moves the configured alias to the collection of a tag, and marks the one it led to unless that is kept, all at
    /// once.
    fn move_alias(&self, from: &str, tag: &str, keep_old: bool) -> Result<(), VectorError> {
        let (alias, to, marker) = (
            &self.config.collection,
            self.name_of(tag),
            self.marker_of(tag),
        );
        let mut actions = vec![
            json!({"delete_alias": {"alias_name": alias}}),
            json!({"create_alias": {"alias_name": alias, "collection_name": to}}),
        ];
        if !keep_old {
            actions.push(json!({"create_alias": {"alias_name": marker, "collection_name": from}}));
        }
        self.server.change_aliases(&actions)
    }

    /// Removes what the marker of a tag leads to, unless something else leads there, and the marker.
    pub(super) fn remove_old(&self, tag: &str) -> Result<(), VectorError> {
        let marker = self.marker_of(tag);
        let aliases = self.server.aliases()?;
        let Some(old) = aliases.get(&marker) else {
            return Ok(());
        };
        let is_needed = aliases
            .iter()
            .any(|(alias, collection)| *alias != marker && collection == old);
        if !is_needed && *old != self.config.collection {
            // Its aliases go with it, the marker too.
            self.server.remove_collection(old)?;
            return Ok(());
        }
        let actions = [json!({"delete_alias": {"alias_name": marker}})];
        self.server.change_aliases(&actions)
    }
}

fn kept(is_changed: bool, collection: &str) -> Switched {
    if is_changed {
        Switched::Kept(format!("collection {collection:?}"))
    } else {
        Switched::Now
    }
}
