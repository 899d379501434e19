//! Vectors that point nowhere.

use super::*;

/// Bad vectors, each with what is wrong with it.
fn bad() -> [(&'static str, Vec<f32>); 5] {
    let with = |number: f32| {
        let mut vector = vector(1);
        vector[3] = number;
        vector
    };
    [
        ("all zero", vec![0.0; DIM.into()]),
        ("NaN", with(f32::NAN)),
        ("infinite", with(f32::NEG_INFINITY)),
        ("too short", vector(1)[1..].to_vec()),
        ("empty", Vec::new()),
    ]
}

#[test]
fn memories_whose_vector_has_no_direction_are_counted_every_night_and_compared_by_their_text() {
    for (what, bad) in bad() {
        let mut world = world(Backend::Sqlite);
        for (id, text) in (10..).zip(["alpha bravo", "charlie delta", "echo foxtrot"]) {
            say(&mut world, "ana", text, vector(id));
        }
        let stays = say(&mut world, "ana", "User likes harbours", bad.clone());
        let goes = say(&mut world, "ana", "user likes HARBOURS!", bad.clone());
        let other = say(&mut world, "ana", "The user likes harbours", bad);
        let night = world.night().expect(0);
        let pass = night.pass("duplicates");
        assert_eq!(
            pass["findings"],
            json!({"without_vector": 3}),
            "{what}: {pass:#}"
        );
        assert_eq!(hidden(&world).len(), 1, "{what}: the same letters");
        assert!(live(&world).contains(&other), "{what}: {stays} {goes}");
        assert_eq!(asked(&world), BTreeSet::new(), "{what}");
        for _ in 0..2 {
            let night = world.night().expect(0);
            let findings = &night.pass("duplicates")["findings"];
            assert_eq!(*findings, json!({"without_vector": 2}), "{what}");
        }
        let told = world.run(&["--run-now"]).expect(0).stdout;
        let words = "2 live memories have no vector that can be compared";
        assert!(told.contains(words), "{what}: {told}");
    }
}

#[test]
fn most_vectors_of_a_namespace_may_be_placeholders_of_another_length() {
    let mut world = world(Backend::Sqlite);
    for text in ["alpha bravo", "charlie delta", "echo foxtrot"] {
        say(&mut world, "ana", text, vec![0.0; 3]);
    }
    say(&mut world, "ana", "User likes harbours", vector(1));
    say(&mut world, "ana", "The user likes harbours", vector(1));
    let night = world.night().expect(0);
    let findings = &night.pass("duplicates")["findings"];
    assert_eq!(*findings, json!({"without_vector": 3}), "{night:#?}");
    assert_eq!(hidden(&world).len(), 1, "{night:#?}");
}
