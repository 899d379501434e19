//! The Qdrant of the tests: the peer in this process, or the server that `HYPNOS_TEST_QDRANT_URL` (gRPC) and
//! `HYPNOS_TEST_QDRANT_REST` name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use qdrant_client::Qdrant;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, Distance, FieldType, PointStruct,
    PointsIdsList, ScrollPointsBuilder, SetPayloadPointsBuilder, UpsertPointsBuilder,
    VectorParamsBuilder,
};
use qdrant_peer::Peer;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::Point;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("runtime"));
static PEER: LazyLock<Peer> = LazyLock::new(Peer::start);

/// Where the Qdrant of the tests answers.
pub fn url() -> String {
    real_server("HYPNOS_TEST_QDRANT_URL").unwrap_or_else(|| PEER.url())
}

/// Where its REST interface answers.
pub fn rest_url() -> String {
    let rest = real_server("HYPNOS_TEST_QDRANT_REST");
    match real_server("HYPNOS_TEST_QDRANT_URL") {
        Some(_) => rest.expect("HYPNOS_TEST_QDRANT_REST beside HYPNOS_TEST_QDRANT_URL"),
        None => PEER.rest_url(),
    }
}

/// Whether it is a server that somebody named.
pub fn is_real() -> bool {
    real_server("HYPNOS_TEST_QDRANT_URL").is_some()
}

fn real_server(variable: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "names a real server to test against"
    )]
    std::env::var(variable).ok()
}

pub fn client() -> Qdrant {
    client_of(&url())
}

pub fn client_of(url: &str) -> Qdrant {
    Qdrant::from_url(url)
        .skip_compatibility_check()
        // The machine may be busy with many tests.
        .timeout(std::time::Duration::from_mins(1))
        .build()
        .expect("client")
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// A collection of its own, dropped with its world.
pub struct Collection {
    pub name: String,
    pub url: String,
}

impl Collection {
    pub fn create() -> Self {
        Self::create_at(&url())
    }

    pub fn create_at(url: &str) -> Self {
        let name = format!("hypnos-test-{}", Uuid::now_v7().simple());
        let client = client_of(url);
        block_on(async {
            let vectors = VectorParamsBuilder::new(super::DIM.into(), Distance::Cosine);
            let collection = CreateCollectionBuilder::new(&name).vectors_config(vectors);
            client
                .create_collection(collection)
                .await
                .expect("collection");
            let index =
                CreateFieldIndexCollectionBuilder::new(&name, "namespace", FieldType::Keyword)
                    .wait(true);
            client.create_field_index(index).await.expect("index");
        });
        Self {
            name,
            url: url.to_owned(),
        }
    }

    pub fn put(&self, points: &[(String, i64, Vec<f32>)]) {
        for chunk in points.chunks(500) {
            let points: Vec<PointStruct> = chunk
                .iter()
                .map(|(namespace, id, vector)| {
                    let payload = qdrant_client::Payload::try_from(super::payload(namespace, *id))
                        .expect("payload");
                    PointStruct::new(
                        super::point_id(namespace, *id).to_string(),
                        vector.clone(),
                        payload,
                    )
                })
                .collect();
            let upsert = UpsertPointsBuilder::new(&self.name, points).wait(true);
            block_on(client_of(&self.url).upsert_points(upsert)).expect("upsert");
        }
    }

    /// The other collections whose names begin with the name of this one.
    pub fn beside(&self) -> Vec<String> {
        let listed = block_on(client_of(&self.url).list_collections()).expect("collections");
        let names = listed.collections.into_iter().map(|found| found.name);
        names
            .filter(|name| name.starts_with(&self.name) && *name != self.name)
            .collect()
    }

    /// Adds a text to the payload of a point.
    pub fn say(&self, id: &Uuid, text: &str) {
        let payload = qdrant_client::Payload::try_from(serde_json::json!({"text": text}));
        let set = SetPayloadPointsBuilder::new(&self.name, payload.expect("payload"))
            .points_selector(PointsIdsList {
                ids: vec![id.to_string().into()],
            })
            .wait(true);
        block_on(client_of(&self.url).set_payload(set)).expect("set the payload");
    }

    pub fn all(&self) -> BTreeMap<Uuid, Point> {
        let client = client_of(&self.url);
        let mut points = BTreeMap::new();
        let mut offset = None;
        loop {
            let mut scroll = ScrollPointsBuilder::new(&self.name)
                .limit(1000)
                .with_payload(true)
                .with_vectors(true);
            if let Some(offset) = offset.take() {
                scroll = scroll.offset::<qdrant_client::qdrant::PointId>(offset);
            }
            let page = block_on(client.scroll(scroll)).expect("scroll");
            for point in page.result {
                let id = format!("{:?}", point.id.as_ref().expect("id").point_id_options);
                let id = id
                    .split('"')
                    .nth(1)
                    .expect("a uuid")
                    .parse()
                    .expect("a uuid");
                let payload: serde_json::Value = point
                    .payload
                    .into_iter()
                    .map(|(key, value)| (key, value.into_json()))
                    .collect();
                let vector = match point
                    .vectors
                    .expect("vectors")
                    .vectors_options
                    .expect("vectors")
                {
                    VectorsOptions::Vector(vector) => match vector.into_vector() {
                        qdrant_client::qdrant::vector_output::Vector::Dense(dense) => dense.data,
                        other => panic!("{other:?}"),
                    },
                    VectorsOptions::Vectors(named) => panic!("{named:?}"),
                };
                let namespace = payload["namespace"].as_str().map(str::to_owned);
                points.insert(
                    id,
                    Point {
                        namespace,
                        payload,
                        vector,
                    },
                );
            }
            match page.next_page_offset {
                Some(next) => offset = Some(next),
                None => return points,
            }
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        // A server that is gone by now has nothing to drop.
        let _ = block_on(client_of(&self.url).delete_collection(&self.name));
    }
}
