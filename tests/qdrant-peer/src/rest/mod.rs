//! The REST interface, as far as snapshots, aliases and clusters go: real paths, real answers.
//!
//! A result comes as `{"result": ..., "status": "ok", "time": ...}`, a failure as `{"status": {"error": ...}}` with the
//! words of the gRPC interface and the HTTP status that goes with them. A refused key is told in plain text.

mod call;
mod collections;
mod download;
mod form;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::error::{Answer, bad_request, internal};
use crate::gate::Gate;
use crate::store::Store;
use call::{Call, Kind};

/// What the interface needs of the peer.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    store: Arc<Store>,
    gate: Gate,
}

impl Rest {
    pub(crate) fn new(store: Arc<Store>, gate: Gate) -> Self {
        Self { store, gate }
    }
}

pub(crate) fn router(rest: Rest) -> Router {
    Router::new().fallback(answer).with_state(rest)
}

async fn answer(State(rest): State<Rest>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(call) = Call::read(&parts) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let method = call.kind.method();
    if let Err(refused) = rest.gate.enter(method, &parts.headers).await {
        return failure(&refused);
    }
    let answer = match Received::read(&rest.store, &call, body).await {
        Ok(received) => {
            let store = Arc::clone(&rest.store);
            tokio::task::spawn_blocking(move || act(&store, &call, received))
                .await
                .map_err(internal)
                .flatten()
        }
        Err(broken) => Err(broken),
    };
    match rest.gate.leave(method).and(answer) {
        Ok(response) => response,
        Err(failed) => failure(&failed),
    }
}

/// What came with a request.
enum Received {
    Bytes(Bytes),
    Form(form::Part),
}

impl Received {
    async fn read(store: &Store, call: &Call, body: Body) -> Answer<Self> {
        if call.kind == Kind::UploadSnapshot {
            return snapshots::receive(store, call, body).await.map(Self::Form);
        }
        let bytes = to_bytes(body, usize::MAX).await;
        bytes.map(Self::Bytes).map_err(bad_request)
    }
}

fn act(store: &Store, call: &Call, received: Received) -> Answer<Response> {
    let body = match received {
        Received::Form(part) => return Ok(done(&snapshots::upload(store, call, part)?)),
        Received::Bytes(body) => body,
    };
    if call.kind == Kind::DownloadSnapshot {
        let path = store.snapshot_path(&call.collection, &call.snapshot)?;
        return download::response(&path, store.faults.damage());
    }
    if call.kind == Kind::Version {
        let version = &store.settings.version;
        return Ok(json_response(
            StatusCode::OK,
            &json!({"title": "qdrant - vector search engine", "version": version}),
        ));
    }
    let result = match call.kind {
        Kind::Version | Kind::DownloadSnapshot => unreachable!("answered above"),
        Kind::Cluster => Ok(collections::cluster(store)),
        Kind::CollectionCluster => collections::shards(store, &call.collection),
        Kind::GetCollection => collections::get(store, &call.collection),
        Kind::DeleteCollection => store.delete(&call.collection).map(Value::from),
        Kind::ListAliases => Ok(collections::aliases(store, call.of_collection())),
        Kind::UpdateAliases => collections::update_aliases(store, &body),
        Kind::CreateSnapshot => snapshots::create(store, &call.collection),
        Kind::ListSnapshots => snapshots::list(store, &call.collection),
        Kind::DeleteSnapshot => store
            .delete_snapshot(&call.collection, &call.snapshot)
            .map(|()| Value::from(true)),
        Kind::RecoverSnapshot => snapshots::recover(store, &call.collection, &body),
        Kind::UploadSnapshot => unreachable!("comes as a form"),
    }?;
    Ok(done(&result))
}

fn done(result: &Value) -> Response {
    json_response(
        StatusCode::OK,
        &json!({"result": result, "status": "ok", "time": 0.0}),
    )
}

fn failure(status: &Status) -> Response {
    let code = match status.code() {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => {
            return (StatusCode::UNAUTHORIZED, status.message().to_owned()).into_response();
        }
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
        Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    json_response(
        code,
        &json!({"status": {"error": status.message()}, "time": 0.0}),
    )
}

fn json_response(code: StatusCode, body: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (code, headers, Body::from(body.to_string())).into_response()
}

/// The pairs of a query string.
fn query(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
