//! Calls to the server: bounded in time, retried where that can help, and given up as soon as a stop is requested.
//!
//! Mechanics: a small runtime drives the asynchronous client; every call is raced with a look at the stop flag every
//! [`LOOK`]. What is transient (nobody there, no answer in time, a conflict, a rate limit) is tried again after each of
//! [`BACKOFF`]; every request that hypnos makes may be repeated without harm.
//!
//! Policy: an answer is an answer only when it is whole. Errors carry what the server said of the request, never a key,
//! and never the address with credentials in it.

use std::error::Error as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use qdrant_client::config::QdrantConfig;
use qdrant_client::{Qdrant as Client, QdrantError};
use tokio::runtime::Runtime;
use tonic::{Code, Status};

use super::scheme;
use crate::clock::Stopwatch;
use crate::memory::printable;
use crate::store::vectors::VectorError;
use crate::{config, stop::Stop};

/// Time between two looks at the stop flag.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Waits before the second and every further attempt.
pub(super) const BACKOFF: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_600),
];
/// The longest wait that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);
/// Characters of a server's message that are passed on.
const MAX_REASON: usize = 300;

/// How the client begins the message of a status that it made itself.
const CONNECT_FAILED: &str = "Failed to connect to";
/// What is said of a connection that failed over TLS.
const NO_TLS: &str = "no TLS connection";
/// What the errors of the transport contain, and what that means; the first that fits is taken.
const CONNECTION_REASONS: [(&str, &str); 10] = [
    ("ConnectionRefused", "connection refused"),
    ("onnection refused", "connection refused"),
    ("dns error", "unknown host"),
    ("InvalidCertificate", "the TLS certificate is not valid"),
    (
        "invalid peer certificate",
        "the TLS certificate is not valid",
    ),
    ("TLS", NO_TLS),
    ("InvalidContentType", NO_TLS),
    ("Elapsed", "no answer to the connection attempt"),
    ("timed out", "no answer to the connection attempt"),
    ("Unreachable", "no route to the host"),
];

/// The way to one collection.
pub(super) struct Calls {
    line: Arc<Line>,
    collection: String,
}

/// The connection to a server, which the ways to all its collections share.
struct Line {
    runtime: Runtime,
    config: QdrantConfig,
    client: Mutex<Client>,
    /// The address as it may be shown.
    url: String,
    timeout: Duration,
    stop: Stop,
}

/// Why a call failed, for those who can make it smaller.
#[derive(Debug)]
pub(super) enum Failure {
    /// Request or answer were larger than someone on the way lets through.
    TooLarge(VectorError),
    /// Anything else.
    Other(VectorError),
}

impl From<Failure> for VectorError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooLarge(error) | Failure::Other(error) => error,
        }
    }
}

impl From<VectorError> for Failure {
    fn from(error: VectorError) -> Self {
        Self::Other(error)
    }
}

/// How one attempt ended without an answer.
enum Miss {
    Stopped,
    TooLate,
    Status(Status, Option<Duration>),
    Client(String),
}

impl Calls {
    /// Prepares the way; nothing is sent yet.
    pub(super) fn new(config: &config::Qdrant, stop: Stop) -> Result<Self, VectorError> {
        let url = without_credentials(&config.url);
        let is_header_value = |key: &String| key.bytes().all(|byte| (32..127).contains(&byte));
        if !config.api_key.as_ref().is_none_or(is_header_value) {
            // The client would print such a key in its error.
            return Err(VectorError::Unauthorized { url });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("qdrant")
            .enable_all()
            .build()
            .map_err(|error| VectorError::Unreachable {
                url: url.clone(),
                reason: format!("start the client: {error}"),
            })?;
        // The bound of the client itself only has to come after ours, which knows how to say what took so long.
        let mut client_config = QdrantConfig::from_url(&config.url)
            .skip_compatibility_check()
            .timeout(config.timeout + Duration::from_secs(5))
            .connect_timeout(config.timeout)
            .api_key(config.api_key.clone());
        client_config.set_pool_size(1);
        let client =
            Client::new(client_config.clone()).map_err(|error| VectorError::Unreachable {
                url: url.clone(),
                reason: format!(
                    "not an address: {}",
                    without_credentials(&error.to_string())
                ),
            })?;
        let line = Line {
            runtime,
            config: client_config,
            client: Mutex::new(client),
            url,
            timeout: config.timeout,
            stop,
        };
        Ok(Self {
            line: Arc::new(line),
            collection: config.collection.clone(),
        })
    }

    /// The way to another collection of the same server, on the same connection.
    pub(super) fn to(&self, collection: &str) -> Self {
        Self {
            line: Arc::clone(&self.line),
            collection: collection.to_owned(),
        }
    }

    pub(super) fn collection(&self) -> &str {
        &self.collection
    }

    /// Makes a call, again if need be, and returns its answer.
    pub(super) fn run<T, F>(
        &self,
        call: &'static str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, QdrantError>>,
    {
        let mut backoff = BACKOFF.into_iter();
        loop {
            let client = self.client();
            let miss = match self.line.runtime.block_on(self.attempt(request(client))) {
                Ok(answer) => return Ok(answer),
                Err(miss) => miss,
            };
            match backoff.next() {
                Some(wait) if miss.is_transient() => {
                    if miss.is_of_the_connection() {
                        self.reconnect();
                    }
                    self.wait(wait.max(miss.retry_after()))?;
                }
                _ => return Err(self.explain(call, miss)),
            }
        }
    }

    /// Waits, unless a stop is requested meanwhile.
    pub(super) fn wait(&self, duration: Duration) -> Result<(), VectorError> {
        let sleep = async {
            tokio::time::sleep(duration).await;
            Ok(())
        };
        self.line
            .runtime
            .block_on(self.race(sleep, None))
            .map_err(|_| VectorError::Interrupted)
    }

    async fn attempt<T>(
        &self,
        request: impl Future<Output = Result<T, QdrantError>>,
    ) -> Result<T, Miss> {
        let request = async { request.await.map_err(Miss::from) };
        self.race(request, Some(self.line.timeout)).await
    }

    /// Waits for `work`, but no longer than `bound`, and not after a stop was requested.
    async fn race<T>(
        &self,
        work: impl Future<Output = Result<T, Miss>>,
        bound: Option<Duration>,
    ) -> Result<T, Miss> {
        let watch = Stopwatch::start();
        let mut work = pin!(work);
        loop {
            if self.line.stop.is_requested() {
                return Err(Miss::Stopped);
            }
            let left = bound.map_or(LOOK, |bound| bound.saturating_sub(watch.elapsed()));
            if left.is_zero() {
                return Err(Miss::TooLate);
            }
            if let Ok(done) = tokio::time::timeout(left.min(LOOK), work.as_mut()).await {
                return done;
            }
        }
    }

    /// Drops the connection, which may be dead without knowing it, so that the next call makes a new one.
    fn reconnect(&self) {
        if let Ok(client) = Client::new(self.line.config.clone()) {
            let held = self.line.client.lock();
            *held.unwrap_or_else(PoisonError::into_inner) = client;
        }
    }

    fn client(&self) -> Client {
        let held = self.line.client.lock();
        held.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn explain(&self, call: &'static str, miss: Miss) -> Failure {
        let status = match miss {
            Miss::Stopped => return VectorError::Interrupted.into(),
            Miss::TooLate => return self.timed_out(call).into(),
            Miss::Client(reason) => return VectorError::Refused { call, reason }.into(),
            Miss::Status(status, _) => status,
        };
        let said = status.message();
        let url = self.line.url.clone();
        let error = if is_of_the_connection(&status) {
            let reason = connection_reason(&status, &url);
            VectorError::Unreachable { url, reason }
        } else if said.contains("grpc-status header missing") {
            VectorError::Unreachable {
                url,
                reason: "what answers there does not speak gRPC".to_owned(),
            }
        } else if let Some(key) = quoted_after(said, "Index required but not found for ") {
            VectorError::MissingIndex { key }
        } else if said.contains("Not existing vector name") {
            VectorError::Missing {
                what: format!("the configured vector of collection {:?}", self.collection),
            }
        } else {
            match status.code() {
                Code::Unauthenticated | Code::PermissionDenied => VectorError::Unauthorized { url },
                Code::NotFound => self.missing_collection(),
                Code::DeadlineExceeded => self.timed_out(call),
                _ => VectorError::Refused {
                    call,
                    reason: shown(said),
                },
            }
        };
        if is_too_large(&status) {
            Failure::TooLarge(error)
        } else {
            Failure::Other(error)
        }
    }

    fn timed_out(&self, call: &'static str) -> VectorError {
        VectorError::Timeout {
            call,
            seconds: self.line.timeout.as_secs(),
        }
    }

    /// Names the collections that there are, where the key allows to ask.
    fn missing_collection(&self) -> VectorError {
        let client = self.client();
        let list = async move { client.list_collections().await };
        let others = match self.line.runtime.block_on(self.attempt(list)) {
            Ok(answer) => {
                let mut names: Vec<_> = answer
                    .collections
                    .into_iter()
                    .map(|collection| format!("{:?}", collection.name))
                    .collect();
                names.sort();
                match names.len() {
                    0 => " (the server has none)".to_owned(),
                    _ => format!(" (the server has {})", names.join(", ")),
                }
            }
            Err(_) => String::new(),
        };
        VectorError::Missing {
            what: format!("collection {:?}{others}", self.collection),
        }
    }
}

impl From<QdrantError> for Miss {
    fn from(error: QdrantError) -> Self {
        match error {
            QdrantError::ResponseError { status } => Self::Status(status, None),
            QdrantError::ResourceExhaustedError {
                status,
                retry_after_seconds,
            } => Self::Status(status, Some(Duration::from_secs(retry_after_seconds))),
            other => Self::Client(shown(&other.to_string())),
        }
    }
}

impl Miss {
    fn is_transient(&self) -> bool {
        match self {
            Self::Stopped | Self::Client(_) => false,
            Self::TooLate => true,
            Self::Status(status, _) => {
                let code = matches!(
                    status.code(),
                    Code::Unavailable
                        | Code::DeadlineExceeded
                        | Code::Aborted
                        | Code::ResourceExhausted
                );
                (code && !is_too_large(status)) || is_of_the_connection(status)
            }
        }
    }

    fn is_of_the_connection(&self) -> bool {
        match self {
            Self::TooLate => true,
            Self::Status(status, _) => is_of_the_connection(status),
            Self::Stopped | Self::Client(_) => false,
        }
    }

    fn retry_after(&self) -> Duration {
        match self {
            Self::Status(_, Some(asked)) => (*asked).min(MAX_RETRY_AFTER),
            _ => Duration::ZERO,
        }
    }
}

/// Whether the status was made on this side, because the connection failed: only then does it have a cause.
fn is_of_the_connection(status: &Status) -> bool {
    status.code() == Code::Unavailable
        || status.message().starts_with(CONNECT_FAILED)
        || (status.source().is_some() && !is_too_large(status))
}

/// Whether someone on the way found the message too large, or strict mode the page.
fn is_too_large(status: &Status) -> bool {
    let said = status.message();
    let is_message = matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted)
        && said.contains("message")
        && said.contains("large");
    is_message || said.starts_with("Limit exceeded") || said.contains(": Limit exceeded")
}

/// Why there is no connection, in words, without the address that the message of the client has in it.
fn connection_reason(status: &Status, url: &str) -> String {
    let mut told = status.message().to_owned();
    let mut cause = status.source();
    if cause.is_none() && !told.starts_with(CONNECT_FAILED) {
        return shown(&told);
    }
    while let Some(error) = cause {
        told.push_str(&error.to_string());
        cause = error.source();
    }
    let known = CONNECTION_REASONS
        .into_iter()
        .find(|(sign, _)| told.contains(sign));
    // Who refuses, or is not there, speaks nothing.
    let is_answered = known.is_none_or(|(_, reason)| reason == NO_TLS);
    let mistake = is_answered.then(|| scheme::mistake(url, &told)).flatten();
    mistake
        .or(known.map(|(_, reason)| reason))
        .unwrap_or("the connection failed")
        .to_owned()
}

/// The text in double quotes that follows `start`.
fn quoted_after(said: &str, start: &str) -> Option<String> {
    let (_, rest) = said.split_once(start)?;
    let rest = rest.strip_prefix('"')?;
    let (quoted, _) = rest.split_once('"')?;
    Some(shown(quoted))
}

/// What a server said, fit to be shown.
pub(super) fn shown(said: &str) -> String {
    printable(said).chars().take(MAX_REASON).collect()
}

/// An address without `user:password@`.
pub(super) fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_credentials() {
        for (url, shown) in [
            ("http://127.0.0.1:6334", "http://127.0.0.1:6334"),
            ("https://me:secret@host:1/p?q=a@b", "https://host:1/p?q=a@b"),
            ("https://host/me@there", "https://host/me@there"),
            ("host:6334", "host:6334"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn sizes_are_told_from_rate_limits() {
        for (code, message, expected) in [
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 5 bytes",
                true,
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max",
                true,
            ),
            (
                Code::InvalidArgument,
                "Bad request: Limit exceeded 2000 > 100 for \"limit\"",
                true,
            ),
            (Code::ResourceExhausted, "Rate limiting exceeded", false),
            (Code::OutOfRange, "no such shard", false),
            (Code::Internal, "message too large", false),
        ] {
            let status = Status::new(code, message);
            assert_eq!(is_too_large(&status), expected, "{message}");
        }
    }

    #[test]
    fn strict_mode_names_the_key() {
        let said = r#"Bad request: Index required but not found for "meta.ns" of one of the following types"#;
        let start = "Index required but not found for ";
        assert_eq!(quoted_after(said, start).as_deref(), Some("meta.ns"));
        assert_eq!(quoted_after("Index required", start), None);
    }
}
