//! A site: a row database and a Qdrant of its own, as an application leaves them, and nights over them that are as far
//! apart as a test says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use qdrant_client::qdrant::{
    CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, Distance, FieldType, PointStruct,
    UpsertPointsBuilder, VectorParamsBuilder,
};
use qdrant_peer::Peer;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use super::qdrant::{Collection, block_on, client_of};
use super::{Output, Point, dump, hypnos, limited, open, write};

/// Every point of every collection.
pub type Everything = BTreeMap<String, BTreeMap<Uuid, Point>>;

pub struct Site {
    pub dir: TempDir,
    pub peer: Peer,
    rows: &'static str,
}

impl Site {
    /// A site whose rows are in a database of this name, made by these statements. Its only store is of a preset, with
    /// `more` in the configuration.
    pub fn new(rows: &'static str, ddl: &str, preset: &str, more: &str) -> Self {
        let site = Self {
            dir: tempfile::tempdir().unwrap(),
            peer: Peer::start(),
            rows,
        };
        site.rows()
            .execute_batch(&format!("PRAGMA journal_mode = WAL;\n{ddl}"))
            .unwrap();
        site.at(0);
        site.configure(preset, more);
        site
    }

    /// Writes the configuration anew.
    pub fn configure(&self, preset: &str, more: &str) {
        let config = format!(
            "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n[pass.review]\nenabled = false\n\
             [pass.contradictions]\nenabled = false\n[pass.snapshot]\nenabled = false\n\
             [[store]]\nname = \"agent\"\n[store.rows]\npath = \"{}\"\npreset = \"{preset}\"\n\
             [store.vectors]\nkind = \"qdrant\"\nurl = \"{}\"\nrest_url = \"{}\"\n{more}\n",
            self.rows,
            self.peer.url(),
            self.peer.rest_url(),
        );
        write(&self.path("hypnos.toml"), &config);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn rows(&self) -> Connection {
        open(&self.path(self.rows))
    }

    /// Moves the clock to `hours` after the beginning.
    pub fn at(&self, hours: i64) -> &Self {
        write(&self.path("clock"), &(hours * 3_600).to_string());
        self
    }

    #[must_use = "say which exit code it should have"]
    pub fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = hypnos();
        command
            .arg("--config")
            .arg(self.path("hypnos.toml"))
            .args(args)
            .env("HYPNOS_TEST_CLOCK", self.path("clock"))
            .current_dir(self.dir.path());
        command
    }

    /// A night that may have no more than 64 files open, with the most KiB of memory that it took.
    pub fn bounded_night(&self) -> (Output, u64) {
        let child = limited(&self.command(&["--run-now", "--json"]), "ulimit -n 64")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let watch = std::thread::spawn(move || {
            let mut peak = 0;
            while let Ok(status) = std::fs::read_to_string(&status) {
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let size = line.and_then(|size| size.trim().strip_suffix(" kB")?.parse().ok());
                peak = peak.max(size.unwrap_or(0));
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            peak
        });
        let output = Output::from(child.wait_with_output().unwrap());
        (output, watch.join().unwrap())
    }

    #[must_use = "say which exit code it should have"]
    pub fn night(&self) -> Output {
        self.run(&["--run-now", "--json"])
    }

    /// The drift that `check` counts.
    pub fn drift(&self, code: i32) -> Value {
        let check = self.run(&["check", "--json"]).expect(code);
        check.objects("check")[0]["drift"].clone()
    }

    /// Makes a collection, with keyword indexes on some keys.
    pub fn collection(&self, name: &str, indexes: &[&str]) {
        let client = client_of(&self.peer.url());
        let vectors = VectorParamsBuilder::new(super::DIM.into(), Distance::Cosine);
        let create = CreateCollectionBuilder::new(name).vectors_config(vectors);
        block_on(client.create_collection(create)).unwrap();
        for key in indexes {
            let index = CreateFieldIndexCollectionBuilder::new(name, *key, FieldType::Keyword);
            block_on(client.create_field_index(index.wait(true))).unwrap();
        }
    }

    pub fn drop_collection(&self, name: &str) {
        let dropped = block_on(client_of(&self.peer.url()).delete_collection(name));
        assert!(dropped.unwrap().result);
    }

    /// Puts points; the vector of each is that of a number of its own.
    pub fn put(&self, collection: &str, points: &[(Uuid, Value)]) {
        let client = client_of(&self.peer.url());
        for chunk in points.chunks(500) {
            let points: Vec<PointStruct> = chunk
                .iter()
                .map(|(id, payload)| {
                    let (number, _) = id.as_u64_pair();
                    let payload = qdrant_client::Payload::try_from(payload.clone()).unwrap();
                    let vector = super::vector(i64::from_ne_bytes(number.to_ne_bytes()));
                    PointStruct::new(id.to_string(), vector, payload)
                })
                .collect();
            block_on(client.upsert_points(UpsertPointsBuilder::new(collection, points).wait(true)))
                .unwrap();
        }
    }

    /// Every point of every collection.
    pub fn points(&self) -> Everything {
        let url = self.peer.url();
        let listed = block_on(client_of(&url).list_collections()).unwrap();
        let names = listed.collections.into_iter().map(|found| found.name);
        names
            .map(|name| {
                // Not dropped: the collection is the site's.
                let collection = std::mem::ManuallyDrop::new(Collection {
                    name: name.clone(),
                    url: url.clone(),
                });
                (name, collection.all())
            })
            .collect()
    }

    /// The whole of both stores.
    pub fn everything(&self) -> (String, Everything) {
        (dump(&self.path(self.rows)), self.points())
    }
}

/// A UUID for a number, the same in every run.
pub fn id(kind: &str, number: usize) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{kind}/{number}").as_bytes())
}
