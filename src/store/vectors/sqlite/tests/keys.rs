//! Point ids: every spelling in which one is found, and keys that are none.

use super::*;

#[test]
fn an_id_is_found_in_every_spelling() {
    let spelt = [
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'",
        "'6ba7b8109dad11d180b400c04fd430c2'",
        "'6BA7B810-9DAD-11D1-80B4-00C04FD430C3'",
        "'6BA7B8109DAD11D180B400C04FD430C4'",
        "x'6ba7b8109dad11d180b400c04fd430c5'",
        "'{6ba7b810-9dad-11d1-80b4-00c04fd430c6}'",
        "'urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c7'",
        "'6bA7b810-9dad-11d1-80b4-00c04fd430c8'",
        "'note-7'",
        "'007'",
        "7",
        "'8'",
    ];
    for kind in ["id TEXT PRIMARY KEY", "id PRIMARY KEY", "id"] {
        let world = World::new(&format!(
            "CREATE TABLE points({kind}, namespace TEXT, vector BLOB, payload TEXT)"
        ));
        for id in spelt {
            world.run(&format!(
                "INSERT INTO points VALUES ({id}, 'user:a', x'0000803f', NULL)"
            ));
        }
        let before = world.dump();
        let mut expected: Vec<PointId> = (1..=8)
            .map(|i| uuid(&format!("6ba7b810-9dad-11d1-80b4-00c04fd430c{i}")))
            .collect();
        expected.extend([PointId::Text("note-7".into()), PointId::Text("007".into())]);
        expected.extend(numbers([7, 8]));
        expected.sort();

        let store = world.open();
        let mut listed = ids(&store, Selector::All);
        listed.sort();
        assert_eq!(listed, expected, "{kind}");
        // A store that has listed nothing yet finds them as well.
        let store = world.open();
        assert_eq!(store.vectors(&expected).unwrap().len(), 12, "{kind}");
        let images = take(&store, &expected);
        assert_eq!(world.dump(), Vec::<String>::new(), "{kind}");
        store.put_back(&images).unwrap();
        assert_eq!(world.dump(), before, "{kind}");
    }
}

#[test]
fn a_number_never_finds_the_row_of_another_text() {
    let world = World::new(
        "CREATE TABLE points(id INTEGER UNIQUE, namespace TEXT, vector BLOB, payload TEXT);
         INSERT INTO points VALUES (7, 'user:a', NULL, NULL)",
    );
    let store = world.open();
    let lookalikes = ["007", "7.0", "+7", " 7", "7e0"].map(|text| PointId::Text(text.into()));
    assert_eq!(copies(&store, &lookalikes), []);
    take(&store, &numbers([7]));
    assert_eq!(world.dump().len(), 0);
}

#[test]
fn rows_that_are_one_point_are_left_and_keep_no_other() {
    let uuid = uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c1");
    for kind in ["id PRIMARY KEY", "id"] {
        for (twins, id) in [
            ("'7'), (7", PointId::Number(7)),
            (
                "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'), ('6BA7B810-9DAD-11D1-80B4-00C04FD430C1'",
                uuid.clone(),
            ),
            (
                "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'), ('{6ba7b810-9dad-11d1-80b4-00c04fd430c1}'",
                uuid.clone(),
            ),
            (
                "'6ba7b8109dad11d180b400c04fd430c1'), (x'6ba7b8109dad11d180b400c04fd430c1'",
                uuid.clone(),
            ),
        ] {
            let world = World::new(&format!(
                "CREATE TABLE points({kind}, namespace TEXT, vector BLOB, payload TEXT)"
            ));
            world.run("INSERT INTO points(id) VALUES (8)");
            let store = world.open();
            let before_its_twin = copies(&world.open(), &numbers([8]));
            world.run(&format!("INSERT INTO points(id) VALUES ({twins})"));
            let both = [id.clone(), PointId::Number(8)];
            let captured = store.capture(&both).unwrap();
            assert_eq!(captured.ambiguous, [id.clone()].into(), "{kind} {twins}");
            assert_eq!(captured.images, before_its_twin);
            assert_eq!(store.vectors(&both).unwrap(), []);
            let of_one = PointImage {
                id: id.clone(),
                ..before_its_twin[0].clone()
            };
            let left = store.remove(&[of_one, before_its_twin[0].clone()]).unwrap();
            assert_eq!(left, [id].into(), "{kind} {twins}");
            assert_eq!(world.dump().len(), 2, "{kind} {twins}");
        }
    }
}

#[test]
fn a_key_that_names_no_point_is_counted_and_not_shown() {
    for key in ["NULL", "-1", "1.5", "x'00ff'"] {
        let world = World::new(
            "CREATE TABLE points(id UNIQUE, namespace TEXT, vector BLOB, payload TEXT);
             INSERT INTO points(id, namespace, payload) VALUES (1, 'user:a', '{\"n\": 5}')",
        );
        world.run(&format!(
            "INSERT INTO points(id, namespace, payload) VALUES ({key}, 'user:a', '{{\"n\": 5}}')"
        ));
        let store = world.open();
        for keys in [&[][..], &["n"]] {
            let mut shown = Vec::new();
            let unnamed = store
                .scroll(Selector::All, keys, &mut |page| {
                    shown.extend(page.into_iter().map(|head| head.id));
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!((unnamed, shown), (1, numbers([1])), "{key}");
        }
        let mut found = store.find("user:a", "n", &["5".to_owned()]).unwrap();
        found.sort();
        let five = |id| ("5".to_owned(), id);
        assert_eq!(found, [five(None), five(Some(PointId::Number(1)))], "{key}");
    }
}
