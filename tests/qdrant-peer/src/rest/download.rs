//! A snapshot on its way to the client, and what can happen to it there.

use std::fs;
use std::io;
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use tokio_stream::StreamExt as _;

use crate::error::{Answer, internal};
use crate::faults::Damage;

pub(super) fn response(path: &Path, damage: Option<Damage>) -> Answer<Response> {
    let mut bytes = fs::read(path).map_err(internal)?;
    let whole = bytes.len();
    let body = match damage {
        None => Body::from(bytes),
        Some(Damage::Flip(at)) => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            Body::from(bytes)
        }
        Some(Damage::Shorten(to)) => {
            bytes.truncate(to);
            return Ok(with_length(Body::from(bytes), whole.min(to)));
        }
        Some(Damage::Cut(after)) => {
            bytes.truncate(after);
            let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut on purpose");
            Body::from_stream(tokio_stream::iter([Ok(Bytes::from(bytes)), Err(cut)]))
        }
        Some(Damage::Stall(after)) => {
            bytes.truncate(after);
            let begun = tokio_stream::once(Ok::<_, io::Error>(Bytes::from(bytes)));
            Body::from_stream(begun.chain(tokio_stream::pending()))
        }
    };
    Ok(with_length(body, whole))
}

fn with_length(body: Body, length: usize) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    (headers, body).into_response()
}
