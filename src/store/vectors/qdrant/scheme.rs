//! Whether the scheme of an address is the reason why a call to it failed.
//!
//! Mechanics: where TLS was wanted, the error tells that something else came back. Where it was not, an answer in TLS looks
//! like any nonsense to whoever reads it: the address is asked once more, in plain text, and the first byte of its answer
//! tells.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::calls::without_credentials;

/// Said where the address begins with https, and there is no TLS.
pub(super) const IS_PLAIN: &str =
    "what answers there does not speak TLS: does its address begin with http://?";
/// Said where the address begins with http, and there is TLS.
pub(super) const IS_TLS: &str =
    "what answers there speaks TLS: does its address begin with https://?";

/// What the errors of a TLS connection contain when something else than TLS came back.
const PLAIN: [&str; 2] = ["InvalidContentType", "corrupt message"];
/// The kind of a TLS record that refuses something.
const ALERT: u8 = 21;
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// What no TLS server understands; any other may answer it as it likes.
const QUESTION: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

/// What is wrong with the scheme of an address to which a call failed in this way, if anything.
pub(super) fn mistake(url: &str, told: &str) -> Option<&'static str> {
    if url.starts_with("https://") {
        let is_plain = PLAIN.iter().any(|sign| told.contains(sign));
        return is_plain.then_some(IS_PLAIN);
    }
    (first_byte(url)? == ALERT).then_some(IS_TLS)
}

/// The first byte that an address answers in plain text with.
fn first_byte(url: &str) -> Option<u8> {
    let url = without_credentials(url);
    let place = url.strip_prefix("http://")?.split('/').next()?;
    let address = place.to_socket_addrs().ok()?.next()?;
    let mut line = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    line.set_read_timeout(Some(PATIENCE)).ok()?;
    line.set_write_timeout(Some(PATIENCE)).ok()?;
    line.write_all(QUESTION).ok()?;
    let mut first = [0];
    line.read_exact(&mut first).ok()?;
    Some(first[0])
}
