//! The presets: whole, fit for their schemas, and overridden key by key.

use std::collections::BTreeSet;

use super::*;
use crate::config::{Encoding, PointRule, Source, presets};
use crate::memory::Role;

fn source(column: &str, optional: bool, encoding: Encoding) -> Source {
    source::parse(column, source::Kind::Value)
        .map(|mut source| {
            source.optional = optional;
            source.time.encoding = encoding;
            source
        })
        .unwrap()
}

/// A store whose points are its rows names no file.
const POINTS: &str = "[[store]]\nname = \"a\"\n[store.rows]\n";

fn is_of_points(preset: &raw::Preset) -> bool {
    preset.rows.kind.text() == Some("points")
}

#[test]
fn every_preset_is_whole() {
    assert!(presets::ALL.is_sorted_by(|a, b| a.name < b.name));
    for preset in presets::ALL {
        let (raw, problems) = raw::Preset::parse(preset.toml, "store.a").unwrap();
        assert_eq!(problems, [], "{}", preset.name);
        assert_eq!(raw.description.text(), Some(preset.description));
        assert!(preset.fingerprint().is_some(), "{}", preset.name);
        assert!(preset.toml.lines().count() <= 40, "{}", preset.name);
        assert!(
            !raw.rows.path.is_given()
                && !raw.rows.preset.is_given()
                && !raw.vectors.kind.is_given()
        );
        let qdrant = format!(
            "preset = '{}'\n[store.vectors]\nkind = 'qdrant'",
            preset.name
        );
        if is_of_points(&raw) {
            valid(&with(POINTS, &qdrant));
            continue;
        }
        valid(&with(PLAIN, &format!("preset = '{}'", preset.name)));
        valid(&with(PLAIN, &qdrant));
    }
}

/// What a preset needs is in its schema; what it says `?` of may be.
#[test]
fn every_preset_fits_its_schema() {
    for preset in presets::ALL {
        // The schema is that of a log, and the mapping is checked against what the points are mirrored into.
        if is_of_points(&raw::Preset::parse(preset.toml, "store.a").unwrap().0) {
            continue;
        }
        crate::store::vec0::register();
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
        let has_key = store.rows.id.iter().all(|column| known.contains(column));
        assert!(has_key, "{}", preset.name);
        let sources = store.rows.roles.iter().map(|(_, source)| source);
        for source in sources.chain(&store.rows.tenant) {
            assert!(
                source.optional || source.column().is_none_or(|column| known.contains(column)),
                "{}: {source:?}",
                preset.name
            );
        }
        if let Some(owners) = store.owners {
            let known = columns(&owners.table);
            let named = owners.id.column().into_iter();
            let marked = owners.deleted_at.iter().filter_map(Source::column);
            assert!(named.chain(marked).all(|column| known.contains(column)));
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
    assert_eq!(ttl.rows.ttl_unit, days(1));
    assert_eq!(
        ttl.owners.unwrap().deleted_at,
        Some(source("deleted_at", false, Encoding::EpochSeconds))
    );

    let salience = store("salience");
    assert!(salience.owners.is_none());
    assert_eq!(
        salience.rows.source(Role::Uses).unwrap().column().unwrap(),
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
    assert_eq!(
        store.rows.source(Role::Uses).unwrap().column().unwrap(),
        "n"
    );
    assert_eq!(
        store.rows.source(Role::Content).unwrap().column().unwrap(),
        "content"
    );
    assert!(store.owners.is_none());

    let minutes = rows("ttl_minutes = 'life'").rows;
    assert_eq!(minutes.source(Role::Ttl).unwrap().column().unwrap(), "life");
    assert_eq!(minutes.ttl_unit, Duration::from_mins(1));
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
