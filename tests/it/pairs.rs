//! Which pairs of a folder count: those of the store itself whose files are there, the newest of them last.

use std::fs;
use std::path::{Path, PathBuf};

use qdrant_peer::Peer;
use serde_json::{Value, json};

use crate::snapshot::{age, names, pairs, shelf, world};
use crate::support::{Backend, DAY, Output, World, now, qdrant, write};

/// Another configuration of a store of the same name in the same `snapshot_dir`, and a pair of it, taken days ago.
struct Other<'a> {
    world: &'a World,
    pair: String,
}

impl<'a> Other<'a> {
    fn beside(world: &'a World) -> Self {
        let config = world.copied_to("b").replace("\"state\"", "\"state-b\"");
        write(&world.path("b.toml"), &config);
        let mut other = Self {
            world,
            pair: String::new(),
        };
        other.run(&["snapshot", "now"]).expect(0);
        other.pair = age(world, &names(world)[0], 9);
        other
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = crate::support::hypnos();
        command
            .arg("--config")
            .arg(self.world.path("b.toml"))
            .args(args);
        Output::of(&mut command)
    }

    /// A capture of it that was killed: the name of what is left.
    fn killed(&self) -> String {
        let mut command = crate::support::hypnos();
        command
            .arg("--config")
            .arg(self.world.path("b.toml"))
            .args(["snapshot", "now"])
            .env("FAILPOINTS", "pair.rows_copied=return(kill)");
        let killed = Output::of(&mut command);
        assert_eq!(killed.code, None, "{killed:#?}");
        let names = names(self.world);
        names
            .into_iter()
            .find(|name| name.starts_with('.'))
            .unwrap()
    }

    fn require_whole(&self) {
        self.run(&["snapshot", "verify", &self.pair]).expect(0);
    }
}

#[test]
fn a_pair_of_another_configuration_is_no_first_pair_and_never_expires() {
    let mut world = world();
    world.configure(
        "[[store]]",
        "[pass.snapshot]\nkeep_daily = 1\nkeep_weekly = 0\nkeep_monthly = 0\n[[store]]",
    );
    world.memory("ana", now() - 40 * DAY, Some(7));
    let other = Other::beside(&world);
    let night = world.night().expect(0);
    let pass = night.pass("snapshot");
    assert_eq!(pass["applied"], json!({"snapshot": 2}), "{night:#?}");
    assert!(
        pass["degraded"][0]
            .as_str()
            .unwrap()
            .contains("pair of other stores: rows.path"),
        "{pass:#}"
    );
    other.require_whole();
    let listed: Vec<bool> = pairs(&world)
        .iter()
        .map(|pair| pair["other_store"].is_string())
        .collect();
    assert_eq!(listed, [false, false, true]);
    let status = world.run(&["status", "--json"]).expect(0);
    let status = &status.objects("status")[0];
    assert_eq!(
        (&status["pairs"], &status["foreign_pairs"]),
        (&json!(2), &json!(1))
    );
    assert_ne!(status["newest_pair"]["pair"], *other.pair);
}

#[test]
fn a_pair_of_another_configuration_is_not_forgotten_from_and_not_restored() {
    let world = world();
    let other = Other::beside(&world);
    world.run(&["snapshot", "now"]).expect(0);
    for (args, code) in [(&[][..], 0), (&["--snapshots"][..], 3)] {
        let args = [&["forget", "user:ana", "--yes", "--json"], args].concat();
        let forgotten = world.run(&args).expect(code);
        let stores = &forgotten.objects("certificate")[0]["stores"];
        let remaining = stores[0]["remaining"].as_array().unwrap();
        let theirs: Vec<&Value> = remaining
            .iter()
            .filter(|copy| copy["place"].to_string().contains(&other.pair))
            .collect();
        assert!(
            theirs.len() == 1 && theirs[0].to_string().contains("it was not touched"),
            "{forgotten:#?}"
        );
        other.require_whole();
    }
    let restored = world.run(&["snapshot", "restore", &other.pair]).expect(3);
    assert!(
        restored.stderr.contains("configure the store as it was"),
        "{restored:#?}"
    );
    assert!(restored.stderr.contains("rows.path was"), "{restored:#?}");
}

type Spoil = fn(&Path);

/// What a failing disk, or a person, makes of a pair.
const SPOILT: [(&str, Spoil); 6] = [
    ("no rows", |pair| {
        fs::remove_file(pair.join("rows-1.db")).unwrap();
    }),
    ("short rows", |pair| {
        let file = fs::File::options()
            .write(true)
            .open(pair.join("rows-1.db"))
            .unwrap();
        file.set_len(4096).unwrap();
    }),
    ("no rows but their size", |pair| {
        garbage(&pair.join("rows-1.db"), 0);
    }),
    ("a good first page of the rows", |pair| {
        garbage(&pair.join("rows-1.db"), 4096);
    }),
    ("no points", |pair| {
        fs::remove_file(pair.join("vectors.db")).unwrap();
    }),
    ("no points but their size", |pair| {
        garbage(&pair.join("vectors.db"), 0);
    }),
];

fn garbage(path: &Path, from: usize) {
    let mut bytes = fs::read(path).unwrap();
    assert!(bytes.len() > from, "{}", path.display());
    bytes[from..].fill(0xa5);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_newest_pair_is_none_and_keeps_no_other_from_being_taken() {
    for (what, spoil) in SPOILT {
        let mut world = world();
        world.night().expect(0);
        let [damaged] = names(&world).try_into().unwrap();
        spoil(&shelf(&world).join(&damaged));
        world.memory("ana", now() - 40 * DAY, Some(7));
        let night = world.night().expect(0);
        assert_eq!(night.pass("ttl")["applied"], json!({"delete": 1}), "{what}");
        let pass = night.pass("snapshot");
        assert_eq!(pass["outcome"], "applied", "{what}: {pass:#}");
        assert!(
            pass["degraded"].to_string().contains(&damaged),
            "{what}: {pass:#}"
        );
        let is_seen_before = what != "a good first page of the rows";
        let expected = 1 + u64::from(is_seen_before);
        assert_eq!(pass["applied"]["snapshot"], expected, "{what}: {pass:#}");
        world.night().expect(0);
        assert_eq!(names(&world).len() as u64, 1 + expected, "{what}");
    }
}

#[test]
fn a_damaged_newest_pair_is_taken_anew_of_a_store_that_did_not_change() {
    for (what, spoil) in SPOILT {
        if what == "a good first page of the rows" {
            continue;
        }
        let world = world();
        world.night().expect(0);
        let [damaged] = names(&world).try_into().unwrap();
        spoil(&shelf(&world).join(&damaged));
        let status = world.run(&["status", "--json"]).expect(3);
        let status = &status.objects("status")[0];
        assert_eq!(status["damaged_pairs"][0]["partition"], *damaged, "{what}");
        assert_eq!(status["newest_pair"], Value::Null, "{what}");
        assert!(
            status["attention"]
                .to_string()
                .contains("1 pair cannot be believed"),
            "{what}: {status:#}"
        );
        let night = world.night().expect(0);
        assert_eq!(
            night.pass("snapshot")["applied"],
            json!({"snapshot": 1}),
            "{what}"
        );
        let status = world.run(&["status", "--json"]).expect(3);
        assert_eq!(status.objects("status")[0]["pairs"], 1, "{what}");
        assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
    }
}

/// An older pair does not do: what happened since is in none.
#[test]
fn before_something_goes_a_pair_is_taken_in_place_of_a_damaged_newest() {
    let mut world = world();
    world.night().expect(0);
    world.memory("bob", now(), None);
    world.night().expect(0);
    let [_, damaged] = names(&world).try_into().unwrap();
    fs::remove_file(shelf(&world).join(&damaged).join("rows-1.db")).unwrap();
    world.memory("ana", now() - 40 * DAY, Some(7));
    let dry = world.run(&["--dry-run", "--json"]).expect(0);
    assert_eq!(
        dry.plan("snapshot")["upkeep"],
        json!([{"action": "snapshot", "reason": "first"}, {"action": "snapshot", "reason": "changed"}])
    );
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("snapshot")["applied"],
        json!({"snapshot": 2}),
        "{night:#?}"
    );
}

#[test]
fn what_the_agent_writes_after_the_copy_is_for_the_next_night() {
    let mut world = world();
    let night = world.held(&["--run-now", "--json"], "pair.published=1*return(hold)");
    assert!(names(&world).iter().any(|name| !name.starts_with('.')));
    world.memory("ana", now(), None);
    let _ = night.let_go().expect(0);
    assert_eq!(
        world.night().expect(0).pass("snapshot")["applied"],
        json!({"snapshot": 1})
    );
}

#[test]
fn a_killed_capture_of_the_same_second_takes_no_name_from_a_later_pair() {
    let mut world = world();
    world.memory("ana", now() - 40 * DAY, Some(7));
    let killed = |second: i64| -> PathBuf {
        let at = jiff::Timestamp::from_second(second).unwrap();
        let name = at.strftime(".%Y-%m-%dT%H-%M-%SZ.partial").to_string();
        shelf(&world).join(name)
    };
    // The night is in one of them.
    for second in now()..now() + 120 {
        fs::create_dir_all(killed(second)).unwrap();
    }
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("snapshot")["applied"],
        json!({"drop_pair": 120, "snapshot": 2})
    );
    let memories: Vec<_> = pairs(&world)
        .iter()
        .map(|pair| pair["memories"].as_i64().unwrap())
        .collect();
    assert_eq!(memories, [4, 3], "the newest is the last");
    assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
}

#[test]
fn a_folder_that_cannot_be_looked_at_is_not_one_without_the_pair() {
    let world = world();
    fs::create_dir(world.path("snapshots")).unwrap();
    fs::write(shelf(&world), "in the way").unwrap();
    let restored = world
        .run(&["snapshot", "restore", "2026-11-30T03-00-00Z"])
        .expect(1);
    assert!(
        restored.stderr.contains("look at ") && !restored.stderr.contains("no pair"),
        "{restored:#?}"
    );
}

#[test]
fn a_pair_with_a_link_in_it_is_damaged() {
    use std::os::unix::fs::symlink;
    for file in ["manifest.json", "rows-1.db", "vectors.db"] {
        let world = world();
        world.run(&["snapshot", "now"]).expect(0);
        let [pair] = names(&world).try_into().unwrap();
        let path = shelf(&world).join(&pair).join(file);
        fs::rename(&path, world.path("elsewhere")).unwrap();
        symlink(world.path("elsewhere"), &path).unwrap();
        let list = world.run(&["snapshot", "list", "--json"]).expect(3);
        let line = &list.objects("pair")[0];
        assert_eq!(line["verified"], false, "{file}: {line}");
        let problem = line["problem"].as_str().unwrap();
        assert!(problem.contains("is a link"), "{file}: {problem}");
        for args in [&["verify"][..], &["verify", &pair]] {
            let args = [&["snapshot"], args, &["--json"]].concat();
            let verify = world.run(&args).expect(1);
            let line = &verify.objects("pair")[0];
            assert_eq!(line["verified"], false, "{file}: {verify:#?}");
        }
        let before = (world.dump(), world.all_points());
        let restored = world.run(&["snapshot", "restore", &pair]).expect(1);
        assert!(restored.stderr.contains("is a link"), "{restored:#?}");
        assert_eq!((world.dump(), world.all_points()), before);
        // The folder itself may be on another disk.
        fs::remove_file(&path).unwrap();
        fs::rename(world.path("elsewhere"), &path).unwrap();
        fs::rename(path.parent().unwrap(), world.path("elsewhere")).unwrap();
        symlink(world.path("elsewhere"), path.parent().unwrap()).unwrap();
        world.run(&["snapshot", "verify", &pair]).expect(0);
    }
}

#[test]
fn what_another_configuration_has_begun_is_left_and_named() {
    let world = world();
    let other = Other::beside(&world);
    let begun = other.killed();
    let inside = || crate::support::files(&shelf(&world).join(&begun));
    let before = inside();
    assert!(!before.is_empty());
    for _ in 0..2 {
        let night = world.night().expect(0);
        let degraded = night.pass("snapshot")["degraded"].to_string();
        assert!(degraded.contains(&begun), "{night:#?}");
        assert!(inside() == before);
    }
    let list = world.run(&["snapshot", "list", "--json"]).expect(0);
    let line = &list.objects("partial")[0];
    assert_eq!(line["partial"], json!(begun), "{list:#?}");
    assert!(
        line["other_store"].to_string().contains("rows.path"),
        "{line}"
    );
    let forget = ["forget", "user:ana", "--snapshots", "--yes", "--json"];
    let forgot = world.run(&forget).expect(3);
    assert!(forgot.stdout.contains(&begun), "{forgot:#?}");
    assert!(inside() == before);
    // What it has begun itself goes, and so does what is empty.
    fs::create_dir(shelf(&world).join(".2026-01-01T00-00-00Z.partial")).unwrap();
    other.run(&["--run-now", "--only", "snapshot"]).expect(0);
    assert!(names(&world).iter().all(|name| !name.starts_with('.')));
    other.require_whole();
}

#[test]
fn what_a_killed_drop_has_left_of_a_pair_goes_with_the_next_night() {
    let mut world = world();
    world.configure(
        "[[store]]",
        "[pass.snapshot]\nkeep_daily = 1\nkeep_weekly = 0\nkeep_monthly = 0\n[[store]]",
    );
    world.run(&["snapshot", "now"]).expect(0);
    age(&world, &names(&world)[0], 9);
    world.memory("ana", now(), None);
    let killed = world.night_with("pair.dropped=return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    assert!(names(&world).iter().any(|name| name.starts_with('.')));
    let _ = world.night().expect(0);
    assert!(names(&world).iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_server_that_is_away_says_nothing_of_a_pair() {
    let mut world = World::new(Backend::Qdrant);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.run(&["snapshot", "now"]).expect(0);
    world.run(&["snapshot", "verify"]).expect(0);
    let config = world.config.clone();
    let rest = config
        .lines()
        .find(|line| line.starts_with("rest_url"))
        .expect("the address of the server")
        .to_owned();
    world.configure(&rest, "rest_url = \"http://127.0.0.1:1\"");
    let verify = world.run(&["snapshot", "verify"]).expect(1);
    assert!(
        verify.stdout.contains("could not be verified: "),
        "{verify:#?}"
    );
    let verify = world.run(&["snapshot", "verify", "--json"]).expect(1);
    let line = &verify.objects("pair")[0];
    assert!(
        line["problem"].to_string().contains("127.0.0.1:1"),
        "{line}"
    );
    assert_eq!(line.get("verified"), None);
}

#[test]
fn without_its_server_no_way_out_is_offered_that_needs_it() {
    let mut peer = Peer::start();
    let mut world = World::at(Backend::Qdrant, tempfile::tempdir().unwrap(), || peer.url());
    let rest = format!("rest_url = \"{}\"", peer.rest_url());
    world.configure(&format!("rest_url = \"{}\"", qdrant::rest_url()), &rest);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.run(&["snapshot", "now"]).expect(0);
    let [pair] = names(&world).try_into().unwrap();
    peer.stop();
    let restored = world.run(&["snapshot", "restore", &pair]);
    assert_ne!(restored.code, Some(0));
    let address = peer.url();
    assert!(restored.stderr.contains(&address), "{restored:#?}");
    assert!(
        restored.stderr.contains("is the server running")
            && !restored.stderr.contains("--no-safety-pair"),
        "{restored:#?}"
    );
}

#[test]
fn a_certificate_goes_where_a_link_leads_and_into_what_is_no_file() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let world = world();
    let at = |name: &str| world.path(name);
    symlink("nowhere", at("dangling")).unwrap();
    let forget = ["forget", "user:ana", "--yes", "--certificate"];
    let to = |name: &str| world.run(&[&forget[..], &[name]].concat());
    to(at("dangling").to_str().unwrap()).expect(2);
    assert_eq!(
        world.ids().len(),
        3,
        "nothing is erased before there is a place for the proof"
    );

    write(&at("proof.json"), "old");
    symlink("proof.json", at("link")).unwrap();
    to(at("link").to_str().unwrap()).expect(0);
    assert!(at("link").is_symlink());
    let proof = fs::read_to_string(at("proof.json")).unwrap();
    assert!(proof.contains("namespace_hash"), "{proof}");

    symlink("/dev/null", at("null")).unwrap();
    to(at("null").to_str().unwrap()).expect(0);
    let device = fs::metadata(at("null")).unwrap().file_type();
    assert!(at("null").is_symlink() && device.is_char_device());
}
