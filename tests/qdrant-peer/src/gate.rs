//! What stands before every method: the count, the key, the planned faults.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tonic::Status;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

use crate::faults::{Faults, Moment};

/// How often each method was called, whatever came of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<String, u64>>>);

impl Calls {
    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        self.counts().clone()
    }

    fn count(&self, method: &str) {
        *self.counts().entry(method.to_owned()).or_default() += 1;
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gate, as a layer around the whole server.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) calls: Calls,
    pub(crate) faults: Faults,
    pub(crate) api_key: Option<Arc<str>>,
}

impl Gate {
    /// Counts a call, checks its key, keeps it waiting, and fails it if that was planned.
    pub(crate) async fn enter(&self, method: &str, headers: &HeaderMap) -> Result<(), Status> {
        self.calls.count(method);
        self.admit(method, headers)?;
        if let Some(delay) = self.faults.delay(method) {
            tokio::time::sleep(delay).await;
        }
        self.faults
            .strike(method, Moment::Before)
            .map_or(Ok(()), Err)
    }

    /// Loses the answer if that was planned.
    pub(crate) fn leave(&self, method: &str) -> Result<(), Status> {
        self.faults
            .strike(method, Moment::After)
            .map_or(Ok(()), Err)
    }

    /// The server's own check: health needs no key, a bearer token is a key too.
    fn admit(&self, method: &str, headers: &HeaderMap) -> Result<(), Status> {
        let Some(expected) = self.api_key.as_deref() else {
            return Ok(());
        };
        if ["Qdrant/HealthCheck", "Rest/Version"].contains(&method) {
            return Ok(());
        }
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let given = header("api-key")
            .or_else(|| header("authorization").and_then(|value| value.strip_prefix("Bearer ")));
        match given {
            None => Err(Status::unauthenticated(
                "Must provide an API key or an Authorization bearer token",
            )),
            Some(key) if key == expected => Ok(()),
            Some(_) => Err(Status::unauthenticated("Invalid API key or JWT")),
        }
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            gate: self.clone(),
            inner,
        }
    }
}

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Gated<S> {
    gate: Gate,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = self.gate.clone();
        // The clone takes the place of the instance that was polled ready.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let method = method_of(request.uri().path());
            if let Err(failed) = gate.enter(&method, request.headers()).await {
                return Ok(failed.into_http());
            }
            let response = inner.call(request).await?;
            match gate.leave(&method) {
                Err(lost) => Ok(lost.into_http()),
                Ok(()) => Ok(response),
            }
        })
    }
}

/// `/qdrant.Points/Delete` is `Points/Delete`.
fn method_of(path: &str) -> String {
    path.trim_start_matches('/')
        .trim_start_matches("qdrant.")
        .to_owned()
}
