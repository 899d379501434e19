//! Stores: what they are made of, and how they keep apart.

use super::*;
use crate::config::{Backend, PointRule};
use crate::memory::Role;

#[test]
fn a_table_of_points_has_its_defaults() {
    let table = |text: &str| match only_store(text).vectors.unwrap().backend {
        Backend::Sqlite(table) => table,
        Backend::Qdrant(other) => panic!("{other:?}"),
    };
    let defaults = table(&with(PLAIN, "[store.vectors]\nkind = 'sqlite'"));
    assert_eq!(defaults.path, Path::new("/etc/hypnos/m.db"));
    assert_eq!(
        (defaults.table.as_str(), defaults.id[0].as_str()),
        ("points", "id")
    );
    assert_eq!(
        (defaults.vector.as_str(), defaults.payload.as_deref()),
        ("vector", Some("payload"))
    );
    let own = table(&with(
        PLAIN,
        "[store.vectors]\nkind = 'sqlite'\npath = './v/../points.db'\npayload = ''",
    ));
    assert_eq!(own.path, Path::new("/etc/hypnos/v/../points.db"));
    assert_eq!(own.payload, None);
}

#[test]
fn stores_keep_apart() {
    let two = |a: &str, b: &str| {
        let store = |name: &str, more: &str| {
            format!("[[store]]\nname = '{name}'\nrows.path = '{name}.db'\n{more}\n")
        };
        format!("{}{}", store("a", a), store("b", b))
    };
    let qdrant = "vectors.kind = 'qdrant'";
    let sqlite = "vectors.kind = 'sqlite'\nvectors.path = 'p.db'";
    let off = "pass.orphans.enabled = false";
    let one_off = two(&format!("{qdrant}\n{off}"), qdrant);
    let each_would = "each would take the points of the other for orphans";
    for (text, shown) in [
        (
            two(qdrant, qdrant),
            "collection \"memories\" at http://127.0.0.1:6334, scope \"world\"",
        ),
        (
            two(
                qdrant,
                &format!("{qdrant}\nvectors.url = 'http://localhost:6334/'"),
            ),
            "collection",
        ),
        (
            two(
                sqlite,
                "vectors.kind = 'sqlite'\nvectors.path = './x/../p.db'\nvectors.table = 'Points'",
            ),
            "table \"Points\"",
        ),
        (one_off, "collection"),
        (
            two(
                &format!("{qdrant}\nvectors.where = {{ kind = 'memory' }}"),
                &format!("{qdrant}\nvectors.where = {{ kind = ['memory', 'edge'] }}"),
            ),
            "collection",
        ),
    ] {
        let found = lines(&text);
        assert_eq!(found.len(), 1, "{found:?}\n{text}");
        assert!(
            found[0].starts_with(&format!("store.b.vectors = {shown}")),
            "{found:?}"
        );
        assert!(
            found[0].ends_with(each_would) && found[0].contains("store a"),
            "{found:?}"
        );
    }
    for apart in [
        two(
            &format!("{qdrant}\nvectors.where = {{ kind = 'memory' }}"),
            &format!("{qdrant}\nvectors.where = {{ kind = ['node', 'edge'] }}"),
        ),
        two(&format!("{qdrant}\n{off}"), &format!("{qdrant}\n{off}")),
        two(qdrant, &format!("{qdrant}\nvectors.collection = 'other'")),
        two(
            qdrant,
            &format!("{qdrant}\nvectors.url = 'http://127.0.0.1:7334'"),
        ),
        two(qdrant, &format!("{qdrant}\nvectors.namespace = 'user:ana'")),
        two(sqlite, &format!("{sqlite}\nvectors.table = 'other'")),
        two(qdrant, sqlite),
        two("", ""),
    ] {
        valid(&apart);
    }
    let same_rows = two("rows.table = 'notes'", "rows.table = 'NOTES'");
    let found = lines(&same_rows.replace("'b.db'", "'./x/../a.db'"));
    assert_eq!(
        found,
        [
            "store.b.rows.path = \"/etc/hypnos/x/../a.db\": allowed is a database or table that store a does not have"
        ]
    );
    valid(&two("rows.table = 'notes'", "rows.table = 'facts'").replace("'b.db'", "'a.db'"));
}

#[test]
fn the_nearest_word_wins() {
    let text = "[pass.ttl]\nsuperseded_retention = '30d'\n[pass.review]\nper_week = 5\n\
        [[store]]\nname = 'b'\nrows = { path = 'b.db', preset = 'bitemporal' }\n\
        [[store]]\nname = 'c'\nrows = { path = 'c.db', preset = 'bitemporal' }\n\
        [store.pass.ttl]\nsuperseded_retention = '1d'\n[store.pass.review]\nstale_after = '1d'\n";
    let retention = |text: &str| -> Vec<_> {
        let stores = valid(text).stores;
        stores
            .iter()
            .map(|store| store.passes.ttl.superseded_retention)
            .collect()
    };
    assert_eq!(retention(text), [None, Some(days(1))]);
    let stores = valid(text).stores;
    assert_eq!(stores[0].passes.review.per_week, 5);
    assert_eq!(stores[1].passes.review.per_week, 5);
    assert_eq!(stores[1].passes.review.stale_after, days(1));
    let without_preset = text.replace(", preset = 'bitemporal'", "");
    assert_eq!(retention(&without_preset), [Some(days(30)), Some(days(1))]);
}

#[test]
fn a_global_problem_is_said_once_and_a_store_own_problem_by_its_name() {
    let text = "[pass.review]\nper_week = 0\n\
        [[store]]\nname = 'a'\nrows.path = 'a.db'\n[[store]]\nname = 'b'\nrows.path = 'b.db'\n\
        [store.pass.review]\nper_week = -1\n";
    assert_eq!(
        lines(text),
        [
            "pass.review.per_week = 0: allowed is a whole number from 1 to 10000",
            "store.b.pass.review.per_week = -1: allowed is a whole number from 1 to 10000",
        ]
    );
    // Even without a store, everything else is checked.
    let found = lines("[pass.review]\nper_week = 0\n");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_column_with_point_ids_becomes_a_role() {
    let store = only_store(&with(QDRANT, "point_id = 'column(vector_id)'"));
    assert_eq!(
        store.rows.source(Role::Point).unwrap().column().unwrap(),
        "vector_id"
    );
    assert_eq!(
        store.vectors.unwrap().point_id,
        PointRule::Column("vector_id".into())
    );
    assert_eq!(only_store(QDRANT).rows.source(Role::Point), None);
}

#[test]
fn paths_are_relative_to_the_file() {
    let top =
        "state_dir = 'state'\nsnapshot_dir = '/srv/pairs'\n[metrics]\ntextfile = './out/h.prom'\n";
    let text = format!("{top}{PLAIN}");
    let config = valid(&text);
    assert_eq!(config.state_dir, Path::new("/etc/hypnos/state"));
    assert_eq!(config.snapshot_dir, Path::new("/srv/pairs"));
    assert_eq!(
        config.metrics.textfile.as_deref(),
        Some(Path::new("/etc/hypnos/out/h.prom"))
    );
    let here = parse(PLAIN, Path::new("hypnos.toml"), &Env::default()).unwrap();
    let expected = std::env::current_dir().unwrap().join("m.db");
    assert_eq!(Path::new(&here.stores[0].rows.path), expected);
}
