//! Whole copies of a Qdrant collection: made, counted, put back, and nothing left behind whatever goes wrong.
//!
//! What does not need a fault holds on a real server too, see [`url`] and [`rest_url`].

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use hypnos::clock::Timestamp;
use hypnos::config::{Backend, PayloadFilter, PointRule, Qdrant, Scalar, Vectors};
use hypnos::stop::Stop;
use hypnos::store::copies::{
    CopiedFile, CopiedPoints, CopyError, Keep, PointCopies, Switched, count_points,
};
use hypnos::store::sqlite::Access;
use hypnos::store::vectors::{VectorError, open, qdrant::snapshot::QdrantCopies};
use qdrant_client::qdrant::{
    CreateAliasBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
    DeletePointsBuilder, DeleteSnapshotRequestBuilder, Distance, FieldType, MultiVectorComparator,
    MultiVectorConfigBuilder, NamedVectors, PointStruct, PointsIdsList, RetrievedPoint,
    ScrollPointsBuilder, SparseVectorParamsBuilder, SparseVectorsConfigBuilder,
    UpsertPointsBuilder, VectorParamsBuilder, VectorsConfigBuilder,
};
use qdrant_client::{Payload, Qdrant as Client};
use qdrant_peer::{Cluster, Code, Damage, Peer, PeerOptions};
use serde_json::json;
use uuid::Uuid;

use crate::support::held::wait;
use crate::support::qdrant::{block_on, client_of, rest_url, url};
use crate::support::{DAY, Points, World, now};

mod anew;
mod cluster;
mod failures;
mod shared;

const TAG: &str = "5eed";

/// A collection with three kinds of vectors on some server, removed with all that was made beside it.
struct Scene {
    name: String,
    config: Qdrant,
    client: Client,
}

impl Scene {
    /// On the server of all tests.
    fn shared() -> Self {
        Self::on(&url(), &rest_url())
    }

    fn at(peer: &Peer) -> Self {
        Self::on(&peer.url(), &peer.rest_url())
    }

    fn on(url: &str, rest_url: &str) -> Self {
        let name = format!("hypnos-test-{}", Uuid::now_v7().simple());
        let scene = Self {
            config: Qdrant {
                url: url.to_owned(),
                rest_url: rest_url.to_owned(),
                api_key: None,
                collection: name.clone(),
                filter: PayloadFilter::default(),
                vector: "text".to_owned(),
                timeout: Duration::from_secs(10),
            },
            client: client_of(url),
            name,
        };
        scene.create(4);
        scene.put((1..=20).map(whole_point));
        scene.put([
            // Points may lack vectors, and have ids of the other kind.
            PointStruct::new(21, NamedVectors::default(), Payload::new()),
            PointStruct::new(
                "936da01f-9abd-4d9d-80c7-02af85c822a8",
                NamedVectors::default().add_vector("text", vec![1.0, 2.0, 3.0, 4.0]),
                Payload::try_from(json!({"namespace": "user:bob"})).unwrap(),
            ),
        ]);
        scene
    }

    fn create(&self, size: u64) {
        let mut dense = VectorsConfigBuilder::default();
        dense.add_named_vector_params("text", VectorParamsBuilder::new(size, Distance::Cosine));
        dense.add_named_vector_params(
            "tokens",
            VectorParamsBuilder::new(2, Distance::Dot)
                .multivector_config(MultiVectorConfigBuilder::new(MultiVectorComparator::MaxSim)),
        );
        let mut sparse = SparseVectorsConfigBuilder::default();
        sparse.add_named_vector_params("words", SparseVectorParamsBuilder::default());
        let collection = CreateCollectionBuilder::new(&self.name)
            .vectors_config(dense)
            .sparse_vectors_config(sparse);
        block_on(self.client.create_collection(collection)).unwrap();
        let index =
            CreateFieldIndexCollectionBuilder::new(&self.name, "namespace", FieldType::Keyword);
        block_on(self.client.create_field_index(index.wait(true))).unwrap();
    }

    fn put(&self, points: impl IntoIterator<Item = PointStruct>) {
        let points: Vec<_> = points.into_iter().collect();
        let upsert = UpsertPointsBuilder::new(&self.name, points).wait(true);
        block_on(self.client.upsert_points(upsert)).unwrap();
    }

    /// Loses some points, changes one and gains one.
    fn disturb(&self) {
        let ids: Vec<_> = (1..10).map(u64::into).collect();
        let delete = DeletePointsBuilder::new(&self.name).points(PointsIdsList { ids });
        block_on(self.client.delete_points(delete.wait(true))).unwrap();
        self.put([whole_point(10_000)]);
        self.put([PointStruct {
            id: Some(15.into()),
            ..whole_point(99)
        }]);
    }

    /// Every point of a collection with all it has, by its id.
    fn points(&self, collection: &str) -> BTreeMap<String, RetrievedPoint> {
        let scroll = ScrollPointsBuilder::new(collection)
            .limit(1_000)
            .with_payload(true)
            .with_vectors(true);
        let page = block_on(self.client.scroll(scroll)).unwrap();
        assert_eq!(page.next_page_offset, None);
        page.result
            .into_iter()
            .map(|point| (format!("{:?}", point.id), point))
            .collect()
    }

    fn alias(&self, alias: &str) {
        let create = CreateAliasBuilder::new(&self.name, alias);
        block_on(self.client.create_alias(create)).unwrap();
    }

    /// The collections of this scene.
    fn collections(&self) -> Vec<String> {
        let mut names: Vec<_> = block_on(self.client.list_collections())
            .unwrap()
            .collections
            .into_iter()
            .map(|collection| collection.name)
            .filter(|name| name.starts_with(&self.name))
            .collect();
        names.sort();
        names
    }

    /// The aliases of this scene, with their collections.
    fn aliases(&self) -> BTreeMap<String, String> {
        block_on(self.client.list_aliases())
            .unwrap()
            .aliases
            .into_iter()
            .map(|alias| (alias.alias_name, alias.collection_name))
            .filter(|(alias, _)| alias.starts_with(&self.name))
            .collect()
    }

    fn snapshots(&self, collection: &str) -> usize {
        let list = block_on(self.client.list_snapshots(collection)).unwrap();
        list.snapshot_descriptions.len()
    }

    /// Asserts that the server has the one collection and no snapshot of it.
    fn is_clean(&self, when: &str) {
        assert_eq!(self.collections(), [self.name.as_str()], "{when}");
        assert_eq!(self.snapshots(&self.name), 0, "{when}");
    }

    fn vectors(&self) -> Vectors {
        vectors(self.config.clone())
    }

    fn copies(&self) -> QdrantCopies {
        QdrantCopies::new(&self.vectors(), &Stop::default()).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A server that is gone by now has nothing to drop.
        let list = block_on(self.client.list_collections());
        for collection in list.map(|list| list.collections).unwrap_or_default() {
            if collection.name.starts_with(&self.name) {
                let _ = block_on(self.client.delete_collection(&collection.name));
            }
        }
    }
}

fn vectors(config: Qdrant) -> Vectors {
    Vectors {
        backend: Backend::Qdrant(config),
        namespace_key: "namespace".to_owned(),
        spelling: None,
        point_id: PointRule::Integer,
        text: None,
    }
}

/// A point with every vector and a payload of every type.
fn whole_point(id: u64) -> PointStruct {
    let x = f32::from(u16::try_from(id).unwrap());
    let vectors = NamedVectors::default()
        .add_vector("text", vec![x, 0.3, -0.7, 0.11])
        .add_vector("tokens", vec![vec![x, 2.0], vec![3.0, -4.5]])
        .add_vector("words", vec![(7, x), (4_000_000_000, 0.1)]);
    let payload = json!({
        "namespace": if id.is_multiple_of(2) { "user:ana" } else { "team:acme" },
        "text": "olá, \u{1f319} \"quoted\"\n", "integer": i64::MAX - 1, "number": 0.1, "flag": true, "nothing": null,
        "list": [1, "two", [3.5]], "object": {"a": {"b": []}}, "empty": "",
    });
    PointStruct::new(id, vectors, Payload::try_from(payload).unwrap())
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Copies a scene to a folder of its own.
fn copied(scene: &Scene) -> (tempfile::TempDir, CopiedPoints) {
    let folder = tempfile::tempdir().unwrap();
    let copy = scene.copies().copy_to(folder.path()).unwrap();
    (folder, copy)
}

/// Switches over the live collection as it is.
fn switch(copies: &QdrantCopies, keep: Keep) -> Result<Switched, CopyError> {
    copies.switch(TAG, &copies.mark().unwrap(), keep)
}

fn message(error: &CopyError) -> String {
    hypnos::error::chain(error)
}

#[test]
fn a_copy_says_what_is_in_it_and_leaves_nothing_on_the_server() {
    let scene = Scene::shared();
    let (folder, copy) = copied(&scene);
    assert_eq!(copy.backend, "qdrant");
    assert!(copy.version.starts_with("1."), "{}", copy.version);
    assert_eq!(copy.count.total, 22);
    let namespaces = [
        ("", 1),
        ("team:acme", 10),
        ("user:ana", 10),
        ("user:bob", 1),
    ];
    assert_eq!(
        copy.count.namespaces,
        namespaces
            .map(|(name, count)| (name.to_owned(), count))
            .into()
    );
    let live = open(&scene.vectors(), Access::Read, &Stop::default()).unwrap();
    assert_eq!(count_points(live.as_ref()).unwrap(), copy.count);
    assert_eq!(names_in(folder.path()), ["points-0.snapshot"]);
    let file = CopiedFile::of(folder.path(), "points-0.snapshot").unwrap();
    assert_eq!(copy.files, [file]);
    let mode = fs::metadata(folder.path().join("points-0.snapshot")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert_eq!(copy.place["collection"], scene.name.as_str());
    assert_eq!(copy.place["aliases"], json!([]));
    let text = &copy.place["config"]["params"]["vectors"]["text"];
    assert_eq!(
        (&text["size"], &text["distance"]),
        (&json!(4), &json!("Cosine"))
    );
    assert!(copy.place["payload_schema"]["namespace"].is_object());
    scene.is_clean("after a copy");
    let again = scene.copies().recount(folder.path(), &copy).unwrap();
    assert_eq!(again, copy.count);
    scene.is_clean("after a recount");
}

#[test]
fn a_collection_comes_back_with_every_vector_and_payload() {
    let scene = Scene::shared();
    let before = scene.points(&scene.name);
    let (folder, copy) = copied(&scene);
    scene.disturb();
    let disturbed = scene.points(&scene.name);
    assert_ne!(disturbed, before);
    let copies = scene.copies();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    let staged = format!("{}-hypnos-{TAG}", scene.name);
    assert_eq!(scene.points(&staged), before);
    assert_eq!(
        scene.points(&scene.name),
        disturbed,
        "the live one is as it was"
    );
    let staged_store = open(&copies.staged(TAG), Access::Read, &Stop::default()).unwrap();
    assert_eq!(count_points(staged_store.as_ref()).unwrap(), copy.count);
    // What is taken out of the staged collection stays out.
    let delete = DeletePointsBuilder::new(&staged).points(PointsIdsList {
        ids: vec![2.into()],
    });
    block_on(scene.client.delete_points(delete.wait(true))).unwrap();
    for _ in 0..2 {
        switch(&copies, Keep::Never).unwrap();
        let mut expected = before.clone();
        expected.retain(|_, point| point.id != Some(2.into()));
        assert_eq!(scene.points(&scene.name), expected);
    }
    for _ in 0..2 {
        copies.discard(TAG).unwrap();
        scene.is_clean("after the restore");
    }
    let indexed = open(&scene.vectors(), Access::Read, &Stop::default()).unwrap();
    assert!(indexed.describe().unwrap().namespace_indexed);
}

#[test]
fn a_collection_that_is_gone_is_made_anew() {
    let scene = Scene::shared();
    let before = scene.points(&scene.name);
    let (folder, copy) = copied(&scene);
    block_on(scene.client.delete_collection(&scene.name)).unwrap();
    let copies = scene.copies();
    let missing = copies.copy_to(folder.path()).unwrap_err();
    assert!(
        matches!(&missing, CopyError::Vectors(VectorError::Missing { .. })),
        "{missing:?}"
    );
    copies.stage(folder.path(), &copy, TAG).unwrap();
    switch(&copies, Keep::Never).unwrap();
    copies.discard(TAG).unwrap();
    assert_eq!(scene.points(&scene.name), before);
    scene.is_clean("after the restore");
}

#[test]
fn an_alias_is_moved_and_what_it_led_to_removed() {
    let mut scene = Scene::shared();
    let alias = format!("{}-alias", scene.name);
    scene.alias(&alias);
    scene.config.collection.clone_from(&alias);
    let before = scene.points(&scene.name);
    let (folder, copy) = copied(&scene);
    scene.is_clean("after a copy through an alias");
    assert_eq!(copy.place["collection"], scene.name.as_str());
    assert_eq!(copy.place["aliases"], json!([alias]));
    scene.disturb();
    let disturbed = scene.points(&scene.name);
    let copies = scene.copies();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    assert_eq!(scene.points(&alias), disturbed);
    let staged = format!("{alias}-hypnos-{TAG}");
    for _ in 0..2 {
        switch(&copies, Keep::Never).unwrap();
        assert_eq!(scene.points(&alias), before);
        assert_eq!(scene.aliases()[&alias], staged);
        assert_eq!(
            scene.points(&scene.name),
            disturbed,
            "the old one is there until it is discarded"
        );
    }
    let refused = copies.stage(folder.path(), &copy, TAG).unwrap_err();
    assert!(
        message(&refused).contains("leads to"),
        "the live one is not staged over: {refused}"
    );
    for _ in 0..2 {
        copies.discard(TAG).unwrap();
        assert_eq!(scene.collections(), [staged.as_str()]);
        assert_eq!(scene.aliases(), [(alias.clone(), staged.clone())].into());
        assert_eq!(scene.points(&alias), before);
    }
}

#[test]
fn what_is_to_be_kept_is_kept() {
    let mut scene = Scene::shared();
    let alias = format!("{}-alias", scene.name);
    scene.alias(&alias);
    scene.config.collection.clone_from(&alias);
    let (folder, copy) = copied(&scene);
    scene.disturb();
    let disturbed = scene.points(&scene.name);
    let copies = scene.copies();
    assert!(
        !copies
            .is_current(folder.path(), &copy, Timestamp::UNIX_EPOCH)
            .unwrap()
    );
    copies.require_idle().unwrap();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    switch(&copies, Keep::Always).unwrap();
    copies.discard(TAG).unwrap();
    assert!(
        copies
            .is_current(folder.path(), &copy, Timestamp::UNIX_EPOCH)
            .unwrap()
    );
    assert_eq!(scene.points(&scene.name), disturbed);
    assert_eq!(scene.aliases().len(), 1);
}

/// The run that would have put a copy back was killed, and the application has gone on.
#[test]
fn what_was_changed_since_it_was_looked_at_is_not_replaced_or_kept() {
    // Another payload under the same id, and only other vectors.
    let other_payload = PointStruct {
        id: Some(15.into()),
        ..whole_point(98)
    };
    let other_vectors = PointStruct {
        payload: whole_point(15).payload,
        ..other_payload.clone()
    };
    for (is_alias, changed) in [
        (false, &other_payload),
        (true, &other_payload),
        (false, &other_vectors),
        (true, &other_vectors),
    ] {
        let mut scene = Scene::shared();
        if is_alias {
            let alias = format!("{}-alias", scene.name);
            scene.alias(&alias);
            scene.config.collection = alias;
        }
        let (folder, copy) = copied(&scene);
        let before = scene.points(&scene.name);
        let delete = DeletePointsBuilder::new(&scene.name).points(PointsIdsList {
            ids: vec![2.into()],
        });
        block_on(scene.client.delete_points(delete.wait(true))).unwrap();
        let copies = scene.copies();
        let was = copies.mark().unwrap();
        copies.stage(folder.path(), &copy, TAG).unwrap();
        scene.put([changed.clone()]);
        let disturbed = scene.points(&scene.name);
        let refused = copies.switch(TAG, &was, Keep::Never).unwrap_err();
        assert!(matches!(refused, CopyError::Changed(_)), "{refused:?}");
        assert_eq!(scene.points(&scene.name), disturbed);
        let Switched::Kept(place) = copies.switch(TAG, &was, Keep::Changed).unwrap() else {
            panic!("it is not kept");
        };
        assert_eq!(scene.points(&scene.config.collection), before);
        // It is done, and not done again: what is written from now on stays.
        assert_eq!(
            copies.switch(TAG, &was, Keep::Changed).unwrap(),
            Switched::Before
        );
        copies.discard(TAG).unwrap();
        let kept = place.split('"').nth(1).unwrap();
        assert_eq!(scene.points(kept), disturbed, "{place}");
        assert_eq!(kept == scene.name, is_alias, "{place}");
        block_on(scene.client.delete_collection(kept)).unwrap();
    }
}

#[test]
fn what_another_alias_leads_to_is_left() {
    let mut scene = Scene::shared();
    let (alias, other) = (
        format!("{}-alias", scene.name),
        format!("{}-other", scene.name),
    );
    scene.alias(&alias);
    scene.alias(&other);
    scene.config.collection.clone_from(&alias);
    let (folder, copy) = copied(&scene);
    let copies = scene.copies();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    switch(&copies, Keep::Never).unwrap();
    copies.discard(TAG).unwrap();
    assert_eq!(scene.aliases()[&other], scene.name);
    assert_eq!(scene.aliases().len(), 2, "the marker is gone");
    assert_eq!(scene.points(&other).len(), 22);
}

#[test]
fn a_switch_after_the_discard_changes_nothing() {
    let scene = Scene::shared();
    let copies = scene.copies();
    copies.discard(TAG).unwrap();
    switch(&copies, Keep::Never).unwrap();
    assert_eq!(scene.points(&scene.name).len(), 22);
    block_on(scene.client.delete_collection(&scene.name)).unwrap();
    let missing = switch(&copies, Keep::Never).unwrap_err();
    assert!(
        matches!(missing, CopyError::Vectors(VectorError::Missing { .. })),
        "{missing:?}"
    );
}

/// The same from the command line: both halves of a store.
#[test]
fn a_pair_of_rows_and_a_collection_is_taken_verified_and_put_back() {
    let mut world = World::new(crate::support::Backend::Qdrant);
    world.configure("[pass.snapshot]\nenabled = false\n", "");
    world.user("ana", None);
    for _ in 0..3 {
        world.memory("ana", now() - 5 * DAY, None);
    }
    let then = (world.dump(), world.all_points());
    let taken = world.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned();
    world.run(&["snapshot", "verify", &pair]).expect(0);
    world
        .rows()
        .execute("UPDATE memories SET content = 'changed' WHERE id = 1", [])
        .unwrap();
    world.put_as("user:ana", 1, 3);
    world.memory("ana", now(), None);
    assert_ne!((world.dump(), world.all_points()), then);
    world.run(&["snapshot", "restore", &pair]).expect(0);
    assert_eq!((world.dump(), world.all_points()), then);
    let Points::Qdrant(collection) = &world.points else {
        unreachable!("the world was made on Qdrant");
    };
    let list = block_on(client_of(&url()).list_collections()).unwrap();
    let beside = list
        .collections
        .into_iter()
        .filter(|other| other.name.starts_with(&collection.name));
    assert_eq!(beside.count(), 1, "nothing temporary is left on the server");
}
