//! Requests to the REST interface: bounded in time, given up when a stop is requested, and small in memory.
//!
//! Mechanics: every request has an agent of its own and connections are not kept, so that a server which restarted is
//! not met on a dead one. A second thread looks at the stop flag while a request is out, and shuts the agent down.
//! What is bounded is the silence of the server, not the length of a transfer: a large copy may take its time.
//!
//! Policy: redirects are not followed and no proxy is used, since either would show the API key to somebody else.
//! Answers are read up to a bound. Errors say what the server said of the request, never a key.

use std::io::{self, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Method, Request, Response, header};
use ureq::{Agent, Body, SendBody, Timeout};

use crate::clock::{self, Stopwatch};
use crate::config;
use crate::stop::Stop;
use crate::store::copies::CopyError;
use crate::store::vectors::VectorError;
use crate::store::vectors::qdrant::calls::{BACKOFF, LOOK, shown, without_credentials};
use crate::store::vectors::qdrant::scheme;

/// The longest silence while the server makes a snapshot or reads one, which it does before it answers.
const WORK: Duration = Duration::from_hours(1);
/// Bytes of an answer that are read.
const MAX_ANSWER: u64 = 16 << 20;
/// Bytes of a refusal that are read.
const MAX_REFUSAL: u64 = 64 << 10;

/// How long a request may be out, and whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// A question: given up at once on a stop, repeated when that can help.
    Question,
    /// What the server works on and should not be left alone with: a stop waits for its end as long as for any answer.
    Work,
    /// Taking something of ours away again: not given up on a stop that was requested before, and repeated.
    Cleaning,
}

/// One request, but for its body.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    /// What is being done, for messages.
    pub(super) call: &'static str,
    pub(super) method: Method,
    /// Path and query, escaped.
    pub(super) path: &'a str,
    pub(super) patience: Patience,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// What was asked about is not there, in the words of the server.
    NotFound(String),
    /// Anything else.
    Other(VectorError),
}

/// How one attempt ended.
enum Miss {
    Transport(ureq::Error),
    Status(u16, String),
    /// An answer that is none.
    Malformed(String),
    /// The server did not wait for the end.
    NotCompleted(String),
}

/// The way to one REST interface.
#[derive(Clone)]
pub(super) struct Http {
    /// The address, without a slash at its end.
    base: String,
    api_key: Option<String>,
    timeout: Duration,
    stop: Stop,
}

impl Http {
    /// Prepares the way; nothing is sent yet.
    pub(super) fn new(config: &config::Qdrant, stop: &Stop) -> Self {
        Self {
            base: config.rest_url.trim_end_matches('/').to_owned(),
            api_key: config.api_key.clone(),
            timeout: config.timeout,
            stop: stop.clone(),
        }
    }

    /// The way to another node, with the same key.
    pub(super) fn at(&self, base: String) -> Self {
        Self {
            base,
            ..self.clone()
        }
    }

    /// The same way, on which no stop is heard: for what has to be taken away all the same.
    pub(super) fn undisturbed(&self) -> Self {
        Self {
            stop: Stop::default(),
            ..self.clone()
        }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn has_key(&self) -> bool {
        self.api_key.is_some()
    }

    /// Asks, and returns the `result` of the answer.
    pub(super) fn ask(&self, ask: &Ask<'_>, body: Option<&Value>) -> Result<Value, Failure> {
        let answer = self.ask_whole(ask, body)?;
        Ok(answer.get("result").cloned().unwrap_or(Value::Null))
    }

    /// Asks, and returns the answer without taking it apart.
    pub(super) fn ask_whole(&self, ask: &Ask<'_>, body: Option<&Value>) -> Result<Value, Failure> {
        let body = body.map(|body| body.to_string().into_bytes());
        let mut backoff = BACKOFF.into_iter();
        loop {
            let attempt = self.watched(ask.patience, |agent| {
                let response = match &body {
                    Some(body) => self.send(agent, ask, json_headers(), body.as_slice()),
                    // A POST without a body says so.
                    None if ask.method == Method::POST => {
                        self.send(agent, ask, Vec::new(), [].as_slice())
                    }
                    None => self.send(agent, ask, Vec::new(), ()),
                }?;
                read_answer(response)
            });
            match (attempt, backoff.next()) {
                (Ok(answer), _) => return Ok(answer),
                (Err(miss), Some(wait)) if self.may_repeat(ask.patience, &miss) => {
                    clock::pause(wait);
                }
                (Err(miss), _) => return Err(self.explain(ask, miss)),
            }
        }
    }

    /// Asks for something large, and gives it to `take` as it comes, with its length as far as the server says.
    pub(super) fn fetch<T>(
        &self,
        ask: &Ask<'_>,
        take: impl FnOnce(&mut dyn Read, Option<u64>) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        self.watched(ask.patience, |agent| {
            let response = self
                .send(agent, ask, Vec::new(), ())
                .map_err(|miss| VectorError::from(self.explain(ask, miss)))?;
            let length = response.body().content_length();
            take(&mut response.into_body().into_reader(), length)
        })
    }

    /// Why reading what [`Http::fetch`] gives failed.
    pub(super) fn broken_off(&self, ask: &Ask<'_>, error: io::Error) -> VectorError {
        self.explain(ask, Miss::Transport(ureq::Error::from(error)))
            .into()
    }

    /// Sends `contents`, `length` bytes of them, with these headers.
    pub(super) fn push(
        &self,
        ask: &Ask<'_>,
        content_type: &str,
        contents: &mut dyn Read,
        length: u64,
    ) -> Result<Value, Failure> {
        let headers = vec![
            (header::CONTENT_TYPE, content_type.to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
        ];
        self.watched(ask.patience, |agent| {
            let body = SendBody::from_reader(contents);
            read_answer(self.send(agent, ask, headers, body)?)
        })
        .map_err(|miss| self.explain(ask, miss))
    }

    fn send(
        &self,
        agent: &Agent,
        ask: &Ask<'_>,
        headers: Vec<(header::HeaderName, String)>,
        body: impl ureq::AsSendBody,
    ) -> Result<Response<Body>, Miss> {
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(format!("{}{}", self.base, ask.path));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(key) = &self.api_key {
            request = request.header("api-key", key);
        }
        let request = request
            .body(body)
            .map_err(|error| Miss::Transport(ureq::Error::Http(error)))?;
        let request = agent
            .configure_request(request)
            .timeout_per_read(Some(self.silence(ask.patience)))
            .build();
        let response = agent.run(request).map_err(Miss::Transport)?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(Miss::Status(
            response.status().as_u16(),
            refusal(response.into_body()),
        ))
    }

    /// Does `work` with an agent that stops working when a stop is requested.
    fn watched<T>(&self, patience: Patience, work: impl FnOnce(&Agent) -> T) -> T {
        let agent = self.agent();
        thread::scope(|scope| {
            let (working, done) = mpsc::channel::<()>();
            let watched = agent.clone();
            scope.spawn(move || {
                let mut asked: Option<Stopwatch> = None;
                while done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if !self.stop.is_requested() {
                        continue;
                    }
                    let since = asked.get_or_insert_with(Stopwatch::start);
                    if since.elapsed() >= self.grace(patience) {
                        watched.shutdown();
                        return;
                    }
                }
            });
            let result = work(&agent);
            drop(working);
            result
        })
    }

    fn agent(&self) -> Agent {
        Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(0)
            .timeout_resolve(Some(self.timeout))
            .timeout_connect(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            .build()
            .new_agent()
    }

    fn silence(&self, patience: Patience) -> Duration {
        match patience {
            Patience::Question | Patience::Cleaning => self.timeout,
            Patience::Work => WORK.max(self.timeout),
        }
    }

    /// How long a request goes on after a stop was requested.
    fn grace(&self, patience: Patience) -> Duration {
        match patience {
            Patience::Question => Duration::ZERO,
            Patience::Work | Patience::Cleaning => self.timeout,
        }
    }

    fn may_repeat(&self, patience: Patience, miss: &Miss) -> bool {
        let may = match patience {
            Patience::Question => !self.stop.is_requested(),
            Patience::Work => false,
            Patience::Cleaning => true,
        };
        may && match miss {
            Miss::Transport(_) => true,
            Miss::Status(code, _) => matches!(code, 408 | 429 | 502..=504),
            Miss::Malformed(_) | Miss::NotCompleted(_) => false,
        }
    }

    fn explain(&self, ask: &Ask<'_>, miss: Miss) -> Failure {
        let call = ask.call;
        let url = without_credentials(&self.base);
        let refused = |reason: String| VectorError::Refused { call, reason };
        Failure::Other(match miss {
            Miss::Status(404, said) => return Failure::NotFound(said),
            Miss::Status(401 | 403, _) => VectorError::Unauthorized { url },
            Miss::Status(code, said) if said.is_empty() => refused(format!("HTTP status {code}")),
            Miss::Status(_, said) => refused(said),
            Miss::Malformed(reason) => refused(format!("not an answer of Qdrant: {reason}")),
            Miss::NotCompleted(status) => VectorError::NotCompleted { call, status },
            Miss::Transport(_)
                if self.stop.is_requested() && ask.patience != Patience::Cleaning =>
            {
                VectorError::Interrupted
            }
            Miss::Transport(ureq::Error::Timeout(when))
                if !matches!(when, Timeout::Connect | Timeout::Resolve) =>
            {
                let seconds = self.silence(ask.patience).as_secs();
                VectorError::Timeout { call, seconds }
            }
            Miss::Transport(error) => {
                let reason = transport_reason(&error, &url);
                VectorError::RestUnreachable { url, reason }
            }
        })
    }
}

impl From<Failure> for VectorError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound(what) => Self::Refused {
                call: "looking something up",
                reason: what,
            },
            Failure::Other(error) => error,
        }
    }
}

fn json_headers() -> Vec<(header::HeaderName, String)> {
    vec![(header::CONTENT_TYPE, "application/json".to_owned())]
}

/// The whole JSON of an answer that says it is complete.
fn read_answer(mut response: Response<Body>) -> Result<Value, Miss> {
    let bytes = response
        .body_mut()
        .with_config()
        .limit(MAX_ANSWER)
        .read_to_vec()
        .map_err(Miss::Transport)?;
    let answer: Value =
        serde_json::from_slice(&bytes).map_err(|error| Miss::Malformed(error.to_string()))?;
    match answer.get("status") {
        None => Ok(answer),
        Some(Value::String(status)) if status == "ok" => Ok(answer),
        Some(status) => Err(Miss::NotCompleted(shown(&status.to_string()))),
    }
}

/// What the server says of a request that it refuses; empty when it says nothing that can be read.
fn refusal(body: Body) -> String {
    let mut bytes = Vec::new();
    let read = body.into_reader().take(MAX_REFUSAL).read_to_end(&mut bytes);
    if read.is_err() {
        return String::new();
    }
    let answer: Option<Value> = serde_json::from_slice(&bytes).ok();
    let error = answer
        .as_ref()
        .and_then(|answer| answer.pointer("/status/error")?.as_str());
    match error {
        Some(error) => shown(error),
        None => shown(&String::from_utf8_lossy(&bytes)),
    }
}

/// Why there is no connection, in words and without the address.
fn transport_reason(error: &ureq::Error, url: &str) -> String {
    let is_of_the_scheme = match error {
        ureq::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Protocol(_) => true,
        _ => false,
    };
    let mistake = is_of_the_scheme.then(|| scheme::mistake(url, &format!("{error:?}")));
    if let Some(mistake) = mistake.flatten() {
        return mistake.to_owned();
    }
    match error {
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::Timeout(_) => "no answer to the connection attempt".to_owned(),
        ureq::Error::HostNotFound => "unknown host".to_owned(),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => "no TLS connection".to_owned(),
        ureq::Error::Protocol(_) => "not an HTTP server".to_owned(),
        _ => "the connection failed".to_owned(),
    }
}
