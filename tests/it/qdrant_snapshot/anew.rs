//! Copies of a collection that was written anew: nothing that had been removed is in them, and they are the collection.

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::{
    CollectionConfig, CollectionParamsDiff, CompressionRatio, CreateCollection,
    CreateFieldIndexCollection, Datatype, HnswConfigDiffBuilder, IntegerIndexParamsBuilder,
    KeywordIndexParamsBuilder, OptimizersConfigDiffBuilder, ProductQuantizationBuilder,
    StrictModeConfig, TextIndexParamsBuilder, TokenizerType, UpdateCollection,
};

use super::*;

/// What must not be in a copy once it was removed.
const MARKER: &str = "zanzibar4477";

fn holds(folder: &Path, text: &str) -> bool {
    let names = names_in(folder);
    let mut bytes = names
        .iter()
        .map(|name| fs::read(folder.join(name)).unwrap());
    bytes.any(|bytes| crate::support::holds(&bytes, text))
}

/// Copies a scene, written anew, to a folder of its own.
fn copied_anew(scene: &Scene) -> (tempfile::TempDir, CopiedPoints) {
    let folder = tempfile::tempdir().unwrap();
    let copy = scene.copies().copy_anew_to(folder.path()).unwrap();
    (folder, copy)
}

impl Scene {
    /// Replaces the collection by one with settings of every kind, and payload indexes with and without parameters.
    fn furnish(&self) {
        let config = self.settings();
        block_on(self.client.delete_collection(&self.name)).unwrap();
        let params = config.params.unwrap();
        let mut vectors = params.vectors_config.unwrap();
        if let Some(qdrant_client::qdrant::vectors_config::Config::ParamsMap(named)) =
            &mut vectors.config
        {
            let text = named.map.get_mut("text").unwrap();
            text.datatype = Some(Datatype::Float16.into());
            text.hnsw_config = Some(HnswConfigDiffBuilder::default().m(24).build());
        }
        let request = CreateCollection {
            collection_name: self.name.clone(),
            vectors_config: Some(vectors),
            sparse_vectors_config: params.sparse_vectors_config,
            shard_number: Some(1),
            hnsw_config: Some(
                HnswConfigDiffBuilder::default()
                    .m(8)
                    .ef_construct(64)
                    .payload_m(4)
                    .build(),
            ),
            optimizers_config: Some(
                OptimizersConfigDiffBuilder::default()
                    .indexing_threshold(7_777)
                    .default_segment_number(2)
                    .build(),
            ),
            quantization_config: Some(
                Quantization::from(
                    ProductQuantizationBuilder::new(CompressionRatio::X8.into()).build(),
                )
                .into(),
            ),
            metadata: HashMap::from([("made_by".to_owned(), "a test".into())]),
            ..CreateCollection::default()
        };
        block_on(self.client.create_collection(request)).unwrap();
        let tenant = KeywordIndexParamsBuilder::default().is_tenant(true);
        let text = TextIndexParamsBuilder::new(TokenizerType::Word).lowercase(true);
        let integer = IntegerIndexParamsBuilder::new(true, true).is_principal(true);
        for (key, kind, params) in [
            (
                "namespace",
                FieldType::Keyword,
                Some(IndexParams::from(tenant.build())),
            ),
            ("text", FieldType::Text, Some(text.build().into())),
            ("integer", FieldType::Integer, Some(integer.build().into())),
            ("number", FieldType::Float, None),
            ("flag", FieldType::Bool, None),
        ] {
            let index = CreateFieldIndexCollection {
                collection_name: self.name.clone(),
                wait: Some(true),
                field_name: key.to_owned(),
                field_type: Some(kind.into()),
                field_index_params: params.map(|params| {
                    qdrant_client::qdrant::PayloadIndexParams {
                        index_params: Some(params),
                    }
                }),
                ..CreateFieldIndexCollection::default()
            };
            block_on(self.client.create_field_index(index)).unwrap();
        }
    }

    fn settings(&self) -> CollectionConfig {
        let info = block_on(self.client.collection_info(&self.name)).unwrap();
        info.result.unwrap().config.unwrap()
    }

    /// The payload indexes, with their parameters.
    fn indexes(&self) -> BTreeMap<String, String> {
        let info = block_on(self.client.collection_info(&self.name)).unwrap();
        let schema = info.result.unwrap().payload_schema.into_iter();
        schema
            .map(|(key, index)| (key, format!("{} {:?}", index.data_type, index.params)))
            .collect()
    }

    /// Puts points with the marker, and removes them again.
    fn litter(&self) {
        self.put((500..540).map(|id| {
            PointStruct {
                payload: Payload::try_from(json!({"namespace": "user:zed", "text": MARKER}))
                    .unwrap()
                    .into(),
                ..whole_point(id)
            }
        }));
        let ids = (500..540).map(u64::into).collect();
        let delete = DeletePointsBuilder::new(&self.name).points(PointsIdsList { ids });
        block_on(self.client.delete_points(delete.wait(true))).unwrap();
    }
}

#[test]
fn what_was_removed_is_in_no_file_and_all_else_comes_back_as_it_was() {
    let scene = Scene::shared();
    scene.furnish();
    scene.put((1..=300).map(whole_point));
    scene.put([PointStruct::new(
        301,
        NamedVectors::default(),
        Payload::new(),
    )]);
    scene.litter();
    let (before, settings, indexes) =
        (scene.points(&scene.name), scene.settings(), scene.indexes());
    assert_eq!((before.len(), indexes.len()), (301, 5));
    let (plain, copy) = copied(&scene);
    // A server keeps what was removed for as long as it likes; the one of the tests does.
    let is_kept = holds(plain.path(), MARKER);
    assert!(is_kept || crate::support::qdrant::is_real());
    let (folder, anew) = copied_anew(&scene);
    assert!(anew.written_anew && !copy.written_anew);
    assert!(!holds(folder.path(), MARKER));
    assert_eq!((&anew.count, anew.count.total), (&copy.count, 301));
    assert_eq!(anew.place, copy.place);
    assert_eq!(names_in(folder.path()), ["points-0.snapshot"]);
    scene.is_clean("after a copy that was written anew");
    assert_eq!(scene.points(&scene.name), before);

    scene.disturb();
    let copies = scene.copies();
    copies.stage(folder.path(), &anew, TAG).unwrap();
    switch(&copies, Keep::Never).unwrap();
    copies.discard(TAG).unwrap();
    assert_eq!(scene.points(&scene.name), before);
    assert_eq!(scene.settings(), settings);
    assert_eq!(scene.indexes(), indexes);
    scene.is_clean("after the restore");
}

/// The file holds everybody's points, whatever the store's filter and keys say.
#[test]
fn points_of_others_are_written_anew_too() {
    let mut scene = Scene::shared();
    scene.config.filter = PayloadFilter {
        keys: vec![("flag".to_owned(), vec![Scalar::Bool(false)])],
    };
    scene.put([PointStruct {
        payload: Payload::try_from(json!({"namespace": "user:ana", "flag": false}))
            .unwrap()
            .into(),
        ..whole_point(3)
    }]);
    let before = scene.points(&scene.name);
    let (folder, copy) = copied_anew(&scene);
    assert!(copy.written_anew);
    assert_eq!(copy.count.total, 1, "those of the store are counted");
    scene.copies().stage(folder.path(), &copy, TAG).unwrap();
    let staged = format!("{}-hypnos-{TAG}", scene.name);
    assert_eq!(scene.points(&staged), before);
}

/// Strict mode bounds what is asked and written at once, and the new collection has it, too.
#[test]
fn the_bounds_of_strict_mode_are_kept_to_and_copied() {
    let scene = Scene::shared();
    let change = UpdateCollection {
        collection_name: scene.name.clone(),
        strict_mode_config: Some(StrictModeConfig {
            enabled: Some(true),
            max_query_limit: Some(7),
            upsert_max_batchsize: Some(5),
            ..StrictModeConfig::default()
        }),
        ..UpdateCollection::default()
    };
    block_on(scene.client.update_collection(change)).unwrap();
    let (folder, copy) = copied_anew(&scene);
    assert!(copy.written_anew);
    assert_eq!(copy.count.total, 22);
    let settings = scene.settings();
    scene.copies().stage(folder.path(), &copy, TAG).unwrap();
    switch(&scene.copies(), Keep::Never).unwrap();
    scene.copies().discard(TAG).unwrap();
    assert_eq!(scene.settings(), settings);
    scene.is_clean("after strict mode");
}

#[test]
fn what_a_killed_run_left_is_removed_and_never_what_an_alias_leads_to() {
    let scene = Scene::shared();
    let left = format!("{}-hypnos-anew", scene.name);
    let make = || {
        let vectors = VectorParamsBuilder::new(3, Distance::Dot);
        let create = CreateCollectionBuilder::new(&left).vectors_config(vectors);
        block_on(scene.client.create_collection(create)).unwrap();
    };
    make();
    copied(&scene);
    scene.is_clean("after a copy as it is");
    make();
    let (_folder, copy) = copied_anew(&scene);
    assert!(copy.written_anew && copy.count.total == 22);
    scene.is_clean("after a copy that was written anew");

    make();
    let alias = format!("{}-mine", scene.name);
    let create = CreateAliasBuilder::new(&left, &alias);
    block_on(scene.client.create_alias(create)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = scene.copies().copy_anew_to(folder.path()).unwrap_err();
    assert!(matches!(&error, CopyError::Foreign(_)), "{error:?}");
    assert_eq!(scene.collections(), [scene.name.clone(), left.clone()]);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

/// A server that will not make such a collection, or fill it, is copied as it is.
#[test]
fn where_it_cannot_be_written_anew_the_collection_is_copied_as_it_is() {
    let peer = Peer::start();
    let scene = Scene::at(&peer);
    scene.litter();
    for method in [
        "Collections/Create",
        "Points/CreateFieldIndex",
        "Points/Upsert",
    ] {
        peer.faults()
            .fail_always(method, Code::InvalidArgument, "not like that");
        let (folder, copy) = copied_anew(&scene);
        peer.faults().clear();
        assert!(!copy.written_anew, "{method}");
        assert_eq!(copy.count.total, 22, "{method}");
        assert!(holds(folder.path(), MARKER), "{method}");
        scene.is_clean(method);
    }
    let (folder, copy) = copied_anew(&scene);
    assert!(copy.written_anew && !holds(folder.path(), MARKER));

    // Nothing but a change of a collection sets this.
    let change = UpdateCollection {
        collection_name: scene.name.clone(),
        params: Some(CollectionParamsDiff {
            read_fan_out_factor: Some(2),
            ..CollectionParamsDiff::default()
        }),
        ..UpdateCollection::default()
    };
    block_on(scene.client.update_collection(change)).unwrap();
    let (folder, copy) = copied_anew(&scene);
    assert!(!copy.written_anew && holds(folder.path(), MARKER));
    scene.is_clean("after settings that cannot be given to another");
}

/// Every call, failing for good in another way: no copy, and nothing left but what the failing call was to remove.
#[test]
fn a_failing_call_makes_no_copy_and_leaves_nothing_behind() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    scene.config.timeout = Duration::from_secs(1);
    let folder = tempfile::tempdir().unwrap();
    for method in [
        "Collections/Get",
        "Collections/Create",
        "Points/CreateFieldIndex",
        "Points/Scroll",
        "Points/Upsert",
        "Points/Get",
        "Points/Count",
        "Rest/CreateSnapshot",
        "Rest/DownloadSnapshot",
        "Rest/DeleteCollection",
    ] {
        peer.faults()
            .fail_always(method, Code::Unavailable, "gone fishing");
        let error = scene.copies().copy_anew_to(folder.path()).unwrap_err();
        assert!(
            message(&error).contains("gone fishing"),
            "{method}: {error:?}"
        );
        assert_eq!(names_in(folder.path()), [""; 0], "{method}");
        peer.faults().clear();
        if method != "Rest/DeleteCollection" {
            scene.is_clean(method);
        }
    }
    peer.faults().acknowledge_only("Points/Upsert");
    let error = scene.copies().copy_anew_to(folder.path()).unwrap_err();
    assert!(message(&error).contains("Acknowledged"), "{error:?}");
    peer.faults().clear();
    scene.is_clean("after writes that were not waited for");
    // Each of them stumbles once, or its answer is lost.
    for method in [
        "Collections/Get",
        "Collections/Create",
        "Points/CreateFieldIndex",
        "Points/Scroll",
        "Points/Upsert",
        "Points/Get",
        "Points/Count",
    ] {
        for is_lost in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let faults = peer.faults();
            if is_lost {
                faults.lose_answer_nth(method, 1, Code::Unavailable, "lost");
            } else {
                faults.fail_nth(method, 1, Code::Unavailable, "stumbled");
            }
            let copy = scene.copies().copy_anew_to(folder.path()).unwrap();
            assert!(copy.written_anew && copy.count.total == 22, "{method}");
            scene.is_clean(method);
        }
    }
}

#[test]
fn what_an_agent_writes_meanwhile_is_in_the_copy() {
    let peer = Peer::start();
    let scene = Scene::at(&peer);
    // The points are read back by their ids once all of them were scrolled.
    peer.faults().slow("Points/Get", Duration::from_secs(1));
    let (folder, copy) = std::thread::scope(|scope| {
        let copying = scope.spawn(|| copied_anew(&scene));
        wait("the call", || peer.calls_of("Points/Get") > 0);
        scene.put([whole_point(0), whole_point(77)]);
        copying.join().unwrap()
    });
    assert!(copy.written_anew);
    assert_eq!(copy.count.total, 24);
    peer.faults().clear();
    scene.copies().stage(folder.path(), &copy, TAG).unwrap();
    let staged = format!("{}-hypnos-{TAG}", scene.name);
    assert_eq!(scene.points(&staged), scene.points(&scene.name));
}

#[test]
fn a_stop_leaves_no_collection_behind() {
    let peer = Peer::start();
    let mut scene = Scene::at(&peer);
    scene.config.timeout = Duration::from_mins(10);
    peer.faults().slow("Points/Upsert", Duration::from_mins(10));
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let copies = QdrantCopies::new(&scene.vectors(), &stop).unwrap();
    let before = peer.calls_of("Points/Upsert");
    let error = std::thread::scope(|scope| {
        let copying = scope.spawn(|| copies.copy_anew_to(folder.path()).unwrap_err());
        wait("the call", || peer.calls_of("Points/Upsert") > before);
        stop.request();
        copying.join().unwrap()
    });
    assert!(error.is_interruption(), "{error:?}");
    assert_eq!(names_in(folder.path()), [""; 0]);
    scene.is_clean("after a stop");
}
