//! A store whose points are its rows: a collection with payloads of any form, and hypnos on it.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use qdrant_client::Payload;
use qdrant_client::qdrant::vectors_config::Config as VectorsConfig;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::{
    CreateCollection, CreateFieldIndexCollectionBuilder, DeletePointsBuilder, Distance, FieldType,
    NamedVectors, PointStruct, PointsIdsList, ScrollPointsBuilder, SparseVectorConfig,
    SparseVectorParams, UpsertPointsBuilder, Vector, VectorParams, VectorParamsMap, Vectors,
};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use super::qdrant::{block_on, client_of};
use super::{DIM, Output, hypnos, write};

/// A point to be put: its id, payload, dense vector, and sparse one.
#[derive(Debug, Clone)]
pub struct NewPoint {
    pub id: String,
    pub payload: Value,
    pub dense: Vec<f32>,
    pub sparse: Option<(Vec<u32>, Vec<f32>)>,
}

impl NewPoint {
    pub fn new(id: impl Into<String>, payload: Value, dense: Vec<f32>) -> Self {
        Self {
            id: id.into(),
            payload,
            dense,
            sparse: None,
        }
    }
}

/// Everything of every point, as text, by id.
pub type Whole = BTreeMap<String, String>;

pub struct PointStore {
    pub dir: TempDir,
    pub config: String,
    pub url: String,
    pub rest_url: String,
    /// Every collection that this world has made.
    pub collections: Vec<String>,
}

impl PointStore {
    /// An empty collection of any name with, beside the unnamed vector, a sparse one if wanted.
    pub fn create_any(&mut self, sparse: Option<&str>) {
        let name = format!("points-{}", Uuid::now_v7().simple());
        self.create(&name, DIM.into(), sparse);
    }

    /// A store without a collection, on this server.
    pub fn at(url: &str, rest_url: &str) -> Self {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("tmp")).expect("folder");
        Self {
            dir,
            config: String::new(),
            url: url.to_owned(),
            rest_url: rest_url.to_owned(),
            collections: Vec::new(),
        }
    }

    /// The collection of the memories.
    pub fn collection(&self) -> &str {
        &self.collections[0]
    }

    pub fn create(&mut self, name: &str, dim: u64, sparse: Option<&str>) {
        let params = VectorParams {
            size: dim,
            distance: Distance::Cosine.into(),
            ..VectorParams::default()
        };
        let sparse = sparse.map(|name| SparseVectorConfig {
            map: HashMap::from([(name.to_owned(), SparseVectorParams::default())]),
        });
        let request = CreateCollection {
            collection_name: name.to_owned(),
            vectors_config: Some(qdrant_client::qdrant::VectorsConfig {
                config: Some(VectorsConfig::Params(params)),
            }),
            sparse_vectors_config: sparse,
            ..CreateCollection::default()
        };
        block_on(client_of(&self.url).create_collection(request)).expect("collection");
        self.collections.push(name.to_owned());
    }

    /// A collection whose dense vectors have names.
    pub fn create_named(&mut self, name: &str, dim: u64, vectors: &[&str]) {
        let params = VectorParams {
            size: dim,
            distance: Distance::Cosine.into(),
            ..VectorParams::default()
        };
        let map = vectors.iter().map(|name| ((*name).to_owned(), params));
        let config = VectorsConfig::ParamsMap(VectorParamsMap { map: map.collect() });
        let request = CreateCollection {
            collection_name: name.to_owned(),
            vectors_config: Some(qdrant_client::qdrant::VectorsConfig {
                config: Some(config),
            }),
            ..CreateCollection::default()
        };
        block_on(client_of(&self.url).create_collection(request)).expect("collection");
        self.collections.push(name.to_owned());
    }

    /// Puts points that have their vector under each of some names.
    pub fn put_named(&self, collection: &str, points: &[NewPoint], vectors: &[&str]) {
        let named = |new: &NewPoint| {
            let named = vectors.iter().fold(NamedVectors::default(), |named, name| {
                named.add_vector(*name, Vector::new_dense(new.dense.clone()))
            });
            let payload = Payload::try_from(new.payload.clone()).expect("payload");
            PointStruct::new(new.id.clone(), named, payload)
        };
        let points: Vec<PointStruct> = points.iter().map(named).collect();
        let upsert = UpsertPointsBuilder::new(collection, points).wait(true);
        block_on(client_of(&self.url).upsert_points(upsert)).expect("upsert");
    }

    pub fn index(&self, collection: &str, key: &str) {
        let index = CreateFieldIndexCollectionBuilder::new(collection, key, FieldType::Keyword);
        block_on(client_of(&self.url).create_field_index(index.wait(true))).expect("index");
    }

    /// Writes the configuration: `rows` is what `[store.rows]` says beside its kind, `rest` what comes after.
    pub fn configure(&mut self, rows: &str, rest: &str) -> &mut Self {
        self.config = format!(
            "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n[[store]]\nname = \"agent\"\n\
             [store.rows]\n{rows}\n[store.vectors]\nkind = \"qdrant\"\nurl = \"{}\"\nrest_url = \"{}\"\n\
             collection = \"{}\"\n{rest}\n",
            self.url,
            self.rest_url,
            self.collection()
        );
        write(&self.dir.path().join("hypnos.toml"), &self.config);
        self
    }

    pub fn put(&self, collection: &str, points: &[NewPoint]) {
        for chunk in points.chunks(200) {
            let points: Vec<PointStruct> = chunk.iter().map(point).collect();
            let upsert = UpsertPointsBuilder::new(collection, points).wait(true);
            block_on(client_of(&self.url).upsert_points(upsert)).expect("upsert");
        }
    }

    pub fn delete(&self, collection: &str, ids: &[&str]) {
        let ids = PointsIdsList {
            ids: ids.iter().map(|id| id.to_string().into()).collect(),
        };
        let delete = DeletePointsBuilder::new(collection).points(ids).wait(true);
        block_on(client_of(&self.url).delete_points(delete)).expect("delete");
    }

    /// Everything of every point of a collection.
    pub fn whole(&self, collection: &str) -> Whole {
        let client = client_of(&self.url);
        let mut whole = BTreeMap::new();
        let mut offset = None;
        loop {
            let mut scroll = ScrollPointsBuilder::new(collection)
                .limit(1000)
                .with_payload(true)
                .with_vectors(true);
            if let Some(offset) = offset.take() {
                scroll = scroll.offset::<qdrant_client::qdrant::PointId>(offset);
            }
            let page = block_on(client.scroll(scroll)).expect("scroll");
            for point in page.result {
                let id = format!("{:?}", point.id.as_ref().expect("id").point_id_options);
                let id = id.split(['"', '(', ')']).rfind(|part| part.len() > 1);
                let id = id.expect("an id").to_owned();
                let mut payload: Value = point
                    .payload
                    .into_iter()
                    .map(|(key, value)| (key, value.into_json()))
                    .collect();
                payload.sort_all_objects();
                let vectors: BTreeMap<String, String> =
                    match point.vectors.and_then(|vectors| vectors.vectors_options) {
                        None => BTreeMap::new(),
                        Some(VectorsOptions::Vector(one)) => {
                            BTreeMap::from([(String::new(), format!("{one:?}"))])
                        }
                        Some(VectorsOptions::Vectors(named)) => named
                            .vectors
                            .into_iter()
                            .map(|(name, vector)| (name, format!("{vector:?}")))
                            .collect(),
                    };
                whole.insert(id, format!("{payload} {vectors:?}"));
            }
            match page.next_page_offset {
                Some(next) => offset = Some(next),
                None => return whole,
            }
        }
    }

    /// Everything of every memory.
    pub fn memories(&self) -> Whole {
        self.whole(self.collection())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = hypnos();
        command
            .arg("--config")
            .arg(self.dir.path().join("hypnos.toml"))
            .args(args)
            .env("HYPNOS_TEST_CLOCK", self.dir.path().join("clock"))
            .env("TMPDIR", self.dir.path().join("tmp"))
            .current_dir(self.dir.path());
        command
    }

    /// What hypnos has left among the temporary files.
    pub fn left_in_tmp(&self) -> usize {
        let left = std::fs::read_dir(self.dir.path().join("tmp"));
        left.expect("folder").count()
    }

    /// Moves the clock of every command from here on, in seconds from the true time.
    pub fn shift_clock(&self, seconds: i64) {
        write(&self.dir.path().join("clock"), &seconds.to_string());
    }

    #[must_use = "say which exit code it should have"]
    pub fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    #[must_use = "say which exit code it should have"]
    pub fn night(&self) -> Output {
        self.run(&["--run-now", "--json"])
    }

    #[must_use = "say which exit code it should have"]
    pub fn night_with(&self, failpoints: &str) -> Output {
        Output::of(
            self.command(&["--run-now", "--json"])
                .env("FAILPOINTS", failpoints),
        )
    }
}

impl Drop for PointStore {
    fn drop(&mut self) {
        for name in &self.collections {
            // A server that is gone by now has nothing to drop.
            let _ = block_on(client_of(&self.url).delete_collection(name));
        }
    }
}

fn point(new: &NewPoint) -> PointStruct {
    let payload = Payload::try_from(new.payload.clone()).expect("payload");
    let vectors: Vectors = match &new.sparse {
        None => new.dense.clone().into(),
        Some((indices, values)) => NamedVectors::default()
            .add_vector("", Vector::new_dense(new.dense.clone()))
            .add_vector("bm25", Vector::new_sparse(indices.clone(), values.clone()))
            .into(),
    };
    match new.id.parse::<u64>() {
        Ok(number) => PointStruct::new(number, vectors, payload),
        Err(_) => PointStruct::new(new.id.clone(), vectors, payload),
    }
}
