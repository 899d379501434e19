//! The HTTP server: three pages that are read, and nothing else.
//!
//! | page | answers |
//! | --- | --- |
//! | `/metrics` | the figures, for Prometheus |
//! | `/healthz` | 200 while the process does its work; 503 and why |
//! | `/readyz` | 200 when the configuration is valid, the stores can be reached and no good night is overdue; 503 and why |
//!
//! No page names a memory, an owner, an id or a path.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::health::Health;
use super::limit::Limited;
use super::nights::Standing;
use super::probe::Probe;
use crate::clock;
use crate::metrics::{self, Metrics};

/// What the pages are made from.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) reach: Arc<Probe<Vec<String>>>,
    pub(super) nights: Arc<Probe<Vec<Standing>>>,
}

/// Serves for as long as the process lives.
pub(super) async fn serve(listener: TcpListener, pages: Pages) {
    if let Err(error) = axum::serve(Limited::new(listener), router(pages)).await {
        tracing::error!(%error, "the HTTP server has ended");
    }
}

fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(figures))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(pages)
        .layer(axum::middleware::map_response(close))
}

/// One request a connection, and no page is kept by anybody on the way.
async fn close(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn figures(State(pages): State<Pages>) -> impl IntoResponse {
    let kind: [(HeaderName, &str); 1] = [(CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (kind, pages.metrics.render(clock::now()))
}

async fn healthz(State(pages): State<Pages>) -> Response {
    answer(
        pages
            .health
            .ailment()
            .map(str::to_owned)
            .into_iter()
            .collect(),
    )
}

async fn readyz(State(pages): State<Pages>) -> Response {
    let config = pages.health.config();
    let (standings, unreachable) = tokio::join!(
        pages.nights.answer(Arc::clone(&config)),
        pages.reach.answer(config)
    );
    let mut complaints = pages.health.complaints(standings.as_deref(), clock::now());
    let no_answer = || vec!["stores: no answer".to_owned()];
    complaints.extend(unreachable.unwrap_or_else(no_answer));
    answer(complaints)
}

fn answer(mut complaints: Vec<String>) -> Response {
    let status = if complaints.is_empty() {
        complaints.push("ok".to_owned());
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, complaints.join("\n") + "\n").into_response()
}
