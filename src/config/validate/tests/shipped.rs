//! What is shipped, and what is meant where nothing is said.

use std::collections::BTreeSet;

use super::*;
use crate::config::Scoring;
use crate::config::units::{ByteSize, Similarity};

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
    assert_eq!(config.schedule.cron.to_string(), "0 3 * * *");
    assert_eq!(config.schedule.timezone, TimeZone::UTC);
    assert!(config.schedule.catch_up);
    assert_eq!(config.schedule.max_run, Duration::from_hours(6));
    assert_eq!(config.schedule.retry_for, Duration::from_hours(1));
    assert_eq!(
        config.metrics.listen,
        SocketAddr::from(([127, 0, 0, 1], 9750))
    );
    assert_eq!(config.metrics.textfile, None);
    assert_eq!(config.guard.max_fraction.get().to_string(), "0.2");
    assert_eq!(config.guard.min_count, 50);
    assert_eq!(config.undo_keep, days(30));

    let [store] = &config.stores[..] else {
        panic!("{config:?}")
    };
    assert_eq!(store.rows.path, "/etc/hypnos/m.db");
    assert_eq!(
        (store.rows.table.as_str(), &store.rows.id[..]),
        ("memories", &["id".to_owned()][..])
    );
    assert_eq!(store.rows.namespace, "world:public");
    assert!(store.rows.roles.is_empty() && store.rows.tenant.is_none());
    assert!(store.owners.is_none() && store.vectors.is_none());
    let passes = &store.passes;
    assert_eq!(passes.ttl.superseded_retention, Some(days(180)));
    assert_eq!(passes.orphans.grace, Duration::ZERO);
    assert_eq!(passes.orphans.settle, Duration::from_hours(20));
    assert_eq!(passes.orphans.min_age, Duration::from_hours(1));
    assert_eq!(Some(passes.duplicates.cluster_at), Similarity::new(0.70));
    assert_eq!(Some(passes.duplicates.merge_at), Similarity::new(0.92));
    assert_eq!(Some(passes.decay.floor), Ratio::new(0.05));
    assert_eq!(Some(passes.decay.max_fraction), Ratio::new(0.05));
    assert_eq!(passes.decay.default_scale, Duration::from_hours(2160));
    assert_eq!(
        passes.decay.scale,
        [
            ("fact".to_owned(), Duration::from_hours(2160)),
            ("observation".to_owned(), Duration::from_hours(336)),
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
    assert_eq!(contradictions.window, days(7));
    assert_eq!(passes.review.per_week, 20);
    assert_eq!(passes.vacuum.min_free_bytes, ByteSize(16 << 20));
    assert_eq!(passes.vacuum.max_stall, Duration::from_secs(5));
    assert_eq!(passes.snapshot.keep_monthly, 6);
}
