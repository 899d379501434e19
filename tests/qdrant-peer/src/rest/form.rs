//! A multipart form with the one file that the server expects.

use crate::error::{Answer, bad_request};

/// The file of a form.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) file_name: String,
    pub(super) contents: &'a [u8],
}

/// Reads the form of `content_type`, whose only part must be the file `snapshot`.
pub(super) fn read<'a>(content_type: &str, body: &'a [u8]) -> Answer<Part<'a>> {
    let boundary = content_type
        .strip_prefix("multipart/form-data; boundary=")
        .ok_or_else(|| bad_request("Could not find Content-Type header"))?
        .trim_matches('"');
    let (first, last) = (
        format!("--{boundary}\r\n"),
        format!("\r\n--{boundary}--\r\n"),
    );
    let inside = body
        .strip_prefix(first.as_bytes())
        .and_then(|rest| rest.strip_suffix(last.as_bytes()))
        .ok_or_else(|| bad_request("Multipart stream is incomplete"))?;
    let blank = b"\r\n\r\n";
    let end = inside
        .windows(blank.len())
        .position(|window| window == blank)
        .ok_or_else(|| bad_request("Multipart headers are incomplete"))?;
    let headers = String::from_utf8_lossy(&inside[..end]).into_owned();
    if !headers.contains("name=\"snapshot\"") {
        return Err(bad_request("Multipart error: Field is missing: `snapshot`"));
    }
    let file_name = headers
        .split_once("filename=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(name, _)| name.to_owned())
        .ok_or_else(|| bad_request("the uploaded file has no name"))?;
    Ok(Part {
        file_name,
        contents: &inside[end + blank.len()..],
    })
}
