//! Forgetting an owner who is in pairs of snapshots, too.

use super::*;

const FORGET_PAIRS: [&str; 5] = ["forget", "user:ana", "--snapshots", "--yes", "--json"];

/// Takes a pair; its name.
pub(super) fn pair(world: &World) -> String {
    let taken = world.run(&["snapshot", "now", "--json"]).expect(0);
    let line = taken.objects("pair").remove(0);
    line["pair"].as_str().unwrap().to_owned()
}

/// The pairs on the shelf, each of which verifies.
fn pairs(world: &World) -> Vec<String> {
    let _ = world.run(&["snapshot", "verify"]).expect(0);
    let listed = world.run(&["snapshot", "list", "--json"]).expect(0);
    let lines = listed.objects("pair");
    let names = lines.iter().map(|pair| pair["pair"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The pairs that a certificate says remain, with whether they could be removed, and why.
fn pairs_left(certificate: &Value) -> Vec<(String, bool, String)> {
    let remaining = certificate["stores"][0]["remaining"].as_array().unwrap();
    let pairs = remaining.iter().filter(|it| it["what"] == "pair");
    pairs
        .map(|it| {
            let place = Path::new(it["place"].as_str().unwrap());
            let name = place.file_name().unwrap().to_str().unwrap().to_owned();
            let why = it["why"].as_str().unwrap().to_owned();
            (name, it["unfinished"] == true, why)
        })
        .collect()
}

/// No pair can have words of hers.
fn nothing_names_ana(world: &World, certificate: &Value) {
    let remaining = certificate["stores"][0]["remaining"].as_array().unwrap();
    let mut said = remaining.iter();
    assert!(
        !said.any(|it| it["what"] == "older_pairs"),
        "{certificate:#}"
    );
    assert_eq!(found(world, "user:ana"), [""; 0], "{certificate:#}");
}

#[test]
fn a_pair_that_holds_it_is_named_and_goes_when_that_is_wanted() {
    for backend in BACKENDS {
        let world = world(backend);
        let old = [pair(&world), pair(&world)];
        let named = certificate(&world.run(&FORGET).expect(0));
        let left = pairs_left(&named);
        let names: Vec<_> = left.iter().map(|(name, ..)| name.clone()).collect();
        assert_eq!(names, old, "{named:#}");
        for (_, unfinished, why) in &left {
            assert!(!unfinished && why.contains("3 rows and 3 points"), "{why}");
        }
        assert!(
            found(&world, MARKER)
                .iter()
                .all(|file| file.starts_with("snapshots"))
        );
        assert!(!found(&world, MARKER).is_empty());

        // All of them hold it: a new one is there before the first of them goes.
        let dry = [&FORGET_PAIRS[..], &["--dry-run"]].concat();
        let dry = certificate(&world.run(&dry).expect(0));
        assert_eq!(removed(&dry), counts(&[("pair", 2)]), "{dry:#}");
        assert_eq!(pairs(&world), old);
        let done = certificate(&world.run(&FORGET_PAIRS).expect(0));
        assert_eq!(removed(&done), counts(&[("pair", 2)]), "{done:#}");
        assert_eq!(pairs_left(&done), []);
        let new = done["stores"][0]["new_pair"].as_str().unwrap().to_owned();
        assert_eq!(pairs(&world), [new.as_str()]);
        assert_eq!(found(&world, MARKER), [""; 0], "{backend:?}");
        nothing_names_ana(&world, &done);

        // There is nothing left to do, and the others are in the pair.
        let again = certificate(&world.run(&FORGET_PAIRS).expect(0));
        assert_eq!(removed(&again), counts(&[]), "{again:#}");
        assert_eq!(pairs(&world), [new.as_str()]);
        let before = theirs(&world);
        world.rows().execute("DELETE FROM memories", []).unwrap();
        let _ = world.run(&["snapshot", "restore", &new]).expect(0);
        assert_eq!(theirs(&world), before);
        assert_eq!(world.ids(), [5, 6].into());
    }
}

#[test]
fn no_pair_goes_before_there_is_a_good_one() {
    let world = world(Backend::Sqlite);
    let old = pair(&world);
    for point in [Failpoint::RowsCopied, Failpoint::PairPublished] {
        let fails = format!("{}=return(error)", point.as_str());
        let mut command = world.command(&FORGET_PAIRS);
        let failed = Output::of(command.env("FAILPOINTS", fails)).expect(1);
        let said = &failed.objects("error")[0];
        assert_eq!(said["exit"], 1, "{failed:#?}");
        let doing = said["error"].as_str().unwrap();
        assert!(doing.starts_with("forget it in the pairs"), "{failed:#?}");
        let failed = certificate(&failed);
        let left = pairs_left(&failed);
        assert_eq!((&left[0].0, left[0].1), (&old, true), "{failed:#}");
        assert!(pairs(&world).contains(&old), "{point}");
        assert_eq!(world.ids(), [5, 6].into());
        let status = world.run(&["status", "--json"]).expect(0);
        assert_eq!(status.objects("status")[0]["forgetting"], 1);
    }
    // It was wanted: the next night does it, whatever pair was published meanwhile.
    let _ = world.run(&["--run-now", "--only", "decay"]).expect(0);
    assert!(!pairs(&world).contains(&old) && !pairs(&world).is_empty());
    assert_eq!(found(&world, MARKER), [""; 0]);
}

#[test]
fn a_newer_pair_without_it_is_enough_if_it_is_good() {
    for is_good in [true, false] {
        let world = world(Backend::Sqlite);
        let old = pair(&world);
        let _ = world.run(&FORGET).expect(0);
        let newer = pair(&world);
        if !is_good {
            let rows = world.path("snapshots/agent").join(&newer).join("rows-1.db");
            let mut bytes = std::fs::read(&rows).unwrap();
            bytes[100] ^= 1;
            std::fs::write(&rows, bytes).unwrap();
        }
        let done = certificate(&world.run(&FORGET_PAIRS).expect(0));
        assert_eq!(removed(&done), counts(&[("pair", 1)]), "{done:#}");
        assert_eq!(done["stores"][0]["new_pair"].is_null(), is_good, "{done:#}");
        assert!(!world.path("snapshots/agent").join(old).exists());
        assert!(world.path("snapshots/agent").join(newer).exists());
        assert_eq!(found(&world, MARKER), [""; 0]);
    }
}

#[test]
fn a_pair_of_which_it_is_not_known_is_said_and_left_alone() {
    let world = world(Backend::Sqlite);
    let damaged = pair(&world);
    let manifest = world
        .path("snapshots/agent")
        .join(&damaged)
        .join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("user:ana", "user:eva")).unwrap();
    let killed = Output::of(
        world
            .command(&["snapshot", "now"])
            .env("FAILPOINTS", "pair.points_copied=return(kill)"),
    );
    assert_eq!(killed.code, None);
    // Nobody asked that it goes: it is named.
    let done = certificate(&world.run(&FORGET).expect(0));
    let named = |(pair, unfinished, _): &(String, bool, String)| *pair == damaged && !unfinished;
    assert!(pairs_left(&done).iter().any(named), "{done:#}");
    let done = certificate(&world.run(&FORGET_PAIRS).expect(3));
    // What is left of one that was never whole is no loss.
    assert_eq!(removed(&done)["pair"], 1, "{done:#}");
    let left = pairs_left(&done);
    assert_eq!(left.len(), 1, "{done:#}");
    assert_eq!((&left[0].0, left[0].1), (&damaged, true));
    for said in ["not known", "remove the folder by hand"] {
        assert!(left[0].2.contains(said), "{left:?}");
    }
    assert!(manifest.exists());
    // It is not forgotten that it is to be forgotten, and a person ends it.
    let forgetting = || {
        let status = world.run(&["status", "--json"]);
        status.objects("status")[0]["forgetting"].clone()
    };
    let _ = world.run(&["--run-now", "--only", "decay"]).expect(3);
    assert_eq!(forgetting(), 1);
    std::fs::remove_dir_all(manifest.parent().unwrap()).unwrap();
    let _ = world.run(&["--run-now", "--only", "decay"]).expect(0);
    assert!(forgetting().is_null());
    let _ = world.run(&FORGET_PAIRS).expect(0);
}

#[test]
fn pairs_are_dropped_to_the_end_whatever_step_it_was_killed_at() {
    for backend in BACKENDS {
        for point in [
            Failpoint::ForgetOverwritten,
            Failpoint::ForgetPairsBefore,
            Failpoint::PairBegun,
            Failpoint::RowsCopied,
            Failpoint::PointsCopied,
            Failpoint::ManifestWritten,
            Failpoint::PairPublished,
            Failpoint::PairDropBefore,
            Failpoint::PairDropped,
            Failpoint::ForgetPairsDone,
        ] {
            let world = world(backend);
            let _ = pair(&world);
            let killed = Output::of(
                world
                    .command(&FORGET_PAIRS)
                    .env("FAILPOINTS", format!("{}=return(kill)", point.as_str())),
            );
            assert_eq!(killed.code, None, "{point}: {killed:#?}");
            assert!(!pairs(&world).is_empty(), "{backend:?} {point}: no pair");
            let _ = world.run(&["--run-now", "--only", "decay"]).expect(0);
            assert_eq!(pairs(&world).len(), 1, "{backend:?} {point}");
            assert_eq!(found(&world, MARKER), [""; 0], "{backend:?} {point}");
            assert_eq!(world.ids(), [5, 6].into(), "{backend:?} {point}");
            let status = world.run(&["status", "--json"]).expect(0);
            assert_eq!(status.objects("status")[0]["forgetting"], Value::Null);
        }
    }
}

/// What brings a memory back to the agent: rows, points, the text index, the questions.
fn traces_of_ana(world: &World) -> (i64, usize, i64, usize) {
    let count = |sql: &str| world.rows().query_row(sql, [], |row| row.get(0)).unwrap();
    let points = world.all_points().into_values();
    let review = world.run(&["review", "--json"]).expect(0);
    let entries = review
        .stdout
        .lines()
        .filter(|line| line.contains("user:ana"));
    (
        count("SELECT count(*) FROM memories WHERE user_id = 'ana'"),
        points
            .filter(|it| it.namespace.as_deref() == Some("user:ana"))
            .count(),
        count("SELECT count(*) FROM memories_fts WHERE memories_fts MATCH 'zanzibar4477'"),
        entries.count(),
    )
}

#[test]
fn a_pair_from_before_it_was_forgotten_brings_nothing_back() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure(
            "[pass.review]\nenabled = false",
            "[pass.review]\nstale_after = \"1h\"",
        );
        world
            .rows()
            .execute("UPDATE memories SET created_at = created_at - 7200", [])
            .unwrap();
        let _ = world.run(&["--run-now", "--only", "review"]).expect(0);
        let (rows, points, words, entries) = traces_of_ana(&world);
        assert!(
            rows == 3 && points == 3 && words == 3 && entries > 0,
            "{entries}"
        );
        let before = pair(&world);
        let others = theirs(&world);
        let _ = world.run(&FORGET).expect(0);
        assert_eq!(traces_of_ana(&world), (0, 0, 0, 0));
        let restore = ["snapshot", "restore", &before, "--bring-back"];
        let _ = world.run(&restore).expect(0);
        assert_eq!(traces_of_ana(&world), (0, 0, 0, 0), "{backend:?}");
        assert_eq!(theirs(&world), others);
        let live: Vec<_> = found(&world, MARKER)
            .into_iter()
            .filter(|file| !file.starts_with("snapshots"))
            .collect();
        assert_eq!(live, [""; 0], "{backend:?}");
        let _ = world.run(&["--run-now", "--only", "review"]).expect(0);
        assert_eq!(traces_of_ana(&world), (0, 0, 0, 0), "{backend:?}");
    }
}
