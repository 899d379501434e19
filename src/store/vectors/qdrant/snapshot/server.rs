//! The calls of one node that copies need: collections, aliases, snapshots.
//!
//! Policy: a snapshot that the server made counts when it came whole (as many bytes as the server says it has, and the
//! checksum that the server gives), and the server's own copy goes as soon as it was fetched, whatever came of that.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::http::Method;

use super::cluster::{ClusterStatus, Shards};
use super::http::{Ask, Failure, Http, Patience};
use super::tee::Tee;
use crate::durable;
use crate::panics::joined;
use crate::store::copies::{CopiedFile, CopyError};
use crate::store::vectors::VectorError;

/// A snapshot as the server describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) size: u64,
    /// Servers before 1.8 give none.
    pub(super) checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Aliases {
    aliases: Vec<Alias>,
}

#[derive(Debug, Deserialize)]
struct Alias {
    alias_name: String,
    collection_name: String,
}

impl Made {
    fn check_length(&self, length: Option<u64>) -> Result<(), CopyError> {
        match length {
            Some(length) if length != self.size => Err(self.wrong_length(length)),
            _ => Ok(()),
        }
    }

    pub(super) fn wrong_length(&self, bytes: u64) -> CopyError {
        CopyError::Damaged(format!(
            "the snapshot that came has {bytes} bytes or more, the server says {}",
            self.size
        ))
    }
}

/// A file on its way to a server.
pub(super) struct Upload<'a> {
    /// The name that the server keeps it under.
    pub(super) name: &'a str,
    pub(super) contents: &'a mut dyn Read,
    pub(super) bytes: u64,
    /// Its SHA-256, which the server compares before it touches anything; not known for what comes from a server that
    /// gives none.
    pub(super) sha256: Option<&'a str>,
}

/// A collection that is made of a snapshot while that is read.
pub(super) struct Twin<'a> {
    pub(super) server: &'a Server,
    pub(super) collection: &'a str,
    /// The name that the server keeps what is uploaded under.
    pub(super) name: &'a str,
}

/// One node.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) http: Http,
}

impl Server {
    /// The same node, whose calls are not given up when a stop is requested.
    pub(super) fn undisturbed(&self) -> Self {
        Self {
            http: self.http.undisturbed(),
        }
    }

    pub(super) fn version(&self) -> Result<String, VectorError> {
        let call = "asking the version";
        let answer = self
            .http
            .ask_whole(&question(call, "/"), None)
            .map_err(not_found_as_refused(call))?;
        answer
            .get("version")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| malformed(call))
    }

    /// Every alias with its collection.
    pub(super) fn aliases(&self) -> Result<BTreeMap<String, String>, VectorError> {
        let aliases: Aliases = self.read("listing aliases", "/aliases")?;
        let pairs = aliases
            .aliases
            .into_iter()
            .map(|alias| (alias.alias_name, alias.collection_name));
        Ok(pairs.collect())
    }

    /// Makes all changes of aliases at once, or none.
    pub(super) fn change_aliases(&self, actions: &[Value]) -> Result<(), VectorError> {
        let call = "changing aliases";
        let ask = Ask {
            method: Method::POST,
            patience: Patience::Cleaning,
            ..question(call, "/collections/aliases")
        };
        let done = self
            .http
            .ask(&ask, Some(&json!({"actions": actions})))
            .map_err(not_found_as_refused(call))?;
        confirmed(call, &done)
    }

    /// What the server says of a collection; `None` when there is none of that name.
    pub(super) fn collection(&self, name: &str) -> Result<Option<Value>, VectorError> {
        let path = format!("/collections/{}", escaped(name));
        match self
            .http
            .ask(&question("describing the collection", &path), None)
        {
            Ok(info) => Ok(Some(info)),
            Err(Failure::NotFound(_)) => Ok(None),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// Removes a collection and the snapshots that the server keeps of it. That there is none is no error.
    pub(super) fn remove_collection(&self, name: &str) -> Result<(), VectorError> {
        if self.collection(name)?.is_none() {
            return Ok(());
        }
        for snapshot in self.snapshots(name)? {
            self.remove_snapshot(name, &snapshot.name)?;
        }
        let path = format!("/collections/{}", escaped(name));
        let ask = Ask {
            method: Method::DELETE,
            patience: Patience::Cleaning,
            ..question("removing a temporary collection", &path)
        };
        match self.http.ask(&ask, None) {
            Ok(_) | Err(Failure::NotFound(_)) => {}
            Err(Failure::Other(error)) => return Err(error),
        }
        match self.collection(name)? {
            None => Ok(()),
            Some(_) => Err(refused(ask.call, "it is still there")),
        }
    }

    pub(super) fn cluster(&self) -> Result<ClusterStatus, VectorError> {
        self.read("describing the cluster", "/cluster")
    }

    pub(super) fn shards(&self, collection: &str) -> Result<Shards, VectorError> {
        let path = format!("/collections/{}/cluster", escaped(collection));
        self.read("listing the shards", &path)
    }

    /// Every snapshot that the server keeps of a collection.
    fn snapshots(&self, collection: &str) -> Result<Vec<Made>, VectorError> {
        let path = format!("/collections/{}/snapshots", escaped(collection));
        self.read("listing snapshots", &path)
    }

    /// Has a snapshot made, copies it to a new file of `folder`, recovers `twin` from what comes, as it comes, and removes
    /// the server's copy. What it keeps of the upload stays for the caller to remove, where there is a twin then.
    pub(super) fn copy(
        &self,
        collection: &str,
        folder: &Path,
        name: &str,
        twin: &Twin<'_>,
    ) -> Result<CopiedFile, CopyError> {
        let path = folder.join(name);
        let mut is_there = false;
        let copied = self.with_snapshot(collection, |made| {
            let sha256 = self.download(collection, made, &path, twin)?;
            is_there = true;
            Ok(CopiedFile {
                name: name.to_owned(),
                bytes: made.size,
                sha256,
                node: None,
                keeps_deleted: false,
            })
        });
        if copied.is_err() && is_there {
            fs::remove_file(&path).map_err(CopyError::io("remove the file of half a copy"))?;
        }
        copied
    }

    /// Has a snapshot of `from` made, and recovers `into` from it without storing it on this machine.
    pub(super) fn replace(&self, from: &str, into: &str, name: &str) -> Result<(), CopyError> {
        self.with_snapshot(from, |made| {
            let path = snapshot_path(from, &made.name);
            let ask = question("reading a snapshot", &path);
            self.http.fetch(&ask, |contents, length| {
                made.check_length(length)?;
                let upload = Upload {
                    name,
                    contents,
                    bytes: made.size,
                    sha256: made.checksum.as_deref(),
                };
                Ok(self.recover(into, upload)?)
            })
        })
    }

    /// Uploads a snapshot to a collection, which is made when it is not there, and removes the copy that the server
    /// keeps of it.
    pub(super) fn recover(&self, collection: &str, upload: Upload<'_>) -> Result<(), VectorError> {
        let name = upload.name;
        let recovered = self.upload(collection, upload);
        let removed = self.remove_snapshot(collection, name);
        recovered?;
        removed
    }

    fn upload(&self, collection: &str, upload: Upload<'_>) -> Result<(), VectorError> {
        let mut path = format!(
            "/collections/{}/snapshots/upload?wait=true&priority=snapshot",
            escaped(collection)
        );
        if let Some(sha256) = upload.sha256 {
            path.push_str("&checksum=");
            path.push_str(&escaped(sha256));
        }
        let boundary = format!("hypnos-{}", uuid::Uuid::new_v4().simple());
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"snapshot\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            upload.name
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let length = (head.len() + tail.len()) as u64 + upload.bytes;
        let mut body = Cursor::new(head)
            .chain(upload.contents)
            .chain(Cursor::new(tail));
        let ask = Ask {
            method: Method::POST,
            patience: Patience::Work,
            ..question("recovering a snapshot", &path)
        };
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let answer = self
            .http
            .push(&ask, &content_type, &mut body, length)
            .map_err(not_found_as_refused(ask.call))?;
        confirmed(ask.call, answer.get("result").unwrap_or(&Value::Null))
    }

    /// Has a snapshot made for `work`, and removed when that is done or has failed.
    fn with_snapshot<T>(
        &self,
        collection: &str,
        work: impl FnOnce(&Made) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let made = self.make_snapshot(collection)?;
        let result = work(&made);
        let removed = self.remove_snapshot(collection, &made.name);
        let result = result?;
        removed?;
        Ok(result)
    }

    fn make_snapshot(&self, collection: &str) -> Result<Made, VectorError> {
        let call = "making a snapshot";
        let path = format!("/collections/{}/snapshots?wait=true", escaped(collection));
        let ask = Ask {
            method: Method::POST,
            patience: Patience::Work,
            ..question(call, &path)
        };
        match self.http.ask(&ask, None) {
            Ok(made) => parsed(call, made),
            Err(Failure::NotFound(_)) => Err(VectorError::Missing {
                what: format!("collection {collection:?}"),
            }),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// Removes a snapshot from the server. That there is none is no error.
    pub(super) fn remove_snapshot(&self, collection: &str, name: &str) -> Result<(), VectorError> {
        let path = snapshot_path(collection, name);
        let ask = Ask {
            method: Method::DELETE,
            patience: Patience::Cleaning,
            ..question("removing the server's own copy of a snapshot", &path)
        };
        match self.http.ask(&ask, None) {
            Ok(_) | Err(Failure::NotFound(_)) => Ok(()),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// Copies a snapshot to a new file, which is not there when that fails, recovers `twin` from it, and returns the
    /// SHA-256 of its bytes.
    fn download(
        &self,
        collection: &str,
        made: &Made,
        to: &Path,
        twin: &Twin<'_>,
    ) -> Result<String, CopyError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(durable::PRIVATE)
            .open(to)
            .map_err(CopyError::io("create the file of a snapshot"))?;
        let (file, (tell, whole)) = (&file, mpsc::channel());
        let fetched = thread::scope(|scope| {
            // While the twin is made of what came, the file is synced and the server's own copy goes.
            let settled = scope.spawn(move || match whole.recv() {
                Ok(()) => self.settle(collection, made, file),
                Err(_) => Ok(()),
            });
            let sha256 = self.pass_on(collection, made, file, twin, tell);
            let settled = joined(settled);
            sha256.and_then(|sha256| settled.map(|()| sha256))
        });
        if fetched.is_err() {
            fs::remove_file(to).map_err(CopyError::io("remove the file of half a snapshot"))?;
        }
        fetched
    }

    fn settle(&self, collection: &str, made: &Made, file: &File) -> Result<(), CopyError> {
        let synced = file.sync_all();
        synced.map_err(CopyError::io("sync the file of a snapshot"))?;
        Ok(self.remove_snapshot(collection, &made.name)?)
    }

    /// Reads a snapshot once, for its file and for the twin; `whole` hears of the last byte.
    fn pass_on(
        &self,
        collection: &str,
        made: &Made,
        file: &File,
        twin: &Twin<'_>,
        whole: Sender<()>,
    ) -> Result<String, CopyError> {
        let path = snapshot_path(collection, &made.name);
        let ask = question("reading a snapshot", &path);
        let broken_off = |error| CopyError::from(self.http.broken_off(&ask, error));
        self.http.fetch(&ask, |contents, length| {
            made.check_length(length)?;
            let mut tee = Tee::new(contents, file, made, &broken_off, whole);
            let upload = Upload {
                name: twin.name,
                contents: &mut tee,
                bytes: made.size,
                sha256: made.checksum.as_deref(),
            };
            let recovered = twin.server.upload(twin.collection, upload);
            match (tee.outcome(), recovered) {
                (Some(Err(error)), _) => Err(error),
                (_, Err(error)) => Err(error.into()),
                (Some(sha256), Ok(())) => sha256,
                (None, Ok(())) => Err(malformed("recovering a snapshot").into()),
            }
        })
    }

    fn read<T: DeserializeOwned>(&self, call: &'static str, path: &str) -> Result<T, VectorError> {
        let result = self
            .http
            .ask(&question(call, path), None)
            .map_err(not_found_as_refused(call))?;
        parsed(call, result)
    }
}

fn question<'a>(call: &'static str, path: &'a str) -> Ask<'a> {
    Ask {
        call,
        method: Method::GET,
        path,
        patience: Patience::Question,
    }
}

fn snapshot_path(collection: &str, name: &str) -> String {
    format!(
        "/collections/{}/snapshots/{}",
        escaped(collection),
        escaped(name)
    )
}

fn parsed<T: DeserializeOwned>(call: &'static str, value: Value) -> Result<T, VectorError> {
    serde_json::from_value(value).map_err(|_| malformed(call))
}

fn confirmed(call: &'static str, result: &Value) -> Result<(), VectorError> {
    match result {
        Value::Bool(true) => Ok(()),
        other => Err(VectorError::NotCompleted {
            call,
            status: other.to_string(),
        }),
    }
}

fn malformed(call: &'static str) -> VectorError {
    refused(call, "the answer is not one of Qdrant")
}

fn refused(call: &'static str, reason: &str) -> VectorError {
    VectorError::Refused {
        call,
        reason: reason.to_owned(),
    }
}

fn not_found_as_refused(call: &'static str) -> impl FnOnce(Failure) -> VectorError {
    move |failure| match failure {
        Failure::NotFound(reason) => VectorError::Refused { call, reason },
        Failure::Other(error) => error,
    }
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric()
            || b"-_~".contains(&byte)
            || (byte == b'.' && name != "." && name != "..")
        {
            path.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment() {
        for (name, path) in [
            ("memories-2_a.b~", "memories-2_a.b~"),
            ("a b/c?d#e%", "a%20b%2Fc%3Fd%23e%25"),
            ("é", "%C3%A9"),
            ("..", "%2E%2E"),
            (".", "%2E"),
        ] {
            assert_eq!(escaped(name), path);
        }
    }
}
