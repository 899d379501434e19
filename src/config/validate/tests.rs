//! Every check, by the exact line that an operator would read; what is shipped; what defaults are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::*;
use crate::config::units::{ByteSize, Similarity};
use crate::config::{
    Backend, Encoding, Found, PointRule, Problem, Qdrant, Scoring, Source, Store, presets,
};
use crate::memory::Role;

const REFERENCE: &str = include_str!("../../../config/hypnos.toml");
const MINIMAL: &str = include_str!("../../../config/minimal.toml");

/// A store of one file with nothing else said.
const PLAIN: &str = "[[store]]\nname = 'a'\n[store.rows]\npath = 'm.db'\n";

/// The same with points in Qdrant; keys of `[store.vectors]` can follow.
const QDRANT: &str =
    "[[store]]\nname = 'a'\n[store.rows]\npath = 'm.db'\n[store.vectors]\nkind = 'qdrant'\n";

/// One file per tenant.
const TENANTS: &str = "[[store]]\nname = 'a'\n[store.rows]\npath = 'users/{tenant}/m.db'\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    read_in(text, &Env::default())
}

fn read_in(text: &str, env: &Env) -> Result<Config, ConfigError> {
    parse(text, Path::new("/etc/hypnos/hypnos.toml"), env)
}

fn valid(text: &str) -> Config {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn only_store(text: &str) -> Store {
    let [store] = <[Store; 1]>::try_from(valid(text).stores).unwrap();
    store
}

fn problems(result: Result<Config, ConfigError>) -> Vec<Problem> {
    match result {
        Err(ConfigError::Invalid { problems, .. }) => problems,
        other => panic!("no problems: {other:?}"),
    }
}

fn lines(text: &str) -> Vec<String> {
    problems(read(text))
        .iter()
        .map(Problem::to_string)
        .collect()
}

/// Each case is a configuration, and the beginning of the one line that says what is wrong with it.
fn each_has_one_problem(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let lines = lines(text);
        assert!(
            lines.len() == 1 && lines[0].starts_with(expected),
            "expected one line that starts with\n  {expected}\nbut got\n  {}\nfor\n{text}",
            lines.join("\n  ")
        );
    }
}

fn with(base: &str, more: &str) -> String {
    format!("{base}{more}\n")
}

/// `more` before the stores.
fn before(more: &str) -> String {
    format!("{more}\n{PLAIN}")
}

fn shipped() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .map(|path| {
            (
                path.display().to_string(),
                std::fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_configuration_is_valid() {
    let shipped = shipped();
    assert!(shipped.len() >= 2, "{shipped:?}");
    for (path, text) in shipped {
        assert!(read(&text).is_ok(), "{path}: {}", read(&text).unwrap_err());
    }
}

#[test]
fn the_reference_equals_the_defaults() {
    let same = format!("{MINIMAL}\n[store.vectors]\nkind = \"qdrant\"\n");
    assert_eq!(
        format!("{:#?}", valid(REFERENCE)),
        format!("{:#?}", valid(&same))
    );
}

/// The dotted keys of a table; lists of tables as `name.key`.
fn keys_of(table: &toml::Table, at: &str, keys: &mut BTreeSet<String>) {
    for (key, value) in table {
        let field = if at.is_empty() {
            key.clone()
        } else {
            format!("{at}.{key}")
        };
        match value {
            toml::Value::Table(table) => keys_of(table, &field, keys),
            toml::Value::Array(items) => {
                for table in items.iter().filter_map(toml::Value::as_table) {
                    keys_of(table, &field, keys);
                }
            }
            _ => {}
        }
        keys.insert(field);
    }
}

#[test]
fn the_reference_mentions_every_key() {
    let mut mentioned = BTreeSet::new();
    keys_of(&REFERENCE.parse().unwrap(), "", &mut mentioned);
    let mut section = String::new();
    for line in REFERENCE.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']).to_owned();
        }
        let assignment = line.strip_prefix("# ").map(str::parse::<toml::Table>);
        if let Some(Ok(table)) = assignment {
            keys_of(&table, &section, &mut mentioned);
        }
    }
    for key in raw::File::all_keys("") {
        let is_override = key.starts_with("store.pass.");
        assert!(
            is_override || mentioned.contains(&key),
            "{key} is not in the reference"
        );
    }
}

#[test]
fn the_reference_says_one_thing_about_every_key() {
    let lines: Vec<_> = REFERENCE.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(lines[index - 1].starts_with("# "), "{line} has no comment");
        }
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = valid(PLAIN);
    assert_eq!(config.state_dir, Path::new("/var/lib/hypnos"));
    assert_eq!(config.snapshot_dir, Path::new("/var/backups/hypnos"));
    assert_eq!(config.schedule.cron, "0 3 * * *");
    assert_eq!(config.schedule.timezone, TimeZone::UTC);
    assert!(config.schedule.catch_up);
    assert_eq!(
        config.metrics.listen,
        SocketAddr::from(([127, 0, 0, 1], 9750))
    );
    assert_eq!(config.metrics.textfile, None);
    assert_eq!(config.guard.max_fraction.get().to_string(), "0.2");
    assert_eq!(config.guard.min_count, 50);
    assert_eq!(config.undo_keep, Duration::from_secs(30 * DAY));

    let [store] = &config.stores[..] else {
        panic!("{config:?}")
    };
    assert_eq!(store.rows.path, "/etc/hypnos/m.db");
    assert_eq!(
        (store.rows.table.as_str(), store.rows.id.as_str()),
        ("memories", "id")
    );
    assert_eq!(store.rows.namespace, "world:public");
    assert!(store.rows.roles.is_empty() && store.rows.tenant.is_none());
    assert!(store.owners.is_none() && store.vectors.is_none());
    let passes = &store.passes;
    assert_eq!(
        passes.ttl.superseded_retention,
        Some(Duration::from_secs(180 * DAY))
    );
    assert_eq!(passes.orphans.grace, Duration::ZERO);
    assert_eq!(passes.orphans.settle, Duration::from_secs(20 * HOUR));
    assert_eq!(passes.orphans.min_age, Duration::from_secs(HOUR));
    assert_eq!(Some(passes.duplicates.cluster_at), Similarity::new(0.70));
    assert_eq!(Some(passes.duplicates.merge_at), Similarity::new(0.92));
    assert_eq!(Some(passes.decay.floor), Ratio::new(0.05));
    assert_eq!(Some(passes.decay.max_fraction), Ratio::new(0.05));
    assert_eq!(passes.decay.default_scale, Duration::from_secs(2160 * HOUR));
    assert_eq!(
        passes.decay.scale,
        [
            ("fact".to_owned(), Duration::from_secs(2160 * HOUR)),
            ("observation".to_owned(), Duration::from_secs(336 * HOUR)),
        ]
    );
    assert_eq!(passes.decay.shape.to_string(), "1");
    assert_eq!(
        passes.decay.exempt_types,
        ["preference", "procedure", "error_pattern"]
    );
    let contradictions = &passes.contradictions;
    assert_eq!(
        (contradictions.threshold, contradictions.topic_weight),
        (40, 15)
    );
    assert_eq!(contradictions.weights.negation, 35);
    assert_eq!(contradictions.weights.temporal, 15);
    assert_eq!(contradictions.scoring, Scoring::Topic);
    assert_eq!(contradictions.window, Duration::from_secs(7 * DAY));
    assert_eq!(passes.review.per_week, 20);
    assert_eq!(passes.vacuum.min_free_bytes, ByteSize(16 << 20));
    assert_eq!(passes.vacuum.max_stall, Duration::from_secs(5));
    assert_eq!(passes.snapshot.keep_monthly, 6);
}

#[test]
fn values_out_of_range_are_refused() {
    let not_positive = "a duration such as";
    let mut cases = Vec::new();
    for (section, key, values, allowed) in [
        (
            "guard",
            "max_fraction",
            &["nan", "inf", "-inf", "-0.1", "1.5", "2", "'x'", "true"][..],
            "a number from 0 to 1",
        ),
        (
            "guard",
            "min_count",
            &["-1", "1.0", "'50'", "nan"],
            "a whole number, 0 or more",
        ),
        (
            "pass.duplicates",
            "cluster_at",
            &["nan", "inf", "-1.5", "'0.7'"],
            "a number from -1 to 1",
        ),
        (
            "pass.duplicates",
            "merge_at",
            &["nan", "-inf", "1.5", "[]"],
            "a number from -1 to 1",
        ),
        (
            "pass.decay",
            "floor",
            &["nan", "inf", "0.0", "1.0", "0", "1", "-0.5"],
            "a number between 0 and 1",
        ),
        (
            "pass.decay",
            "shape",
            &["nan", "inf", "-inf", "0.0", "0", "-1.0", "'1'"],
            "a finite number above 0",
        ),
        (
            "pass.decay",
            "max_fraction",
            &["nan", "inf", "-0.01", "1.01"],
            "a number from 0 to 1",
        ),
        (
            "pass.decay",
            "default_scale",
            &["'0h'", "'1y'", "336", "nan"],
            not_positive,
        ),
        (
            "pass.decay",
            "scale",
            &["'336h'", "336", "[]"],
            "a table of types and durations",
        ),
        (
            "pass.decay",
            "exempt_types",
            &["'fact'", "[1]", "['']", "{ a = 1 }"],
            "a list of types",
        ),
        (
            "pass.vacuum",
            "min_free_fraction",
            &["nan", "inf", "1.1"],
            "a number from 0 to 1",
        ),
        (
            "pass.vacuum",
            "min_free_bytes",
            &["'16 MiB'", "-1", "nan", "'1PB'", "1.5"],
            "a size such as",
        ),
        ("pass.vacuum", "max_stall", &["'0s'", "5"], not_positive),
        (
            "pass.contradictions",
            "threshold",
            &["0", "-1", "501", "40.0", "nan"],
            "a whole number from 1 to 500",
        ),
        (
            "pass.contradictions",
            "topic_weight",
            &["-1", "101", "nan"],
            "a whole number from 0 to 100",
        ),
        (
            "pass.contradictions.weights",
            "negation",
            &["-1", "101", "0.35", "nan"],
            "a whole number from 0 to 100",
        ),
        (
            "pass.contradictions",
            "scoring",
            &["'Topic'", "''", "1"],
            "\"topic\" or \"sum\"",
        ),
        (
            "pass.contradictions",
            "window",
            &["'0d'", "'d7'", "7"],
            not_positive,
        ),
        (
            "pass.review",
            "per_week",
            &["0", "-20", "10001", "nan"],
            "a whole number from 1 to 10000",
        ),
        (
            "pass.review",
            "stale_after",
            &["'0d'", "'never'"],
            not_positive,
        ),
        (
            "pass.review",
            "unused_after",
            &["'0d'", "180"],
            not_positive,
        ),
        (
            "pass.snapshot",
            "keep_daily",
            &["-1", "10001", "'7'"],
            "a whole number from 0 to 10000",
        ),
        (
            "pass.snapshot",
            "keep_weekly",
            &["-1", "nan"],
            "a whole number from 0 to 10000",
        ),
        (
            "pass.snapshot",
            "keep_monthly",
            &["-1", "1.0"],
            "a whole number from 0 to 10000",
        ),
        (
            "pass.ttl",
            "superseded_retention",
            &["'Never'", "180", "'-1d'"],
            "\"never\", or a duration such as",
        ),
        ("pass.ttl", "enabled", &["'yes'", "1"], "true or false"),
        (
            "pass.orphans",
            "grace",
            &["'never'", "0", "'1d12'"],
            not_positive,
        ),
        ("pass.orphans", "settle", &["20", "''"], not_positive),
        (
            "pass.orphans",
            "min_age",
            &["'36526d'", "nan"],
            not_positive,
        ),
        ("undo", "keep", &["'0s'", "'forever'", "30"], not_positive),
        (
            "schedule",
            "timezone",
            &["'Mars/Olympus'", "''", "3", "'+02:00'"],
            "an IANA zone such as",
        ),
        ("schedule", "catch_up", &["'true'"], "true or false"),
        (
            "schedule",
            "cron",
            &[
                "'nonsense'",
                "'0 0 3 * * *'",
                "'@daily'",
                "'0 3 31 2 *'",
                "''",
                "3",
            ],
            "five fields as in crontab",
        ),
        (
            "metrics",
            "listen",
            &[
                "'localhost:9750'",
                "'127.0.0.1'",
                "'127.0.0.1:65536'",
                "''",
                "9750",
                "'::1:9750'",
            ],
            "an IP address with a port",
        ),
        (
            "metrics",
            "textfile",
            &["'hypnos.txt'", "'/var/lib/prom'"],
            "a path that ends in .prom",
        ),
        ("metrics", "textfile", &["3"], "a path, or \"\""),
    ] {
        for value in values {
            let text = before(&format!("[{section}]\n{key} = {value}"));
            let lines = lines(&text);
            let field = format!("{section}.{key} = ");
            let says = format!(": allowed is {allowed}");
            cases
                .push(lines.len() == 1 && lines[0].starts_with(&field) && lines[0].contains(&says));
            assert_eq!(cases.last(), Some(&true), "{field}{value}: {lines:#?}");
        }
    }
    assert!(cases.len() > 100, "{}", cases.len());
}

#[test]
fn bounds_that_belong_together_are_compared() {
    each_has_one_problem(&[
        (
            before("[pass.duplicates]\ncluster_at = 0.95"),
            "pass.duplicates.cluster_at = 0.95: allowed is a number up to merge_at (0.92)",
        ),
        (
            before("[pass.snapshot]\nkeep_daily = 0\nkeep_weekly = 0\nkeep_monthly = 0"),
            "pass.snapshot.keep_daily = 0: allowed is 1 or more",
        ),
        (
            before("[pass.contradictions]\nthreshold = 116"),
            "pass.contradictions.threshold = 116: allowed is a score that the weights can reach, at most 115",
        ),
        (
            before("[pass.contradictions]\nscoring = 'sum'\nthreshold = 101"),
            "pass.contradictions.threshold = 101: allowed is a score that the weights can reach, at most 100",
        ),
        (
            before("[pass.decay]\nscale = { fact = '1h', note = 'long' }"),
            "pass.decay.scale.note = \"long\": allowed is a duration",
        ),
        (
            before("snapshot_dir = '/var/lib/hypnos/pairs'"),
            "state_dir = \"/var/lib/hypnos\": allowed is a folder that is not, holds or lies in snapshot_dir (/var/lib/hypnos/pairs)",
        ),
        (
            before("state_dir = '/var/backups/x/../hypnos/state'"),
            "state_dir = ",
        ),
        (
            before("state_dir = 's'\nsnapshot_dir = './s/'"),
            "state_dir = \"/etc/hypnos/s\"",
        ),
        (
            before("state_dir = ''"),
            "state_dir = \"\": allowed is a path",
        ),
    ]);
    valid(&before(
        "[pass.duplicates]\ncluster_at = 0.9\nmerge_at = 0.9",
    ));
    valid(&before(
        "[pass.snapshot]\nkeep_daily = 0\nkeep_weekly = 0\nkeep_monthly = 1",
    ));
    valid(&before(
        "state_dir = '/srv/hypnos'\nsnapshot_dir = '/srv/hypnos-pairs'",
    ));
}

#[test]
fn a_store_needs_a_plain_name_of_its_own_and_a_path() {
    let named = |name: &str| format!("[[store]]\nname = {name}\nrows.path = 'm.db'\n");
    let mut cases = vec![
        (
            String::new(),
            "store is missing: allowed is at least one [[store]]",
        ),
        (
            "store = []".to_owned(),
            "store is missing: allowed is at least one [[store]]",
        ),
        (
            "[store]\nname = 'a'".to_owned(),
            "store = a table: allowed is a list of tables",
        ),
        (
            "[[store]]\nrows.path = 'm.db'".to_owned(),
            "store[0].name is missing: allowed is a name of a-z",
        ),
        (
            "[[store]]\nname = 'a'".to_owned(),
            "store.a.rows.path is missing: allowed is a path",
        ),
        (
            format!("{}{}", named("'a'"), named("'a'").replace("m.db", "n.db")),
            "store.a.name = \"a\": allowed is a name that no other store has",
        ),
        (
            with(&named("'a'"), "first_run = 'never'"),
            "store.a.first_run = \"never\": allowed is \"apply\" or \"report\"",
        ),
    ];
    let long = format!("'{}'", "x".repeat(65));
    for bad in [
        "''", "'A'", "'a b'", "'../x'", "'-a'", "'_a'", "'ação'", "'a.b'", "7", &long,
    ] {
        let text = named(bad);
        let found = lines(&text);
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
        assert!(
            found[0].contains(".name = ") || found[0].contains("[0].name = "),
            "{found:?}"
        );
    }
    cases.retain(|(text, _)| !text.is_empty() || read("").is_err());
    each_has_one_problem(&cases);
    assert_eq!(
        only_store(&named(&format!("'{}'", "x".repeat(64))))
            .name
            .len(),
        64
    );
    assert_eq!(only_store(&named("'0-a_b'")).name, "0-a_b");
}

#[test]
fn rows_are_checked() {
    let roles = "\"column\", \"column?\"";
    each_has_one_problem(&[
        (
            with(PLAIN, "preset = 'ttl'"),
            "store.a.rows.preset = \"ttl\": allowed is \"bitemporal\", \"confirmed\", \"salience\" or \"ttl-days\", or \"\" for none",
        ),
        (
            with(PLAIN, "table = ''"),
            "store.a.rows.table = \"\": allowed is the name of a table",
        ),
        (
            with(PLAIN, "id = 5"),
            "store.a.rows.id = 5: allowed is the name of a column",
        ),
        (
            with(PLAIN, "created_at = 'at:epoch'"),
            &format!("store.a.rows.created_at = \"at:epoch\": allowed is {roles}"),
        ),
        (
            with(PLAIN, "expires_at = 'at:text@Mars/Olympus'"),
            "store.a.rows.expires_at = \"at:text@Mars/Olympus\": allowed is",
        ),
        (
            with(PLAIN, "content = 'text:text'"),
            "store.a.rows.content = \"text:text\": allowed is",
        ),
        (
            with(PLAIN, "uses = 'n@UTC'"),
            "store.a.rows.uses = \"n@UTC\": allowed is",
        ),
        (with(PLAIN, "type = 1"), "store.a.rows.type = 1: allowed is"),
        (
            with(PLAIN, "tenant = 'user_id?'"),
            "store.a.rows.tenant = \"user_id?\": allowed is \"column\" or",
        ),
        (
            with(PLAIN, "ttl_days = 'd'\nttl_minutes = 'm'"),
            "store.a.rows.ttl_minutes = \"m\": allowed is \"\" where ttl_days is set",
        ),
        (
            with(TENANTS, "tenant = 'user_id'"),
            "store.a.rows.tenant = \"user_id\": allowed is \"\": the path has",
        ),
        (
            PLAIN.replace("m.db", ""),
            "store.a.rows.path = \"\": allowed is a path",
        ),
        (
            PLAIN.replace("m.db", "{user}.db"),
            "store.a.rows.path = \"{user}.db\": allowed is a path",
        ),
        (
            PLAIN.replace("m.db", "{tenant}/{tenant}.db"),
            "store.a.rows.path = \"{tenant}/{tenant}.db\": allowed is a path",
        ),
        (
            PLAIN.replace("m.db", "{tenant.db"),
            "store.a.rows.path = \"{tenant.db\": allowed is a path",
        ),
        (
            PLAIN.replace("m.db", "{id}.db"),
            "store.a.rows.path = \"{id}.db\": allowed is a path",
        ),
    ]);
    // The folder of the file must not turn one path into many.
    let folder = parse(
        PLAIN,
        Path::new("/etc/{tenant}/hypnos.toml"),
        &Env::default(),
    );
    assert_eq!(problems(folder)[0].field, "store.a.rows.path");
}

#[test]
fn namespaces_owners_and_point_ids_fit_the_tenants() {
    let vectors = |base: &str, more: &str| with(base, &format!("[store.vectors]\n{more}"));
    let tenant = with(PLAIN, "tenant = 'user_id'");
    let qdrant = |base: &str, more: &str| vectors(base, &format!("kind = 'qdrant'\n{more}"));
    each_has_one_problem(&[
        (
            vectors(PLAIN, "namespace = 'user:{tenant}'"),
            "store.a.vectors.namespace = \"user:{tenant}\": allowed is \"scope:owner\" without braces",
        ),
        (
            vectors(&tenant, "namespace = 'user:all'"),
            "store.a.vectors.namespace = \"user:all\": allowed is \"scope:owner\" with {tenant} once",
        ),
        (
            vectors(TENANTS, "namespace = '{tenant}'"),
            "store.a.vectors.namespace = \"{tenant}\": allowed is",
        ),
        (
            vectors(&tenant, "namespace = 'user:{id}'"),
            "store.a.vectors.namespace = \"user:{id}\": allowed is",
        ),
        (
            with(&tenant, "[store.owners]\nscope = 'team'"),
            "store.a.owners.scope = \"team\": allowed is \"user\", the scope of the namespace",
        ),
        (
            with(&tenant, "[store.owners]\ntable = 3"),
            "store.a.owners.table = 3: allowed is the name of a table",
        ),
        (
            with(&tenant, "[store.owners]\ndeleted_at = 'x:no'"),
            "store.a.owners.deleted_at = \"x:no\": allowed is",
        ),
        (
            with(TENANTS, "[store.owners]"),
            "store.a.owners.path is missing: allowed is the path of the one database",
        ),
        (
            with(TENANTS, "[store.owners]\npath = '{tenant}.db'"),
            "store.a.owners.path = \"{tenant}.db\": allowed is the path of one database",
        ),
        (
            qdrant(&tenant, "point_id = 'id'"),
            "store.a.vectors.point_id = \"id\": allowed is \"integer(id)\"",
        ),
        (
            qdrant(&tenant, "point_id = 'uuid5(dns, {tenant})'"),
            "store.a.vectors.point_id = \"uuid5(dns, {tenant})\": allowed is",
        ),
        (
            qdrant(&tenant, "point_id = 'payload(k, {user})'"),
            "store.a.vectors.point_id = \"payload(k, {user})\": allowed is",
        ),
        (
            qdrant(PLAIN, "point_id = 'uuid5(dns, {tenant}/{id})'"),
            "store.a.vectors.point_id = \"uuid5(dns, {tenant}/{id})\": allowed is a template without {tenant}",
        ),
        (
            qdrant(PLAIN, "point_id = 'column(a?)'"),
            "store.a.vectors.point_id = \"column(a?)\": allowed is",
        ),
    ]);
    let store = only_store(&with(
        TENANTS,
        "[store.owners]\npath = '_system/catalog.db'\n[store.vectors]\nnamespace = 'team:x-{tenant}'",
    ));
    let owners = store.owners.unwrap();
    assert_eq!(owners.scope, "team");
    assert_eq!(
        owners.path.as_deref(),
        Some(Path::new("/etc/hypnos/_system/catalog.db"))
    );
    assert_eq!((owners.table.as_str(), owners.id.as_str()), ("users", "id"));
    assert_eq!(owners.deleted_at, None);
    assert_eq!(store.rows.namespace, "team:x-{tenant}");
    assert!(store.vectors.is_none() && store.rows.is_per_tenant());
}

#[test]
fn vectors_are_checked() {
    let sqlite = with(PLAIN, "[store.vectors]\nkind = 'sqlite'");
    let address = "an address such as";
    each_has_one_problem(&[
        (
            with(PLAIN, "[store.vectors]\nurl = 'http://a:6334'"),
            "store.a.vectors.kind is missing: allowed is \"qdrant\", \"sqlite\" or \"none\"",
        ),
        (
            with(PLAIN, "[store.vectors]\nkind = 'Qdrant'"),
            "store.a.vectors.kind = \"Qdrant\": allowed is \"qdrant\", \"sqlite\" or \"none\"",
        ),
        (
            with(
                PLAIN,
                "[store.vectors]\nkind = 'none'\npoint_id = 'uuid(id)'",
            ),
            "store.a.vectors.point_id = \"uuid(id)\": allowed is nothing with kind = \"none\"",
        ),
        (
            with(QDRANT, "path = 'points.db'"),
            "store.a.vectors.path = \"points.db\": allowed is nothing with kind = \"qdrant\": the key belongs to \"sqlite\"",
        ),
        (
            with(QDRANT, "payload = 'p'"),
            "store.a.vectors.payload = \"p\": allowed is nothing",
        ),
        (
            with(&sqlite, "collection = 'c'"),
            "store.a.vectors.collection = \"c\": allowed is nothing with kind = \"sqlite\": the key belongs to \"qdrant\"",
        ),
        (
            with(&sqlite, "api_key = 'secret'"),
            "store.a.vectors.api_key = ***: allowed is nothing",
        ),
        (
            with(&sqlite, "vector = ''"),
            "store.a.vectors.vector = \"\": allowed is the name of a column",
        ),
        (
            with(&sqlite, "path = '{tenant}.db'"),
            "store.a.vectors.path = \"{tenant}.db\": allowed is the path of one database",
        ),
        (
            with(TENANTS, "[store.vectors]\nkind = 'sqlite'"),
            "store.a.vectors.path is missing: allowed is the path of the database with the points of every tenant",
        ),
        (
            with(QDRANT, "url = 'localhost:6334'"),
            &format!("store.a.vectors.url = \"localhost:6334\": allowed is {address}"),
        ),
        (
            with(QDRANT, "url = 'ftp://a'"),
            &format!("store.a.vectors.url = \"ftp://a\": allowed is {address}"),
        ),
        (
            with(QDRANT, "rest_url = 6333"),
            &format!("store.a.vectors.rest_url = 6333: allowed is {address}"),
        ),
        (
            with(QDRANT, "url = 'http://ana:secret@a:6334'"),
            "store.a.vectors.url = \"***@a:6334\": allowed is",
        ),
        (
            with(QDRANT, "collection = ''"),
            "store.a.vectors.collection = \"\": allowed is the name of a collection",
        ),
        (
            with(QDRANT, "namespace_key = ''"),
            "store.a.vectors.namespace_key = \"\": allowed is",
        ),
        (
            with(QDRANT, "timeout = '0s'"),
            "store.a.vectors.timeout = \"0s\": allowed is",
        ),
        (
            with(QDRANT, "timeout = 30"),
            "store.a.vectors.timeout = 30: allowed is",
        ),
        (with(QDRANT, "api_key = 3"), "store.a.vectors.api_key = "),
        (
            with(QDRANT, "api_key = 'two words'"),
            "store.a.vectors.api_key = ***: allowed is visible ASCII",
        ),
        (
            with(
                QDRANT,
                "rest_url = 'http://127.0.0.1:6333'\nurl = 'http://example.org:6334'\napi_key = 'secret'",
            ),
            "store.a.vectors.url = \"http://example.org:6334\": allowed is an https address, since there is an API key",
        ),
        (
            with(
                QDRANT,
                "url = 'https://example.org:6334'\nrest_url = 'http://example.org:6333'\napi_key = 'secret'",
            ),
            "store.a.vectors.rest_url = \"http://example.org:6333\": allowed is an https address",
        ),
    ]);
    let qdrant = qdrant_of(&only_store(&with(
        QDRANT,
        "url = 'https://example.org:6334/'\napi_key = 's'",
    )));
    assert_eq!(qdrant.url, "https://example.org:6334");
    assert_eq!(qdrant.rest_url, "https://example.org:6333");
    assert!(
        qdrant_of(&only_store(&with(QDRANT, "api_key = 'local'")))
            .api_key
            .is_some()
    );
    valid(&with(QDRANT, "url = 'http://10.0.0.7:6334'"));
}

fn qdrant_of(store: &Store) -> Qdrant {
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        Some(Backend::Qdrant(qdrant)) => qdrant.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_of_points_has_its_defaults() {
    let table = |text: &str| match only_store(text).vectors.unwrap().backend {
        Backend::Sqlite(table) => table,
        Backend::Qdrant(other) => panic!("{other:?}"),
    };
    let defaults = table(&with(PLAIN, "[store.vectors]\nkind = 'sqlite'"));
    assert_eq!(defaults.path, Path::new("/etc/hypnos/m.db"));
    assert_eq!(
        (defaults.table.as_str(), defaults.id.as_str()),
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
fn the_key_comes_from_the_file_then_the_credential_then_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let credential = folder.path().join("qdrant-api-key");
    let variable = Env {
        credentials_dir: Some(folder.path().to_owned()),
        qdrant_api_key: Some(" from-variable\n".into()),
    };
    let key = |text: &str, env: &Env| qdrant_of(&read_in(text, env).unwrap().stores[0]).api_key;
    assert_eq!(key(QDRANT, &Env::default()), None);
    assert_eq!(key(QDRANT, &variable).as_deref(), Some("from-variable"));
    std::fs::write(&credential, "from-credential\n").unwrap();
    assert_eq!(key(QDRANT, &variable).as_deref(), Some("from-credential"));
    assert_eq!(
        key(&with(QDRANT, "api_key = ''"), &variable).as_deref(),
        Some("from-credential")
    );
    assert_eq!(
        key(&with(QDRANT, "api_key = 'from-file'"), &variable).as_deref(),
        Some("from-file")
    );
    let blank = Env {
        credentials_dir: None,
        qdrant_api_key: Some(" ".into()),
    };
    assert_eq!(key(QDRANT, &blank), None);

    let remote = with(QDRANT, "url = 'http://example.org:6334'");
    let found = problems(read_in(&remote, &variable));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .all(|problem| !problem.to_string().contains("from-")),
        "{found:?}"
    );

    std::fs::write(&credential, " \n").unwrap();
    let empty = problems(read_in(QDRANT, &variable));
    assert_eq!(
        empty[0].to_string(),
        format!(
            "store.a.vectors.api_key = {} (empty): allowed is a credential that can be read and holds the key",
            credential.display()
        )
    );
    std::fs::remove_file(&credential).unwrap();
    std::fs::create_dir(&credential).unwrap();
    let unreadable = problems(read_in(QDRANT, &variable));
    assert!(
        unreadable[0].to_string().contains("is a directory"),
        "{unreadable:?}"
    );
}

#[test]
fn no_key_is_ever_printed() {
    let config = valid(&with(QDRANT, "api_key = 'hunter2'"));
    assert!(!format!("{config:?}").contains("hunter2"));
    for broken in [
        "api_key = 'hunter2",
        "api_key = hunter2",
        "apikey = 'hunter2'",
        "api_key = { key = 'hunter2' }",
        "api_key = ['hunter2']",
        "api_key = 'hunter2 '",
        "api_key = 'hunter2'\nurl = 'http://example.org'",
        "url = 'http://x:hunter2@example.org'",
        "[store.vectors.api_key]\nhunter = 'hunter2'",
    ] {
        let error = read(&with(QDRANT, broken)).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
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
    each_has_one_problem(&[(
        two("rows.table = 'notes'", "rows.table = 'NOTES'").replace("'b.db'", "'./x/../a.db'"),
        "store.b.rows.path = \"/etc/hypnos/x/../a.db\": allowed is a database or table that store a does not have",
    )]);
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
    let days = |days| Some(Duration::from_secs(days * DAY));
    assert_eq!(retention(text), [days(30), days(1)]);
    let stores = valid(text).stores;
    assert_eq!(stores[0].passes.review.per_week, 5);
    assert_eq!(stores[1].passes.review.per_week, 5);
    assert_eq!(
        stores[1].passes.review.stale_after,
        Duration::from_secs(DAY)
    );
    let preset_only = text.replace("[pass.ttl]\nsuperseded_retention = '30d'\n", "");
    assert_eq!(retention(&preset_only), [None, days(1)]);
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

fn source(column: &str, optional: bool, encoding: Encoding) -> Source {
    source::parse(column, source::Kind::Value)
        .map(|mut source| {
            source.optional = optional;
            source.time.encoding = encoding;
            source
        })
        .unwrap()
}

#[test]
fn every_preset_is_whole() {
    let names: Vec<_> = presets::ALL.iter().map(|preset| preset.name).collect();
    assert_eq!(names, ["bitemporal", "confirmed", "salience", "ttl-days"]);
    for preset in presets::ALL {
        let (raw, problems) = raw::Preset::parse(preset.toml, "store.a").unwrap();
        assert_eq!(problems, [], "{}", preset.name);
        assert_eq!(raw.description.text(), Some(preset.description));
        assert!(preset.toml.lines().count() <= 40, "{}", preset.name);
        assert!(
            !raw.rows.path.is_given()
                && !raw.rows.preset.is_given()
                && !raw.vectors.kind.is_given()
        );
        valid(&with(PLAIN, &format!("preset = '{}'", preset.name)));
        valid(&with(
            PLAIN,
            &format!(
                "preset = '{}'\n[store.vectors]\nkind = 'qdrant'",
                preset.name
            ),
        ));
    }
}

/// What a preset needs is in its schema; what it says `?` of may be.
#[test]
fn every_preset_fits_its_schema() {
    for preset in presets::ALL {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        database.execute_batch(preset.ddl).unwrap();
        let columns = |table: &str| -> BTreeSet<String> {
            let mut statement = database
                .prepare("SELECT name FROM pragma_table_xinfo(?1)")
                .unwrap();
            let names = statement.query_map([table], |row| row.get(0)).unwrap();
            names.map(Result::unwrap).collect()
        };
        let store = only_store(&with(PLAIN, &format!("preset = '{}'", preset.name)));
        let known = columns(&store.rows.table);
        assert!(known.contains(&store.rows.id), "{}", preset.name);
        let sources = store.rows.roles.iter().map(|(_, source)| source);
        for source in sources.chain(&store.rows.tenant) {
            assert!(
                source.optional || known.contains(&source.column),
                "{}: {source:?}",
                preset.name
            );
        }
        if let Some(owners) = store.owners {
            let known = columns(&owners.table);
            assert!(known.contains(&owners.id));
            assert!(known.contains(&owners.deleted_at.unwrap().column));
        }
    }
}

#[test]
fn presets_say_what_their_schemas_mean() {
    let store = |name: &str| {
        only_store(&with(
            PLAIN,
            &format!("preset = '{name}'\n[store.vectors]\nkind = 'qdrant'"),
        ))
    };

    let ttl = store("ttl-days");
    assert_eq!(
        ttl.rows.tenant,
        Some(source("user_id", false, Encoding::Auto))
    );
    assert_eq!(
        ttl.rows.source(Role::CreatedAt),
        Some(&source("created_at", false, Encoding::EpochSeconds))
    );
    assert_eq!(
        ttl.rows.source(Role::Ttl),
        Some(&source("ttl_days", false, Encoding::Auto))
    );
    assert_eq!(
        ttl.rows.source(Role::SupersededBy),
        Some(&source("superseded_by", true, Encoding::Auto))
    );
    assert_eq!(
        ttl.rows.source(Role::ContentHash),
        Some(&source("content_hash", true, Encoding::Auto))
    );
    assert_eq!(ttl.rows.ttl_unit, Duration::from_secs(DAY));
    assert_eq!(
        ttl.owners.unwrap().deleted_at,
        Some(source("deleted_at", false, Encoding::EpochSeconds))
    );

    let salience = store("salience");
    assert!(salience.owners.is_none());
    assert_eq!(
        salience.rows.source(Role::Uses).unwrap().column,
        "access_count"
    );

    let confirmed = store("confirmed");
    assert_eq!(
        (
            confirmed.rows.table.as_str(),
            confirmed.rows.namespace.as_str()
        ),
        ("memory", "user:default")
    );
    assert_eq!(
        confirmed.rows.source(Role::ExpiresAt),
        Some(&source("expires_at", false, Encoding::Text))
    );

    let bitemporal = store("bitemporal");
    assert!(bitemporal.rows.is_bitemporal());
    assert!(!confirmed.rows.is_bitemporal());
    assert_eq!(bitemporal.passes.ttl.superseded_retention, None);
    assert_eq!(
        bitemporal.vectors.unwrap().point_id,
        PointRule::Uuid5 {
            namespace: uuid::Uuid::NAMESPACE_DNS,
            template: "{id}".into(),
        }
    );
}

#[test]
fn a_store_overrides_its_preset_key_by_key() {
    let rows = |more: &str| only_store(&with(PLAIN, &format!("preset = 'ttl-days'\n{more}")));
    let store = rows("type = ''\nuses = 'n'\n[store.owners]\ntable = ''");
    assert_eq!(store.rows.source(Role::Type), None);
    assert_eq!(store.rows.source(Role::Uses).unwrap().column, "n");
    assert_eq!(store.rows.source(Role::Content).unwrap().column, "content");
    assert!(store.owners.is_none());

    let minutes = rows("ttl_minutes = 'life'").rows;
    assert_eq!(minutes.source(Role::Ttl).unwrap().column, "life");
    assert_eq!(minutes.ttl_unit, Duration::from_secs(60));
    assert_eq!(rows("ttl_days = ''").rows.source(Role::Ttl), None);

    // A path with a tenant in it replaces the tenant column of the preset.
    let tenants = only_store(&with(
        TENANTS,
        "preset = 'ttl-days'\ntype = 'kind'\nttl_days = ''\n[store.owners]\npath = 'catalog.db'",
    ));
    assert_eq!(tenants.rows.tenant, None);
    assert_eq!(tenants.rows.path, "/etc/hypnos/users/{tenant}/m.db");
    assert_eq!(tenants.rows.namespace, "user:{tenant}");
}

#[test]
fn a_column_with_point_ids_becomes_a_role() {
    let store = only_store(&with(QDRANT, "point_id = 'column(vector_id)'"));
    assert_eq!(store.rows.source(Role::Point).unwrap().column, "vector_id");
    assert_eq!(
        store.vectors.unwrap().point_id,
        PointRule::Column("vector_id".into())
    );
    assert_eq!(only_store(QDRANT).rows.source(Role::Point), None);
}

#[test]
fn paths_are_relative_to_the_file() {
    let text = before(
        "state_dir = 'state'\nsnapshot_dir = '/srv/pairs'\n[metrics]\ntextfile = './out/h.prom'",
    );
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

#[test]
fn a_file_that_cannot_be_read_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hypnos.toml");
    let error = load(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("read the configuration {}", path.display())
    );
    std::fs::write(&path, MINIMAL).unwrap();
    let config = load(&path).unwrap();
    assert_eq!(
        Path::new(&config.stores[0].rows.path),
        folder.path().join("memory.db")
    );
    std::fs::write(&path, b"state_dir = '\xff'").unwrap();
    assert!(matches!(load(&path), Err(ConfigError::Read { .. })));
    assert!(matches!(
        parse(MINIMAL, Path::new(""), &Env::default()),
        Err(ConfigError::Read { .. })
    ));
}

/// Whole messages, as an operator reads them.
#[test]
fn messages_say_everything_at_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/invalid");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let error = read(&text).unwrap_err();
        let mut message = String::new();
        writeln!(message, "{error}").unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        insta::with_settings!({ snapshot_path => "../testdata/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, message);
        });
    }
}

#[test]
fn an_unknown_key_keeps_its_place_among_the_problems() {
    let found = problems(read(&before("stat_dir = 'x'")));
    assert_eq!(found[0].field, "stat_dir");
    assert!(
        matches!(found[0].value, Found::UnknownKey(place) if place.line == 1 && place.column == 1)
    );
}
