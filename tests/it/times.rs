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
    // An hour: the cases take a while on a busy machine.
    let (past, future) = (now() - 3_600, now() + 3_600);
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
        [now() - 3_600, now() + 3_600].map(|at| form(at, "%Y-%m-%d %H:%M:%S", "America/Sao_Paulo"));
    assert_eq!(removed("text@America/Sao_Paulo", "TEXT", &values), [0]);
    // Read as UTC, the same text is three hours older: that is what the zone is for.
    assert_eq!(removed("text", "TEXT", &values), [0, 1]);
}

/// A bare date expires when it is over, not when it begins. The day may change while the test runs: what it removes is
/// right if it is right for the day at its begin or at its end.
#[test]
fn a_date_lasts_until_its_end() {
    let day = || now().div_euclid(DAY);
    for encoding in ["date", "text", "auto"] {
        let today = day();
        let dates: Vec<Value> = (-2..=2)
            .map(|days| form((today + days) * DAY, "%Y-%m-%d", "UTC"))
            .collect();
        let removed = removed(encoding, "TEXT", &dates);
        let past = |today_by_then: i64| (0..2 + today_by_then - today).collect::<Vec<_>>();
        let removed: Vec<i64> = removed
            .into_iter()
            .map(|index| i64::try_from(index).unwrap())
            .collect();
        assert!(
            removed == past(today) || removed == past(day()),
            "{encoding}: {removed:?}"
        );
    }
}

/// A creation inside JSON counts like any other; what is not JSON, or has no such key, is kept.
#[test]
fn a_creation_inside_json_is_read() {
    let mut world = World::new(Backend::Sqlite);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN value TEXT")
        .unwrap();
    world.user("ana", None);
    let old = now() - 8 * DAY;
    let values = [
        (format!("{{\"created\":{old}}}"), true),
        (format!("{{\"created\":\"{old}\"}}"), true),
        (format!("{{\"created\":{}}}", now()), false),
        ("{\"created\":null}".to_owned(), false),
        ("{}".to_owned(), false),
        ("{broken".to_owned(), false),
    ];
    let mut stays = std::collections::BTreeSet::new();
    for (value, goes) in values {
        let id = world.memory("ana", old, Some(7));
        let set = "UPDATE memories SET value = ?2 WHERE id = ?1";
        world
            .rows()
            .execute(set, rusqlite::params![id, value])
            .unwrap();
        if !goes {
            stays.insert(id);
        }
    }
    world.configure(
        "type = \"memory_type\"",
        "type = \"memory_type\"\ncreated_at = \"value:json($.created):epoch_s\"",
    );
    let night = world.night().expect(0);
    assert_eq!(world.ids(), stays, "{night:#?}");
    world.night().expect(0).all_passes("idle");
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
