//! A collection in which others have points, too.

use super::*;

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
            switch(&copies, Keep::Never).unwrap();
            assert!(
                scene.points(&scene.name) == expected,
                "{}",
                scene.config.collection
            );
        }
        copies.discard(TAG).unwrap();
        // The run may have been killed after that, before it wrote down that it was done.
        switch(&copies, Keep::Never).unwrap();
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
