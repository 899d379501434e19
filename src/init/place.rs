//! What the arguments of `hypnos init` name.

use std::path::{Path, PathBuf};

use super::Request;
use crate::error::Failure;
use crate::exit::Exit;

/// Where the halves of a store are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Where {
    pub(super) rows: Rows,
    pub(super) points: Points,
    /// The collection that was asked for.
    pub(super) collection: Option<String>,
}

/// Where the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rows {
    /// In a database, or in one per tenant.
    File {
        /// The absolute path, with `{tenant}` for one file per tenant.
        path: String,
        /// The file, or that of the first tenant.
        first: PathBuf,
    },
    /// The points are the rows.
    Points,
}

/// Where the points are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Points {
    /// On a server.
    Qdrant(String),
    /// In a database of this path.
    File(String),
    /// There are none.
    Nowhere,
    /// Nobody said.
    Unsaid,
}

impl Where {
    pub(super) fn of(request: &Request<'_>) -> Result<Self, Failure> {
        let asked = request.collection.map(str::to_owned);
        if is_address(request.rows) {
            let collection = match (request.vectors, asked) {
                (Some(one), Some(other)) if one != other => {
                    return Err(Failure::new(
                        Exit::Usage,
                        format!("two collections are named, {one} and {other}"),
                    ));
                }
                (Some(name), _) => Some(name.to_owned()),
                (None, asked) => asked,
            };
            let points = Points::Qdrant(request.rows.to_owned());
            return Ok(Self {
                rows: Rows::Points,
                points,
                collection,
            });
        }
        refuse_bare_address(request.rows)?;
        if let Some(text) = request.vectors {
            refuse_bare_address(text)?;
        }
        let points = match request.vectors {
            None => Points::Unsaid,
            Some("none") => Points::Nowhere,
            Some(address) if is_address(address) => Points::Qdrant(address.to_owned()),
            Some(path) => Points::File(absolute(path)?),
        };
        if asked.is_some() && !matches!(points, Points::Qdrant(_)) {
            return Err(Failure::new(
                Exit::Usage,
                "--collection goes with the address of a Qdrant server",
            ));
        }
        let path = absolute(request.rows)?;
        let first = first_file(&path)?;
        Ok(Self {
            rows: Rows::File { path, first },
            points,
            collection: asked,
        })
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// `localhost:6334` is meant as a server, and would be read as a file.
fn refuse_bare_address(text: &str) -> Result<(), Failure> {
    let port = text.rsplit_once(':').map(|(_, port)| port);
    let is_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    if !is_port || is_address(text) || Path::new(text).exists() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Usage,
        format!("{text} is neither a file nor an address"),
    )
    .with_hint(format!(
        "the address of a server begins with http://: http://{text}"
    )))
}

fn absolute(path: &str) -> Result<String, Failure> {
    let absolute = std::path::absolute(path).ok();
    let absolute = absolute
        .as_deref()
        .and_then(Path::to_str)
        .map(str::to_owned);
    absolute.ok_or_else(|| Failure::new(Exit::Usage, format!("{path:?} is no path")))
}

/// The file itself, or that of the first tenant who has one.
fn first_file(path: &str) -> Result<PathBuf, Failure> {
    let Some((before, after)) = path.split_once("{tenant}") else {
        return Ok(path.into());
    };
    let none = || Failure::new(Exit::NoStore, format!("no tenant has a file at {path}"));
    let (folder, prefix) = before.rsplit_once('/').ok_or_else(none)?;
    let entries = std::fs::read_dir(folder).map_err(|_| none())?;
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let suffix = after.split('/').next().unwrap_or_default();
    let tenants = names
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
    let mut files = tenants.map(|tenant| PathBuf::from(path.replacen("{tenant}", tenant, 1)));
    files.find(|file| file.is_file()).ok_or_else(none)
}
