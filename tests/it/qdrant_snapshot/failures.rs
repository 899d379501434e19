//! What goes wrong on the way, and that nothing is left of it.

use super::*;

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
    let refused = switch(&copies, Keep::Never).unwrap_err();
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
            // It goes before its collection does, after which it could not be found.
            assert_eq!(scene.collections().len(), 2, "and what it belongs to");
            let other = tempfile::tempdir().unwrap();
            scene.copies().copy_to(other.path()).unwrap();
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
    switch(&copies, Keep::Never).unwrap();
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
        wait("the call", || peer.calls_of("Rest/DownloadSnapshot") > 0);
        stop.request();
        copying.join().unwrap()
    });
    assert!(error.is_interruption(), "{error:?}");
    assert_eq!(names_in(folder.path()), [""; 0]);
    scene.is_clean("after a stop");
}
