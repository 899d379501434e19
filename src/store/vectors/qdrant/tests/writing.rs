//! Removing points and putting them back.

use super::*;

#[test]
fn a_write_that_is_not_completed_is_an_error() {
    for status in [UpdateStatus::Acknowledged, UpdateStatus::WaitTimeout] {
        let fake = Fake::start();
        fake.add([1], &of_user("a"));
        let store = connect(&fake);
        let images = copies(&store, &numbers([1]));
        fake.state().status = Some(status);
        let removed = store.remove(&images).map(|_| ());
        for result in [removed, store.put_back(&images)] {
            let error = result.unwrap_err();
            let VectorError::NotCompleted { status: said, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(said, status.as_str_name());
        }
    }
}

#[test]
fn a_removal_is_believed_only_when_the_points_are_gone() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("a"));
    let store = connect(&fake);
    let images = copies(&store, &numbers(1..=9));
    fake.state().deaf_deletes = 5;
    let error = store.remove(&images).unwrap_err();
    assert!(
        matches!(error, VectorError::StillThere { left: 3 }),
        "{error}"
    );
    assert_eq!(fake.state().count_calls("delete"), 5, "tried a few times");
    fake.state().deaf_deletes = 1;
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    assert!(fake.state().points.is_empty());
}

#[test]
fn removals_go_in_batches() {
    let fake = Fake::start();
    fake.add(1..=1_100, &of_user("a"));
    take(&connect(&fake), &numbers(1..=1_100));
    let state = fake.state();
    let sizes: Vec<_> = state
        .calls
        .iter()
        .filter(|(name, _)| *name == "delete")
        .map(|(_, size)| *size)
        .collect();
    assert_eq!(sizes, [500, 500, 100]);
}

#[test]
fn what_is_put_back_has_every_vector_and_its_shard() {
    let single = vectors_output::VectorsOptions::Vector;
    let all = |sparse, multi| named([("", dense(&[1.0])), ("sparse", sparse), ("multi", multi)]);
    let flat = [0.5, 1.5];
    for (sent, kept) in [
        (single(dense(&[1.0, -0.0])), single(dense(&[1.0, -0.0]))),
        (single(old(&flat, None, None)), single(dense(&flat))),
        (
            all(
                old(&flat, Some(vec![3, 70_000]), None),
                old(&[1.0, 2.0, 3.0, 4.0], None, Some(2)),
            ),
            all(sparse(), multi(&[&[1.0, 2.0], &[3.0, 4.0]])),
        ),
        (
            all(sparse(), multi(&[&[1.0]])),
            all(sparse(), multi(&[&[1.0]])),
        ),
    ] {
        let fake = Fake::start();
        let mut sent = point(1, sent);
        sent.shard_key = Some(ShardKey {
            key: Some(shard_key::Key::Keyword("eu".to_owned())),
        });
        fake.add_point(sent.clone());
        let mut without_shard = point(2, single(dense(&[0.0])));
        without_shard.payload = HashMap::new();
        fake.add_point(without_shard.clone());
        let store = connect(&fake);
        let images = take(&store, &numbers([1, 2, 3]));
        assert_eq!(images.len(), 2);
        store.put_back(&images).unwrap();
        let back: Vec<_> = fake.state().points.values().cloned().collect();
        sent.vectors = point(1, kept).vectors;
        assert_eq!(back, [sent, without_shard]);
    }
}

#[test]
fn only_what_is_as_it_was_copied_is_removed() {
    let single = vectors_output::VectorsOptions::Vector;
    let was = || point(1, single(dense(&[1.0, f32::NAN])));
    let mut paid = was();
    paid.payload.insert("n".to_owned(), 2.into());
    let mut unpaid = was();
    unpaid.payload.clear();
    for (is_changed, now) in [
        (false, was()),
        (false, point(1, single(old(&[1.0, f32::NAN], None, None)))),
        (true, point(1, single(dense(&[1.0, 2.0])))),
        (true, point(1, named([("other", dense(&[1.0, f32::NAN]))]))),
        (true, point(1, single(multi(&[&[1.0, f32::NAN]])))),
        (true, point(1, single(sparse()))),
        (true, paid),
        (true, unpaid),
    ] {
        let fake = Fake::start();
        fake.add_point(was());
        fake.add([2], &of_user("a"));
        let store = connect(&fake);
        let images = copies(&store, &numbers([1, 2]));
        fake.add_point(now.clone());
        let expected = if is_changed { numbers([1]) } else { vec![] };
        let changed = store.changed(&images).unwrap();
        assert_eq!(changed, expected.iter().cloned().collect(), "{now:?}");
        let left = store.remove(&images).unwrap();
        assert_eq!(left, expected.into_iter().collect(), "{now:?}");
        assert_eq!(
            fake.state().points.len(),
            usize::from(is_changed),
            "{now:?}"
        );
    }
}

#[test]
fn a_point_that_is_written_anew_after_its_removal_is_left() {
    let fake = Fake::start();
    fake.add(1..=3, &of_user("a"));
    let store = connect(&fake);
    let images = copies(&store, &numbers(1..=3));
    let again = point(2, vectors_output::VectorsOptions::Vector(dense(&[9.0])));
    fake.state().after_delete = Some(again.clone());
    let left = store.remove(&images).unwrap();
    assert_eq!(left, numbers([2]).into_iter().collect());
    let points: Vec<_> = fake.state().points.values().cloned().collect();
    assert_eq!(points, std::slice::from_ref(&again));
    store.put_back(&images).unwrap();
    let points: Vec<_> = fake.state().points.values().cloned().collect();
    assert_eq!(points.len(), 3);
    assert_eq!(points[1], again, "what is there is not overwritten");
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let fake = Fake::start();
    fake.add(1..=2, &of_user("a"));
    let store = connect(&fake);
    let images = take(&store, &numbers([1, 2]));
    let swapped = PointImage {
        id: PointId::Number(2),
        namespace: None,
        body: images[0].body.clone(),
    };
    let damaged = PointImage {
        id: PointId::Number(1),
        namespace: None,
        body: images[0].body[1..].to_vec(),
    };
    let mut config = fake.config();
    config.collection = "others".to_owned();
    let other = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    for (store, image) in [(&store, &swapped), (&store, &damaged), (&other, &images[0])] {
        let error = store.put_back(std::slice::from_ref(image)).unwrap_err();
        assert!(matches!(&error, VectorError::Malformed(_)), "{error}");
    }
    assert_eq!(fake.state().count_calls("upsert"), 0);
}
