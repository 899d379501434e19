//! What a file may say, and what is said of one that may not.

use toml::Value;

use super::*;

fn parse(text: &str) -> (File, Vec<String>) {
    let (file, problems) = File::parse(text).unwrap();
    (file, problems.iter().map(Problem::to_string).collect())
}

#[test]
fn every_unknown_key_is_reported_with_its_place_and_neighbours() {
    let (_, problems) = parse(
        "stat_dir = 1\n[shedule]\ncron = 'x'\n[[store]]\nname = 'a'\n  [store.rows]\n  \"crea\\u001bted\" = ''\n",
    );
    assert_eq!(
        problems,
        [
            "stat_dir is not a key (line 1, column 1): nearest is state_dir, snapshot_dir, guard",
            "shedule is not a key (line 2, column 2): nearest is schedule, store, undo",
            "store.a.rows.\"crea\\u{1b}ted\" is not a key (line 7, column 3): nearest is created_at, preset, path",
        ]
    );
}

#[test]
fn a_section_of_the_wrong_kind_hides_nothing_else_and_shows_no_content() {
    let (file, problems) = parse(
        "schedule = 3\nguard = [{ api_key = 'secret' }]\nundo = 'secret'\nstore = { name = 'secret' }\nstate_dir = 9223372036854775808\n",
    );
    assert_eq!(
        problems,
        [
            "guard = an array: allowed is a table",
            "schedule = 3: allowed is a table",
            "state_dir = 9223372036854775808: allowed is a number that fits in 64 bits",
            "store = a table: allowed is a list of tables, each under [[store]]",
            "undo = a string: allowed is a table",
        ]
    );
    assert!(!file.state_dir.is_given());
}

#[test]
fn a_store_is_called_by_its_name_or_by_its_index() {
    let (file, problems) = parse("store = [{ name = 'a' }, { name = 'b c' }, {}, 4]");
    let paths: Vec<_> = file.store.iter().map(|store| store.at.as_str()).collect();
    assert_eq!(paths, ["store.a", "store[1]", "store[2]"]);
    assert_eq!(problems, ["store[3] = 4: allowed is a table"]);
    assert_eq!(file.store[1].rows.path.field, "store[1].rows.path");
}

#[test]
fn what_is_written_wins_over_its_base_key_by_key() {
    let (above, _) = parse("[pass.ttl]\nenabled = false\n[pass.review]\nper_week = 1");
    let (below, _) = parse("[pass.ttl]\nenabled = true\nsuperseded_retention = 'never'");
    let pass = above.pass.over(below.pass);
    assert_eq!(pass.ttl.enabled.value, Some(Value::Boolean(false)));
    assert_eq!(pass.ttl.superseded_retention.text(), Some("never"));
    assert_eq!(pass.review.per_week.value, Some(Value::Integer(1)));
    assert!(pass.ttl.is_present && !pass.decay.is_present);
}

#[test]
fn every_place_that_is_not_toml_is_named_and_nothing_is_repeated() {
    let text = "state_dir = \"ok\"\napi_key = \"secret\nx = = 2\n";
    let errors = File::parse(text).err().unwrap();
    assert!(
        errors.iter().any(|error| error.place.line == 2),
        "{errors:?}"
    );
    assert!(
        errors.iter().any(|error| error.place.line == 3),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .all(|error| !error.to_string().contains("secret"))
    );
    let twice = File::parse("a = 1\na = 2\n").err().unwrap();
    assert_eq!(twice[0].to_string(), "line 2, column 1: duplicate key");
}
