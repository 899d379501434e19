//! A snapshot on its way to the client, and what can happen to it there.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::iter;
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use tokio_stream::StreamExt as _;

use crate::error::{Answer, internal};
use crate::faults::Damage;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

pub(super) fn response(path: &Path, damage: Option<Damage>) -> Answer<Response> {
    let Some(damage) = damage else {
        return as_it_is_read(path).map_err(internal);
    };
    let mut bytes = fs::read(path).map_err(internal)?;
    let whole = bytes.len();
    let body = match damage {
        Damage::Flip(at) => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            Body::from(bytes)
        }
        Damage::Shorten(to) => {
            bytes.truncate(to);
            return Ok(with_length(Body::from(bytes), whole.min(to) as u64));
        }
        Damage::Cut(after) => {
            bytes.truncate(after);
            let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut on purpose");
            Body::from_stream(tokio_stream::iter([Ok(Bytes::from(bytes)), Err(cut)]))
        }
        Damage::Stall(after) => {
            bytes.truncate(after);
            let begun = tokio_stream::once(Ok::<_, io::Error>(Bytes::from(bytes)));
            Body::from_stream(begun.chain(tokio_stream::pending()))
        }
    };
    Ok(with_length(body, whole as u64))
}

fn as_it_is_read(path: &Path) -> io::Result<Response> {
    let mut file = File::open(path)?;
    let whole = file.metadata()?.len();
    let chunks = iter::from_fn(move || {
        let mut chunk = Vec::with_capacity(CHUNK);
        match file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(Bytes::from(chunk))),
            Err(error) => Some(Err(error)),
        }
    });
    Ok(with_length(
        Body::from_stream(tokio_stream::iter(chunks)),
        whole,
    ))
}

fn with_length(body: Body, length: u64) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    (headers, body).into_response()
}
