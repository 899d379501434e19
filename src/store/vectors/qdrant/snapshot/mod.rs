//! Whole copies of a collection: Qdrant's own snapshots, fetched and put back over REST.
//!
//! Mechanics: [`http`] makes requests, [`server`] the calls of one node, [`cluster`] finds the nodes that hold the
//! collection. A server's snapshot has what was removed, too, as long as the server keeps it: one without is made of a
//! collection that was written anew, `NAME-hypnos-anew`, see [`anew`]. A copy is counted by recovering it into a temporary
//! collection, `NAME-hypnos-verify`, since nothing but a server can open it: while it is read, so that it comes once, see
//! [`tee`]. A copy that is put back goes to `NAME-hypnos-TAG` first. What makes that the live one depends on the configured
//! name, see [`switching`]: an alias is moved in one request; a collection is replaced by a snapshot of the new one, which
//! the server unpacks before it touches anything. Where others have points in it, too, it is changed point by point, see
//! [`shared`].
//!
//! Policy: every collection whose name is made here may be removed by name, unless an alias leads to it; no other is
//! ever removed, except the one that an alias was moved away from, which is marked by an alias of its own
//! (`NAME-hypnos-TAG-old`) and stays when anything else leads to it. A collection that was changed since the restore began
//! stays in any case: where an alias was moved away from it, under its name, else as a copy, `NAME-hypnos-TAGn-old`. The
//! server's own copy of a snapshot is removed as soon as it was fetched, also after a failure; one that a killed run left
//! cannot be told from an operator's, and stays.
//!
//! [`anew`]: self::anew
//! [`switching`]: self::switching
//! [`tee`]: self::tee
//! [`http`]: self::http
//! [`server`]: self::server
//! [`cluster`]: self::cluster

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::http::Method;

use crate::clock::Timestamp;
use crate::config;
use crate::panics::joined;
use crate::stop::Stop;
use crate::store::copies::{
    CopiedFile, CopiedPoints, CopyError, Count, Keep, PointCopies, Switched, count_points,
};
use crate::store::sqlite::Access;
use crate::store::vectors::{self, VectorError};
use anew::ANEW;
use cluster::Node;
use http::{Ask, Http, Patience};
use server::{Server, Twin, Upload};

mod anew;
mod cluster;
mod http;
mod server;
mod shared;
mod switching;
mod tee;
mod tenants;

pub use tenants::TenantCopies;

/// Asks the REST interface a question that costs nothing.
///
/// # Errors
///
/// When it does not answer at the configured address, or refuses the key.
pub fn reach(config: &config::Qdrant, stop: &Stop) -> Result<(), VectorError> {
    let ask = Ask {
        call: "asking for the aliases",
        method: Method::GET,
        path: "/aliases",
        patience: Patience::Question,
    };
    Http::new(config, stop).ask(&ask, None)?;
    Ok(())
}

/// The tag of the collection that copies are counted in.
const VERIFY: &str = "verify";
/// What the `backend` of a copy says.
const BACKEND: &str = "qdrant";

/// What stands between the name of a collection and the tag of a copy of it.
const COPY: &str = "-hypnos-";

/// The name of the copy of a collection.
fn copy_name(collection: &str, tag: &str) -> String {
    format!("{collection}{COPY}{tag}")
}

/// Whether a name is one that a copy has, or what marks the collection that a copy took the place of.
pub(super) fn is_copy(name: &str) -> bool {
    let is_tag = |tag: &str| {
        let tag = tag.strip_suffix("-old").unwrap_or(tag);
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        [VERIFY, ANEW].contains(&tag) || (!tag.is_empty() && tag.chars().all(is_hex))
    };
    name.rsplit_once(COPY).is_some_and(|(_, tag)| is_tag(tag))
}

/// Copies of one collection.
pub struct QdrantCopies {
    config: config::Qdrant,
    vectors: config::Vectors,
    server: Server,
    stop: Stop,
}

/// Files that nodes keep of what was uploaded to them, by name.
type Uploads = Vec<(Server, String)>;

/// What is recorded of the place beside the points: for a person, and to find the nodes again.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    /// The collection that the configured name stood for.
    collection: String,
    /// Every alias of it.
    aliases: Vec<String>,
    /// What the server said of its configuration.
    config: Value,
    /// The payload indexes.
    payload_schema: Value,
    /// The nodes that held it; none when the server was on its own.
    nodes: Vec<Node>,
}

impl QdrantCopies {
    /// Prepares the copies of the configured collection; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the vectors are not on a Qdrant server.
    pub fn new(vectors: &config::Vectors, stop: &Stop) -> Result<Self, VectorError> {
        let config::Backend::Qdrant(config) = &vectors.backend else {
            return Err(VectorError::Malformed(
                "the vector store is not a Qdrant server".to_owned(),
            ));
        };
        Ok(Self {
            config: config.clone(),
            vectors: vectors.clone(),
            server: Server {
                http: Http::new(config, stop),
            },
            stop: stop.clone(),
        })
    }

    /// The name of the temporary collection of a tag.
    fn name_of(&self, tag: &str) -> String {
        copy_name(&self.config.collection, tag)
    }

    /// What the collection is, and where.
    fn place(&self) -> Result<Place, VectorError> {
        let aliases = self.server.aliases()?;
        let name = &self.config.collection;
        let collection = aliases.get(name).unwrap_or(name).clone();
        let info = self
            .server
            .collection(&collection)?
            .ok_or_else(|| VectorError::Missing {
                what: format!("collection {name:?}"),
            })?;
        let part = |key: &str| info.get(key).cloned().unwrap_or(Value::Null);
        let names = aliases.into_iter().filter(|(_, to)| *to == collection);
        Ok(Place {
            aliases: names.map(|(alias, _)| alias).collect(),
            config: part("config"),
            payload_schema: part("payload_schema"),
            nodes: self.nodes(&collection)?,
            collection,
        })
    }

    /// The nodes that hold a collection; none when the server is on its own.
    fn nodes(&self, collection: &str) -> Result<Vec<Node>, VectorError> {
        let cluster = self.server.cluster()?;
        if !cluster.is_enabled() {
            return Ok(Vec::new());
        }
        let shards = self.server.shards(collection)?;
        shards
            .nodes(&cluster)
            .map_err(|reason| VectorError::Refused {
                call: "copying the collection of a cluster",
                reason,
            })
    }

    /// The way to a node, which has said that it is that node.
    fn server_of(&self, peer_id: u64, uri: &str) -> Result<Server, VectorError> {
        if self.server.cluster()?.peer_id == Some(peer_id) {
            return Ok(self.server.clone());
        }
        let unreachable = |reason: String| VectorError::Refused {
            call: "reaching every node of the cluster",
            reason: format!("node {peer_id} at {uri}: {reason}"),
        };
        let http = &self.server.http;
        let base = cluster::rest_address(http.base(), uri, http.has_key()).map_err(unreachable)?;
        let server = Server {
            http: http.at(base),
        };
        match server.cluster() {
            Ok(says) if says.peer_id == Some(peer_id) => Ok(server),
            Ok(_) => Err(unreachable("another node answers there".to_owned())),
            Err(VectorError::Interrupted) => Err(VectorError::Interrupted),
            Err(error) => Err(unreachable(error.to_string())),
        }
    }

    /// Copies the live collection, written anew if that is wanted and can be.
    fn copy(&self, folder: &Path, is_anew_wanted: bool) -> Result<CopiedPoints, CopyError> {
        let version = self.server.version()?;
        let mut place = self.place()?;
        // A killed run may have left them.
        for tag in [ANEW, VERIFY] {
            self.remove(&self.name_of(tag))?;
        }
        let written = if is_anew_wanted {
            self.copy_anew(&mut place, folder)?
        } else {
            None
        };
        let written_anew = written.is_some();
        let (files, count) = match written {
            Some(copied) => copied,
            None => self.fetch(&place.collection, &place.nodes, folder)?,
        };
        Ok(CopiedPoints {
            backend: BACKEND.to_owned(),
            version,
            files,
            count,
            written_anew,
            place: json!(place),
        })
    }

    /// Copies a collection from the nodes into files of `folder`, all or none, and counts what came.
    fn fetch(
        &self,
        collection: &str,
        nodes: &[Node],
        folder: &Path,
    ) -> Result<(Vec<CopiedFile>, Count), CopyError> {
        let mut files = Vec::new();
        let counted = self.counted(|twin, uploads| {
            for (index, (server, node)) in self.sources(nodes)?.into_iter().enumerate() {
                let name = format!("points-{index}.snapshot");
                let upload = upload_name(VERIFY, index);
                uploads.push((server.clone(), upload.clone()));
                let twin = Twin {
                    server: &server,
                    collection: twin,
                    name: &upload,
                };
                let file = server.copy(collection, folder, &name, &twin)?;
                files.push((CopiedFile { node, ..file }, server));
            }
            check_placed(&files, twin, nodes)
        });
        let files = files.into_iter().map(|(file, _)| file).collect();
        match counted {
            Ok(count) => Ok((files, count)),
            Err(error) => {
                remove_files(folder, &files)?;
                Err(error)
            }
        }
    }

    /// The nodes to copy from, each with the address that is recorded of it. Before anything is copied, every one is there.
    fn sources(&self, nodes: &[Node]) -> Result<Vec<(Server, Option<String>)>, VectorError> {
        if nodes.is_empty() {
            return Ok(vec![(self.server.clone(), None)]);
        }
        let copied = nodes.iter().filter(|node| node.copied);
        copied
            .map(|node| {
                let server = self.server_of(node.peer_id, &node.uri)?;
                Ok((server, Some(node.uri.clone())))
            })
            .collect()
    }

    /// Recovers files into the collection `into`, which is made of them when it is not there.
    fn put(
        &self,
        folder: &Path,
        files: &[CopiedFile],
        nodes: &[Node],
        into: &str,
        tag: &str,
    ) -> Result<(), CopyError> {
        let mut targets = Vec::new();
        for file in files {
            targets.push((file.clone(), self.target(file, files.len())?));
        }
        for (index, (file, server)) in targets.iter().enumerate() {
            let mut contents = File::open(folder.join(&file.name))
                .map_err(CopyError::io("open the file of a snapshot"))?;
            let upload = Upload {
                name: &upload_name(tag, index),
                contents: &mut contents,
                bytes: file.bytes,
                sha256: Some(&file.sha256),
            };
            server.recover(into, upload)?;
        }
        check_placed(&targets, into, nodes)
    }

    /// The node that a file is to be put on: any, when it is the only file.
    fn target(&self, file: &CopiedFile, files: usize) -> Result<Server, CopyError> {
        let uri = match &file.node {
            Some(uri) if files > 1 => uri,
            _ => return Ok(self.server.clone()),
        };
        match self.server.cluster()?.peer_at(uri) {
            Some(peer_id) => Ok(self.server_of(peer_id, uri)?),
            None => Err(CopyError::Foreign(format!(
                "the copy has a file of the node {uri}, which is not in this cluster"
            ))),
        }
    }

    /// Counts what `put` puts into a temporary collection. What it says that a node keeps of an upload goes meanwhile.
    fn counted(
        &self,
        put: impl FnOnce(&str, &mut Uploads) -> Result<(), CopyError>,
    ) -> Result<Count, CopyError> {
        let name = self.name_of(VERIFY);
        // A killed run may have left one.
        self.remove(&name)?;
        let mut uploads = Uploads::new();
        let is_put = put(&name, &mut uploads);
        let (counted, tidied) = thread::scope(|scope| {
            let tidied = scope.spawn(|| {
                let mut uploads = uploads.iter();
                uploads.try_for_each(|(server, upload)| server.remove_snapshot(&name, upload))
            });
            let counted = is_put.and_then(|()| self.count_in(&name));
            (counted, joined(tidied))
        });
        let removed = self.remove(&name);
        let count = counted?;
        tidied?;
        removed?;
        Ok(count)
    }

    fn count_in(&self, collection: &str) -> Result<Count, CopyError> {
        let vectors = config::Vectors {
            backend: config::Backend::Qdrant(self.config_of(collection)),
            ..self.vectors.clone()
        };
        let points = vectors::open(&vectors, Access::Read, &self.stop)?;
        Ok(count_points(&*points)?)
    }

    fn config_of(&self, collection: &str) -> config::Qdrant {
        config::Qdrant {
            collection: collection.to_owned(),
            ..self.config.clone()
        }
    }

    /// Removes a temporary collection, which must not be in use; also after a stop was requested.
    fn remove(&self, name: &str) -> Result<(), CopyError> {
        let server = self.server.undisturbed();
        let aliases = server.aliases()?;
        let in_use = aliases
            .iter()
            .find(|(alias, collection)| *alias == name || *collection == name);
        match in_use {
            None => Ok(server.remove_collection(name)?),
            Some((alias, collection)) => Err(CopyError::Foreign(format!(
                "{name:?} is to be removed, but the alias {alias:?} leads to {collection:?}"
            ))),
        }
    }
}

impl PointCopies for QdrantCopies {
    fn copy_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        self.copy(folder, false)
    }

    fn copy_anew_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        self.copy(folder, true)
    }

    fn recount(&self, folder: &Path, copy: &CopiedPoints) -> Result<Count, CopyError> {
        let nodes = nodes_in(copy)?;
        self.counted(|name, _| self.put(folder, &copy.files, &nodes, name, VERIFY))
    }

    fn is_current(
        &self,
        _folder: &Path,
        copy: &CopiedPoints,
        _at: Timestamp,
    ) -> Result<bool, CopyError> {
        Ok(self.count_in(&self.config.collection)? == copy.count)
    }

    fn require_idle(&self) -> Result<(), CopyError> {
        Ok(())
    }

    fn stage(&self, folder: &Path, copy: &CopiedPoints, tag: &str) -> Result<(), CopyError> {
        let nodes = nodes_in(copy)?;
        let name = self.name_of(tag);
        self.remove(&name)?;
        let staged = self
            .put(folder, &copy.files, &nodes, &name, tag)
            .and_then(|()| self.check_staged(tag));
        if staged.is_err() {
            self.remove(&name)?;
        }
        staged
    }

    fn staged(&self, tag: &str) -> config::Vectors {
        config::Vectors {
            backend: config::Backend::Qdrant(self.config_of(&self.name_of(tag))),
            ..self.vectors.clone()
        }
    }

    fn mark(&self) -> Result<Value, CopyError> {
        self.mark_live()
    }

    fn switch(&self, tag: &str, was: &Value, keep: Keep) -> Result<Switched, CopyError> {
        self.switch_over(tag, was, keep)
    }

    fn discard(&self, tag: &str) -> Result<(), CopyError> {
        self.remove_old(tag)?;
        let staged = self.name_of(tag);
        if self.server.aliases()?.values().any(|live| *live == staged) {
            return Ok(());
        }
        self.remove(&staged)
    }
}

/// The nodes that a copy was taken from.
fn nodes_in(copy: &CopiedPoints) -> Result<Vec<Node>, CopyError> {
    if copy.backend != BACKEND {
        let backend = &copy.backend;
        return Err(CopyError::Foreign(format!(
            "the points of the copy are of {backend:?}, not of a Qdrant server"
        )));
    }
    if copy.files.is_empty() {
        return Err(CopyError::Damaged(
            "the copy has no file of points".to_owned(),
        ));
    }
    let place = Place::deserialize(&copy.place);
    let place = place
        .map_err(|_| CopyError::Damaged("the copy does not say where it is from".to_owned()))?;
    Ok(place.nodes)
}

/// The name that a server keeps a file under while it makes a collection of it.
fn upload_name(tag: &str, index: usize) -> String {
    format!("hypnos-{tag}-{index}.snapshot")
}

/// Sees that every node holds each shard that the file it was given has: shards that are elsewhere stay empty.
fn check_placed(
    placed: &[(CopiedFile, Server)],
    collection: &str,
    nodes: &[Node],
) -> Result<(), CopyError> {
    for (file, server) in placed {
        let shards = server.shards(collection)?;
        let here = shards.local();
        let from = nodes
            .iter()
            .find(|node| file.node.as_ref() == Some(&node.uri));
        let are_placed = match from {
            Some(node) => node.shards.is_subset(&here),
            None => here.len() == shards.count(),
        };
        if !are_placed {
            return Err(VectorError::Refused {
                call: "recovering a snapshot in a cluster",
                reason: "the cluster has put the shards of the new collection on other nodes than those of the old one"
                    .to_owned(),
            }
            .into());
        }
    }
    Ok(())
}

/// Removes the files of a copy that was not finished.
fn remove_files(folder: &Path, files: &[CopiedFile]) -> Result<(), CopyError> {
    let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    for name in names {
        fs::remove_file(folder.join(name))
            .map_err(CopyError::io("remove the file of half a copy"))?;
    }
    Ok(())
}
