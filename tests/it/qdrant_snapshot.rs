//! Whole copies of a Qdrant collection: made, counted, put back, and nothing left behind whatever goes wrong.
//!
//! What does not need a fault holds on a real server too, see [`url`] and [`rest_url`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use hypnos::clock::Timestamp;
use hypnos::config::{Backend, PayloadFilter, PointRule, Qdrant, Scalar, Vectors};
use hypnos::stop::Stop;
use hypnos::store::copies::{CopiedFile, CopiedPoints, CopyError, PointCopies, count_points};
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

use crate::support::qdrant::{block_on, client_of, rest_url, url};
use crate::support::{DAY, Points, World, now};

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
        copies.switch(TAG, false).unwrap();
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
    copies.switch(TAG, false).unwrap();
    copies.discard(TAG).unwrap();
    assert_eq!(scene.points(&scene.name), before);
    scene.is_clean("after the restore");
}

/// A scene whose store are the points of `user:ana`: every second one.
fn of_ana() -> Scene {
    let mut scene = Scene::shared();
    let anas = vec![Scalar::Text("user:ana".to_owned())];
    scene.config.filter.keys = vec![("namespace".to_owned(), anas)];
    scene
}

/// Whether a point is one of [`of_ana`].
fn is_anas(point: &RetrievedPoint) -> bool {
    let namespace = point.payload.get("namespace");
    namespace.is_some_and(|value| value.as_str().is_some_and(|text| text == "user:ana"))
}

#[test]
fn points_of_others_stay_as_they_are_when_a_copy_is_put_back() {
    let mut scene = of_ana();
    let before = scene.points(&scene.name);
    let (folder, copy) = copied(&scene);
    assert_eq!(copy.count.total, 10);
    // One of others has taken the place of one of the store's.
    scene.put([PointStruct {
        id: Some(20.into()),
        ..whole_point(7)
    }]);
    for name in [scene.name.clone(), format!("{}-alias", scene.name)] {
        if name != scene.name {
            scene.alias(&name);
            scene.config.collection = name;
        }
        scene.disturb();
        let mut expected = scene.points(&scene.name);
        expected.retain(|_, point| !is_anas(point));
        for (id, point) in before.iter().filter(|(_, point)| is_anas(point)) {
            expected.entry(id.clone()).or_insert(point.clone());
        }
        let copies = scene.copies();
        copies.stage(folder.path(), &copy, TAG).unwrap();
        for _ in 0..2 {
            copies.switch(TAG, false).unwrap();
            assert!(
                scene.points(&scene.name) == expected,
                "{}",
                scene.config.collection
            );
        }
        copies.discard(TAG).unwrap();
        // The run may have been killed after that, before it wrote down that it was done.
        copies.switch(TAG, false).unwrap();
        assert!(scene.points(&scene.name) == expected);
        scene.is_clean("after the restore");
    }
}

#[test]
fn a_shared_collection_of_other_vectors_is_refused_before_anything_is_changed() {
    let scene = of_ana();
    let (folder, copy) = copied(&scene);
    block_on(scene.client.delete_collection(&scene.name)).unwrap();
    scene.create(5);
    let error = scene.copies().stage(folder.path(), &copy, TAG).unwrap_err();
    assert!(
        message(&error).contains("has other vectors than the copy"),
        "{error:?}"
    );
    scene.is_clean("after the refusal");
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
        copies.switch(TAG, false).unwrap();
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
    copies.switch(TAG, true).unwrap();
    copies.discard(TAG).unwrap();
    assert!(
        copies
            .is_current(folder.path(), &copy, Timestamp::UNIX_EPOCH)
            .unwrap()
    );
    assert_eq!(scene.points(&scene.name), disturbed);
    assert_eq!(scene.aliases().len(), 1);
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
    copies.switch(TAG, false).unwrap();
    copies.discard(TAG).unwrap();
    assert_eq!(scene.aliases()[&other], scene.name);
    assert_eq!(scene.aliases().len(), 2, "the marker is gone");
    assert_eq!(scene.points(&other).len(), 22);
}

#[test]
fn what_a_killed_run_left_is_removed_and_what_is_in_use_is_not() {
    let scene = Scene::shared();
    let (folder, copy) = copied(&scene);
    let verify = format!("{}-hypnos-verify", scene.name);
    let left = CreateCollectionBuilder::new(&verify)
        .vectors_config(VectorParamsBuilder::new(3, Distance::Dot));
    block_on(scene.client.create_collection(left)).unwrap();
    assert_eq!(
        scene.copies().recount(folder.path(), &copy).unwrap(),
        copy.count
    );
    scene.is_clean("after a left-over");
    scene.alias(&verify);
    let refused = scene.copies().recount(folder.path(), &copy).unwrap_err();
    assert!(matches!(refused, CopyError::Foreign(_)), "{refused:?}");
    assert_eq!(scene.points(&scene.name).len(), 22);
}

#[test]
fn a_switch_after_the_discard_changes_nothing() {
    let scene = Scene::shared();
    let copies = scene.copies();
    copies.discard(TAG).unwrap();
    copies.switch(TAG, false).unwrap();
    assert_eq!(scene.points(&scene.name).len(), 22);
    block_on(scene.client.delete_collection(&scene.name)).unwrap();
    let missing = copies.switch(TAG, false).unwrap_err();
    assert!(
        matches!(missing, CopyError::Vectors(VectorError::Missing { .. })),
        "{missing:?}"
    );
}

#[test]
fn a_file_that_was_changed_is_not_put_back() {
    let scene = Scene::shared();
    let (folder, copy) = copied(&scene);
    let path = folder.path().join("points-0.snapshot");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = scene.copies().recount(folder.path(), &copy).unwrap_err();
    assert!(message(&refused).contains("checksum"), "{refused:?}");
    scene.copies().stage(folder.path(), &copy, TAG).unwrap_err();
    scene.is_clean("after a damaged file");
    let foreign = CopiedPoints {
        backend: "sqlite".to_owned(),
        ..copy
    };
    let refused = scene
        .copies()
        .stage(folder.path(), &foreign, TAG)
        .unwrap_err();
    assert!(matches!(refused, CopyError::Foreign(_)), "{refused:?}");
}

#[test]
fn a_collection_of_other_vectors_is_not_overwritten() {
    let scene = Scene::shared();
    let (folder, copy) = copied(&scene);
    block_on(scene.client.delete_collection(&scene.name)).unwrap();
    scene.create(3);
    let copies = scene.copies();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    let refused = copies.switch(TAG, false).unwrap_err();
    assert!(message(&refused).contains("not compatible"), "{refused:?}");
    copies.discard(TAG).unwrap();
    assert!(scene.points(&scene.name).is_empty());
    scene.is_clean("after a refusal");
}

#[test]
fn a_damaged_download_leaves_no_file_and_no_snapshot() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    scene.config.timeout = Duration::from_secs(1);
    let folder = tempfile::tempdir().unwrap();
    for (damage, told) in [
        (Damage::Cut(0), "reach the REST interface"),
        (Damage::Cut(20_000), "reach the REST interface"),
        (Damage::Stall(20_000), "longer than 1 s"),
        (Damage::Flip(20_000), "checksum"),
        (Damage::Shorten(20_000), "20000 bytes"),
    ] {
        peer.faults().damage_downloads(damage);
        let error = scene.copies().copy_to(folder.path()).unwrap_err();
        assert!(message(&error).contains(told), "{damage:?}: {error:?}");
        assert_eq!(names_in(folder.path()), [""; 0], "{damage:?}");
        scene.is_clean("after damage");
    }
    peer.faults().clear();
    peer.faults().lie_about_checksums();
    let error = scene.copies().copy_to(folder.path()).unwrap_err();
    assert!(matches!(&error, CopyError::Damaged(_)), "{error:?}");
    assert_eq!(names_in(folder.path()), [""; 0]);
    scene.is_clean("after a wrong checksum");
    peer.faults().clear();
    scene.copies().copy_to(folder.path()).unwrap();
}

/// Every call, failing for good: an error each, no file, and on the server what the failing call was to remove at most.
#[test]
fn a_failing_call_leaves_nothing_behind() {
    let peer = Peer::start();
    let scene = Scene::at(&peer);
    let folder = tempfile::tempdir().unwrap();
    for method in [
        "Rest/Version",
        "Rest/ListAliases",
        "Rest/GetCollection",
        "Rest/Cluster",
        "Rest/CreateSnapshot",
        "Rest/DownloadSnapshot",
        "Rest/UploadSnapshot",
        "Rest/CollectionCluster",
        "Rest/DeleteSnapshot",
        "Rest/DeleteCollection",
    ] {
        peer.faults()
            .fail_always(method, Code::Internal, "disk on fire");
        let error = scene.copies().copy_to(folder.path()).unwrap_err();
        // An upload that is refused before it was read may end before the answer is.
        let is_cut = method == "Rest/UploadSnapshot" && message(&error).contains("broken pipe");
        assert!(
            message(&error).contains("disk on fire") || is_cut,
            "{method}: {error:?}"
        );
        assert_eq!(names_in(folder.path()), [""; 0], "{method}");
        peer.faults().clear();
        if method == "Rest/DeleteSnapshot" {
            assert_eq!(scene.snapshots(&scene.name), 1, "what could not be removed");
            let list = block_on(scene.client.list_snapshots(&scene.name)).unwrap();
            let name = &list.snapshot_descriptions[0].name;
            block_on(
                scene
                    .client
                    .delete_snapshot(DeleteSnapshotRequestBuilder::new(&scene.name, name)),
            )
            .unwrap();
        }
        if method != "Rest/DeleteCollection" {
            scene.is_clean(method);
        }
    }
    scene.copies().copy_to(folder.path()).unwrap();
    scene.is_clean("after all");
}

#[test]
fn a_server_that_stumbles_once_is_asked_again() {
    let peer = Peer::start();
    let scene = Scene::at(&peer);
    for method in [
        "Rest/Version",
        "Rest/ListAliases",
        "Rest/GetCollection",
        "Rest/Cluster",
        "Rest/CollectionCluster",
        "Rest/DeleteSnapshot",
        "Rest/DeleteCollection",
    ] {
        let folder = tempfile::tempdir().unwrap();
        peer.faults()
            .fail_nth(method, 1, Code::Unavailable, "stumbled");
        let copy = scene.copies().copy_to(folder.path()).unwrap();
        assert_eq!(copy.count.total, 22, "{method}");
        scene.is_clean(method);
        let folder = tempfile::tempdir().unwrap();
        peer.faults()
            .lose_answer_nth(method, 1, Code::Unavailable, "lost");
        scene.copies().copy_to(folder.path()).unwrap();
        scene.is_clean(method);
    }
}

#[test]
fn a_switch_whose_answer_is_lost_is_done_once() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    let alias = format!("{}-alias", scene.name);
    scene.alias(&alias);
    scene.config.collection.clone_from(&alias);
    let (folder, copy) = copied(&scene);
    let copies = scene.copies();
    copies.stage(folder.path(), &copy, TAG).unwrap();
    peer.faults()
        .lose_answer_nth("Rest/UpdateAliases", 1, Code::Unavailable, "lost");
    copies.switch(TAG, false).unwrap();
    assert_eq!(peer.calls_of("Rest/UpdateAliases"), 2);
    copies.discard(TAG).unwrap();
    assert_eq!(scene.collections(), [format!("{alias}-hypnos-{TAG}")]);
}

#[test]
fn a_server_that_is_away_is_named_with_its_port() {
    let mut peer = Peer::start();
    let scene = Scene::at(&peer);
    peer.stop();
    let folder = tempfile::tempdir().unwrap();
    let error = scene.copies().copy_to(folder.path()).unwrap_err();
    let CopyError::Vectors(error) = &error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(error, VectorError::RestUnreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(error.to_string().contains(&peer.rest_url()), "{error}");
    assert!(error.hint().unwrap().contains("6333"));
    assert_eq!(names_in(folder.path()), [""; 0]);
    peer.restart();
    scene.copies().copy_to(folder.path()).unwrap();
}

/// The usual mistake: the gRPC port.
#[test]
fn another_kind_of_server_is_no_answer() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    scene.config.rest_url = peer.url();
    let folder = tempfile::tempdir().unwrap();
    let error = scene.copies().copy_to(folder.path()).unwrap_err();
    assert!(matches!(error, CopyError::Vectors(_)), "{error:?}");
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_refused_key_is_told_and_not_shown() {
    let peer = Peer::start_with(PeerOptions {
        api_key: Some("right-k3y".to_owned()),
        ..PeerOptions::default()
    });
    let folder = tempfile::tempdir().unwrap();
    for key in [None, Some("wr0ng-k3y")] {
        let config = Qdrant {
            url: peer.url(),
            rest_url: peer.rest_url(),
            api_key: key.map(str::to_owned),
            collection: "memories".to_owned(),
            filter: PayloadFilter::default(),
            vector: String::new(),
            timeout: Duration::from_secs(5),
        };
        let copies = QdrantCopies::new(&vectors(config), &Stop::default()).unwrap();
        let error = copies.copy_to(folder.path()).unwrap_err();
        assert!(
            matches!(&error, CopyError::Vectors(VectorError::Unauthorized { .. })),
            "{error:?}"
        );
        assert!(!format!("{error:?} {}", message(&error)).contains("k3y"));
    }
}

#[test]
fn a_stop_is_heard_while_a_snapshot_comes_and_the_servers_copy_still_goes() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    scene.config.timeout = Duration::from_mins(10);
    peer.faults().damage_downloads(Damage::Stall(20_000));
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let copies = QdrantCopies::new(&scene.vectors(), &stop).unwrap();
    let error = std::thread::scope(|scope| {
        let copying = scope.spawn(|| copies.copy_to(folder.path()).unwrap_err());
        while peer.calls_of("Rest/DownloadSnapshot") == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.request();
        copying.join().unwrap()
    });
    assert!(error.is_interruption(), "{error:?}");
    assert_eq!(names_in(folder.path()), [""; 0]);
    scene.is_clean("after a stop");
}

/// Two nodes with a shard each. What the peers cannot do is answer for each other, so the points are those of one.
struct Nodes {
    first: Peer,
    second: Peer,
}

impl Nodes {
    fn start() -> Self {
        let first = |port| {
            Peer::start_with(PeerOptions {
                rest_port: port,
                cluster: Some(cluster(1)),
                ..PeerOptions::default()
            })
        };
        let first = first(0);
        let port = first
            .rest_url()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let second = Peer::start_with(PeerOptions {
            rest_port: port,
            rest_ip: [127, 0, 0, 2].into(),
            cluster: Some(cluster(2)),
            ..PeerOptions::default()
        });
        Self { first, second }
    }
}

fn cluster(peer_id: u64) -> Cluster {
    Cluster {
        peer_id,
        peers: [
            (1, "http://127.0.0.1:6335/".to_owned()),
            (2, "http://127.0.0.2:6335/".to_owned()),
        ]
        .into(),
    }
}

#[test]
fn every_node_with_a_shard_is_copied_and_named() {
    let mut nodes = Nodes::start();
    let scene = Scene::at(&nodes.first);
    let mut other = Scene::at(&nodes.second);
    other.name.clone_from(&scene.name);
    other.create(4);
    let (folder, copy) = copied(&scene);
    let named: Vec<_> = copy
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.node.as_deref().unwrap()))
        .collect();
    assert_eq!(
        named,
        [
            ("points-0.snapshot", "http://127.0.0.1:6335/"),
            ("points-1.snapshot", "http://127.0.0.2:6335/"),
        ]
    );
    assert_eq!(copy.place["nodes"][1]["peer_id"], 2);
    assert_eq!(copy.place["nodes"][1]["shards"], json!([1]));
    assert_eq!(nodes.second.calls_of("Rest/CreateSnapshot"), 1);
    assert_eq!(other.snapshots(&scene.name), 0);
    scene.is_clean("after the copy of a cluster");
    assert_eq!(names_in(folder.path()).len(), 2);

    let elsewhere = tempfile::tempdir().unwrap();
    nodes.second.stop();
    let error = message(&scene.copies().copy_to(elsewhere.path()).unwrap_err());
    assert!(
        error.contains("node 2 at http://127.0.0.2:6335/") && error.contains("connection refused"),
        "{error}"
    );
    assert_eq!(names_in(elsewhere.path()), [""; 0]);
    assert_eq!(
        nodes.first.calls_of("Rest/CreateSnapshot"),
        1,
        "nothing was begun"
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
