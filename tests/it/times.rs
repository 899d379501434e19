//! Every encoding of time, at the boundary and beyond what can be read, through the whole program.

use rusqlite::types::Value;

use crate::support::{Backend, DAY, World, now};

/// Memories whose `expires_at` is each of `values`; those that a night removes are returned by position.
fn removed(encoding: &str, declared: &str, values: &[Value]) -> Vec<usize> {
    let mut world = World::new(Backend::Sqlite);
    world
        .rows()
        .execute_batch(&format!(
            "ALTER TABLE memories ADD COLUMN expires_at {declared}"
        ))
        .unwrap();
    world.user("ana", None);
    let ids: Vec<i64> = values
        .iter()
        .map(|value| {
            let id = world.memory("ana", now(), None);
            world
                .rows()
                .execute(
                    "UPDATE memories SET expires_at = ?2 WHERE id = ?1",
                    rusqlite::params![id, value],
                )
                .unwrap();
            id
        })
        .collect();
    world.configure(
        "type = \"memory_type\"",
        &format!("type = \"memory_type\"\nexpires_at = \"expires_at:{encoding}\""),
    );
    let night = world.night();
    assert!([0, 3].contains(&night.code.unwrap()), "{night:#?}");
    assert_eq!(
        night.pass("ttl")["outcome"],
        if world.ids().len() < ids.len() {
            "applied"
        } else {
            "idle"
        },
        "{night:#?}"
    );
    let left = world.ids();
    ids.iter()
        .enumerate()
        .filter(|(_, id)| !left.contains(id))
        .map(|(index, _)| index)
        .collect()
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// An instant in a form of `strftime`.
fn form(seconds: i64, format: &str, zone: &str) -> Value {
    let at = jiff::Timestamp::from_second(seconds)
        .unwrap()
        .in_tz(zone)
        .unwrap();
    text(at.strftime(format).to_string())
}

/// What every encoding must keep.
fn hostile() -> Vec<Value> {
    vec![
        Value::Null,
        text(""),
        text("   "),
        text("garbage"),
        text("never"),
        text("9999-12-31T23:59:59Z"),
        text("1970-01-01T00:00:00Z"),
        text("0000-00-00 00:00:00"),
        text("2026-13-45"),
        Value::Integer(0),
        Value::Integer(1),
        Value::Integer(-1),
        Value::Integer(i64::MIN),
        Value::Integer(i64::MAX),
        Value::Real(f64::INFINITY),
        Value::Real(f64::NEG_INFINITY),
        Value::Real(1e300),
        Value::Blob(vec![0xff, 0x00, 0x80]),
    ]
}

#[test]
fn nothing_unreadable_is_ever_removed() {
    for encoding in [
        "epoch_s",
        "epoch_ms",
        "epoch_f",
        "text",
        "date",
        "auto",
        "text@America/Sao_Paulo",
    ] {
        for declared in ["", "INTEGER", "TEXT", "REAL"] {
            assert_eq!(
                removed(encoding, declared, &hostile()),
                Vec::<usize>::new(),
                "{encoding} in {declared:?}"
            );
        }
    }
}

#[test]
fn numbers_in_the_wrong_unit_are_kept() {
    let past = now() - DAY;
    assert_eq!(
        removed("epoch_s", "", &[Value::Integer(past * 1000)]),
        Vec::<usize>::new()
    );
    assert_eq!(
        removed("epoch_ms", "", &[Value::Integer(past)]),
        Vec::<usize>::new()
    );
    assert_eq!(
        removed(
            "auto",
            "",
            &[Value::Integer(past), Value::Integer(past * 1000)]
        ),
        [0, 1]
    );
}

#[test]
fn the_past_goes_and_the_future_stays_in_every_encoding() {
    let (past, future) = (now() - 90, now() + 90);
    #[expect(clippy::cast_precision_loss, reason = "a time of this century fits")]
    let float = |seconds: i64| Value::Real(seconds as f64 + 0.25);
    assert_eq!(
        removed(
            "epoch_s",
            "INTEGER",
            &[Value::Integer(past), Value::Integer(future)]
        ),
        [0]
    );
    assert_eq!(
        removed(
            "epoch_ms",
            "INTEGER",
            &[Value::Integer(past * 1000), Value::Integer(future * 1000)]
        ),
        [0]
    );
    assert_eq!(
        removed("epoch_f", "REAL", &[float(past), float(future)]),
        [0]
    );
    assert_eq!(
        removed(
            "epoch_s",
            "TEXT",
            &[text(past.to_string()), text(future.to_string())]
        ),
        [0]
    );
    for format in [
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M:%S.123456Z",
        "%Y-%m-%d %H:%M:%S.5",
        "%Y-%m-%dT%H:%M:%S+00:00",
        "%Y-%m-%d %H:%M:%S+0000",
    ] {
        let values = [past, future].map(|at| form(at, format, "UTC"));
        assert_eq!(removed("text", "TEXT", &values), [0], "{format}");
        assert_eq!(removed("auto", "TEXT", &values), [0], "{format}");
    }
    for (zone, format) in [
        ("America/Los_Angeles", "%Y-%m-%dT%H:%M:%S%:z"),
        ("Asia/Kolkata", "%Y-%m-%d %H:%M:%S%z"),
    ] {
        let values = [past, future].map(|at| form(at, format, zone));
        assert_eq!(removed("text", "TEXT", &values), [0], "{zone}");
    }
}

#[test]
fn a_naive_time_is_read_in_the_zone_of_its_column() {
    let values =
        [now() - 90, now() + 90].map(|at| form(at, "%Y-%m-%d %H:%M:%S", "America/Sao_Paulo"));
    assert_eq!(removed("text@America/Sao_Paulo", "TEXT", &values), [0]);
    // Read as UTC, the same text is three hours older: that is what the zone is for.
    assert_eq!(removed("text", "TEXT", &values), [0, 1]);
}

/// A bare date expires when it is over, not when it begins.
#[test]
fn a_date_lasts_until_its_end() {
    let days = [-2, -1, 0, 1].map(|days| form(now() + days * DAY, "%Y-%m-%d", "UTC"));
    assert_eq!(removed("date", "TEXT", &days), [0, 1]);
    assert_eq!(removed("text", "TEXT", &days), [0, 1]);
    assert_eq!(removed("auto", "TEXT", &days), [0, 1]);
}

#[test]
fn a_time_to_live_that_makes_no_sense_is_for_ever() {
    let mut world = World::new(Backend::Sqlite);
    world.rows().execute_batch("DROP INDEX memories_user; ALTER TABLE memories DROP COLUMN ttl_days; ALTER TABLE memories ADD COLUMN ttl_days").unwrap();
    world.user("ana", None);
    let lives = [
        (Value::Integer(7), true),
        (text("7"), true),
        (Value::Real(0.5), true),
        (Value::Null, false),
        (Value::Integer(0), false),
        (Value::Integer(-7), false),
        (Value::Integer(i64::MAX), false),
        (Value::Real(f64::INFINITY), false),
        (text("a week"), false),
        (Value::Blob(vec![7]), false),
    ];
    let mut expected = std::collections::BTreeSet::new();
    for (life, goes) in lives {
        let id = world.memory("ana", now() - 8 * DAY, None);
        world
            .rows()
            .execute(
                "UPDATE memories SET ttl_days = ?2 WHERE id = ?1",
                rusqlite::params![id, life],
            )
            .unwrap();
        if !goes {
            expected.insert(id);
        }
    }
    let night = world.night().expect(0);
    assert_eq!(world.ids(), expected);
    assert!(
        night.pass("ttl")["findings"]["unreadable"]
            .as_u64()
            .unwrap()
            >= 5,
        "{night:#?}"
    );
}
