//! A multipart form with the one file that the server expects, which goes to the disk as it comes.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::{fs, io};

use axum::body::Body;
use tempfile::NamedTempFile;
use tokio_stream::StreamExt as _;

use crate::error::{Answer, bad_request, internal};

/// Bytes that the headers of a part may have.
const MOST_HEADERS: usize = 64 << 10;

/// The file of a form.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file_name: String,
    pub(super) contents: NamedTempFile,
}

/// Receives the form of `content_type`, whose only part must be the file `snapshot`, into a file of `dir`.
pub(super) async fn receive(content_type: &str, body: Body, dir: &Path) -> Answer<Part> {
    let boundary = content_type
        .strip_prefix("multipart/form-data; boundary=")
        .ok_or_else(|| bad_request("Could not find Content-Type header"))?
        .trim_matches('"');
    let mut body = body.into_data_stream();
    let mut begin = Vec::new();
    let (file_name, contents_at) = loop {
        if let Some(found) = headers(&begin, boundary)? {
            break found;
        }
        match body.next().await {
            Some(chunk) if begin.len() <= MOST_HEADERS => {
                begin.extend_from_slice(&chunk.map_err(bad_request)?);
            }
            _ => return Err(bad_request("Multipart headers are incomplete")),
        }
    };
    fs::create_dir_all(dir).map_err(internal)?;
    let mut contents = NamedTempFile::new_in(dir).map_err(internal)?;
    contents
        .write_all(&begin[contents_at..])
        .map_err(internal)?;
    while let Some(chunk) = body.next().await {
        contents
            .write_all(&chunk.map_err(bad_request)?)
            .map_err(internal)?;
    }
    let is_whole = cut_end(&mut contents, boundary).map_err(internal)?;
    is_whole
        .then_some(Part {
            file_name,
            contents,
        })
        .ok_or_else(|| bad_request("Multipart stream is incomplete"))
}

/// The name of the file that a form begins with, and where its contents begin; `None` when the headers go on.
fn headers(begin: &[u8], boundary: &str) -> Answer<Option<(String, usize)>> {
    let blank = b"\r\n\r\n";
    let Some(end) = begin.windows(blank.len()).position(|four| four == blank) else {
        return Ok(None);
    };
    let headers = begin[..end]
        .strip_prefix(format!("--{boundary}\r\n").as_bytes())
        .ok_or_else(|| bad_request("Multipart stream is incomplete"))?;
    let headers = String::from_utf8_lossy(headers);
    if !headers.contains("name=\"snapshot\"") {
        return Err(bad_request("Multipart error: Field is missing: `snapshot`"));
    }
    let file_name = headers
        .split_once("filename=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(name, _)| name.to_owned())
        .ok_or_else(|| bad_request("the uploaded file has no name"))?;
    Ok(Some((file_name, end + blank.len())))
}

/// Takes what ends a form off its file; tells whether it was there.
fn cut_end(contents: &mut NamedTempFile, boundary: &str) -> io::Result<bool> {
    let last = format!("\r\n--{boundary}--\r\n");
    let file = contents.as_file_mut();
    let Some(length) = file.metadata()?.len().checked_sub(last.len() as u64) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(length))?;
    let mut end = Vec::with_capacity(last.len());
    file.read_to_end(&mut end)?;
    file.set_len(length)?;
    Ok(end == last.as_bytes())
}
