//! Addresses of servers, as far as a configuration must understand them: who is on the other side, and whether
//! anybody in between can read along.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An `http` or `https` address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether it is `https`.
    is_secure: bool,
    /// Name or address in lower case, an IPv6 address in brackets.
    host: String,
    port: Option<u16>,
    /// Empty, or with a slash in front and none behind.
    path: String,
}

impl Address {
    /// What is allowed, for messages.
    pub(super) const ALLOWED: &str = "an address such as \"http://127.0.0.1:6334\" or \"https://example.org\", without user or password";

    /// Reads `http[s]://host[:port][/path]`; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_secure, rest) = if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            (false, text.strip_prefix("http://")?)
        };
        if !rest.chars().all(|c| c.is_ascii_graphic()) || rest.contains(['@', '?', '#', '\\']) {
            return None;
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host_end = match authority.find(']') {
            Some(bracket) => bracket + 1,
            None => authority.find(':').unwrap_or(authority.len()),
        };
        let (host, port) = authority.split_at(host_end);
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
            None if port.is_empty() => None,
            None => return None,
        };
        is_host(host).then(|| Self {
            is_secure,
            host: host.to_ascii_lowercase(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The same server at another port, without a path.
    pub(super) fn at_port(&self, port: u16) -> Self {
        Self {
            port: Some(port),
            path: String::new(),
            ..self.clone()
        }
    }

    /// Whether a secret may travel there: nobody else can read along.
    pub(super) fn is_private(&self) -> bool {
        self.is_secure || self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_matches(['[', ']']);
        bare == "localhost" || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }

    /// One spelling for every address of the same server.
    pub(super) fn canonical(&self) -> String {
        let host = if self.is_loopback() {
            "localhost"
        } else {
            &self.host
        };
        let port = self.port.unwrap_or(if self.is_secure { 443 } else { 80 });
        format!("{host}:{port}{}", self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

fn is_host(host: &str) -> bool {
    if let Some(inside) = host.strip_prefix('[') {
        let ip = inside.strip_suffix(']').map(str::parse::<Ipv6Addr>);
        return matches!(ip, Some(Ok(_)));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    host.starts_with(|c: char| c.is_ascii_alphanumeric()) && host.chars().all(is_part)
}

/// A written address as a message may repeat it: what stands before an `@` may be a password.
pub(super) fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("\"***@{}\"", host.escape_debug()),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in [
            "http://127.0.0.1:6334",
            "https://example.org",
            "http://[::1]:6334",
            "https://a-b.example.org:443/qdrant/x",
            "http://qdrant_1:6334",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        let shouted = Address::parse("http://LOCALHOST:6334/").unwrap();
        assert_eq!(shouted.to_string(), "http://localhost:6334");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "127.0.0.1:6334",
            "localhost",
            "grpc://localhost",
            "ftp://a",
            "http://",
            "https:///x",
            "http://:6334",
            "http://a:0",
            "http://a:65536",
            "http://a:port",
            "http://a:",
            "http://user:secret@a",
            "http://a b",
            "http://a?x",
            "http://a#x",
            "http://[::1",
            "http://::1",
            "http://[1.2.3.4]",
            "http://a]b",
            "http://-a",
            "http://[::1]x",
            "http://é.org",
            " http://a",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_secret_travels_only_in_private() {
        for (text, private) in [
            ("http://127.0.0.1:6334", true),
            ("http://127.9.9.9", true),
            ("http://localhost", true),
            ("http://[::1]:6334", true),
            ("https://example.org", true),
            ("http://example.org", false),
            ("http://192.168.1.2:6334", false),
            ("http://localhost.example.org", false),
            ("http://0.0.0.0:6334", false),
        ] {
            assert_eq!(
                Address::parse(text).unwrap().is_private(),
                private,
                "{text}"
            );
        }
    }

    #[test]
    fn spellings_of_one_server_are_one() {
        let canonical = |text| Address::parse(text).unwrap().canonical();
        assert_eq!(
            canonical("http://localhost:6334"),
            canonical("http://127.0.0.1:6334/")
        );
        assert_eq!(
            canonical("https://Example.org"),
            canonical("https://example.org:443")
        );
        assert_ne!(canonical("http://a:6334"), canonical("http://a:6335"));
        assert_ne!(canonical("http://a:6334"), canonical("http://b:6334"));
    }

    #[test]
    fn the_user_part_is_never_shown() {
        assert_eq!(
            without_user("http://ana:secret@example.org"),
            "\"***@example.org\""
        );
        assert_eq!(without_user("htp:/example"), "\"htp:/example\"");
    }
}
