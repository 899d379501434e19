//! Sources that are SQL expressions.

use std::ops::ControlFlow;

use super::*;
use crate::memory::{Memory, Moment};

const SCHEMA: &str =
    "CREATE TABLE memories(id INTEGER PRIMARY KEY, owner INTEGER, text TEXT, a INTEGER);
    CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE log(memory_id INTEGER, at TEXT);
    INSERT INTO users VALUES (1, 'ana'), (2, NULL);
    INSERT INTO memories VALUES (10, 1, 'x', 1), (11, 2, 'y', 2), (12, 3, 'z', 3);
    INSERT INTO log VALUES (10, '2026-01-01 00:00:00'), (10, '2026-02-01 00:00:00');";
const OWNER: &str = "sql((SELECT u.name FROM users u WHERE u.id = m.owner))";

fn scan(world: &World, roles: &[Role]) -> Vec<Memory> {
    world.read(|snapshot| {
        let mut memories = Vec::new();
        snapshot.scan(roles, &mut |memory| {
            memories.push(memory);
            ControlFlow::Continue(())
        })?;
        Ok(memories)
    })
}

#[test]
fn a_tenant_by_join_and_a_last_use_by_log() {
    let world = World::new(SCHEMA).tenant(OWNER).role(
        Role::LastUsedAt,
        "sql((SELECT max(l.at) FROM log l WHERE l.memory_id = m.id)):text",
    );
    let found = scan(&world, &[Role::LastUsedAt]);
    let namespaces: Vec<_> = found.iter().map(|m| m.namespace.clone()).collect();
    // The name of the second is NULL, and the third has no user at all.
    assert_eq!(namespaces, [Some(user("ana")), None, None]);
    assert_eq!(
        found[0].last_used_at,
        Moment::exact(instant("2026-02-01T00:00:00Z"))
    );
    assert_eq!(found[1].last_used_at, Moment::Absent);
    let census = world.read(Snapshot::census);
    assert_eq!(
        (census.by_namespace[&user("ana")], census.without_namespace),
        (1, 2)
    );
}

#[test]
fn an_expression_that_may_be_missing_reads_as_null_and_another_one_stops() {
    let world = || World::new(SCHEMA);
    let optional = world()
        .role(Role::Type, "sql?(m.kind)")
        .role(Role::Source, "sql?((SELECT s.x FROM sources s))");
    assert_eq!(scan(&optional, &[Role::Type, Role::Source]).len(), 3);
    assert!(!optional.read(|s| Ok::<_, RowError>(s.knows(Role::Type))));
    for (text, said) in [
        ("sql(m.kind)", "no such column: m.kind"),
        ("sql((SELECT s.x FROM sources s))", "no such table: sources"),
        ("sql?(m.a +)", "syntax error"),
        ("sql?(nonesuch(m.a))", "no such function: nonesuch"),
        ("sql?(max(m.a))", "misuse of aggregate"),
        ("sql?((SELECT max(m.a)))", "misuse of aggregate"),
        ("sql?(row_number() OVER w)", "sql?(row_number() OVER w)"),
        ("sql?(m.a, m.text)", "row value misused"),
        ("sql?((SELECT 1, 2))", "returns 2 columns"),
        ("sql?(m.a = :a)", "not read-only or has parameters"),
    ] {
        let Some(source) = crate::config::source(text) else {
            assert_eq!(said, text, "refused by its text");
            continue;
        };
        let mut world = world();
        world.rows.roles.push((Role::Type, source));
        let error = world.try_reader().map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn what_says_something_else_at_each_look_is_refused_by_its_key() {
    const VIEWS: &str = "CREATE VIEW today AS SELECT date('now') AS day;
        CREATE VIEW luck AS SELECT random() AS number;";
    let world = || World::new(&format!("{SCHEMA} {VIEWS}"));
    let refused = |world: World| world.try_reader().map(drop).unwrap_err().to_string();
    for (role, text, said) in [
        (
            Role::Uses,
            "sql(\"randomblob\"(4))",
            "uses = sql(\"randomblob\"(4)) does not fit",
        ),
        (
            Role::Salience,
            "sql((SELECT number FROM luck))",
            "salience = sql(",
        ),
        (
            Role::ExpiresAt,
            "sql?((SELECT day FROM today))",
            "date() of the current time says something else at the next look",
        ),
    ] {
        let error = refused(world().role(role, text));
        assert!(error.contains(said), "{error}");
    }
    let mut filtered = world();
    filtered.rows.filter = Some(source("sql(m.a > (SELECT number FROM luck))"));
    let error = refused(filtered);
    assert!(error.contains("where = sql("), "{error}");
}

#[test]
fn a_memory_is_another_one_when_what_is_read_elsewhere_changes() {
    let world = World::new(SCHEMA)
        .tenant(OWNER)
        .role(Role::Content, "text")
        .role(
            Role::LastUsedAt,
            "sql((SELECT max(l.at) FROM log l WHERE l.memory_id = m.id)):text",
        );
    let both = || {
        let versions = world.read(|s| s.versions(&[n(10), n(11)]));
        let essences = world.read(|s| s.essences(&[n(10), n(11)]));
        assert_eq!(world.writer().versions(&[n(10), n(11)]).unwrap(), versions);
        (versions, essences)
    };
    let (versions, essences) = both();
    assert_eq!(both(), (versions.clone(), essences.clone()));
    let app = world.app();
    app.execute_batch("INSERT INTO log VALUES (10, '2026-03-01 00:00:00')")
        .unwrap();
    let (used, same) = both();
    assert_eq!(
        (used[0] == versions[0], used[1] == versions[1]),
        (false, true)
    );
    assert_eq!(
        same, essences,
        "that it was used makes no other memory of it"
    );
    app.execute_batch("UPDATE users SET name = 'bea' WHERE id = 1")
        .unwrap();
    let (moved, other) = both();
    assert_eq!((moved[0] == used[0], moved[1] == used[1]), (false, true));
    assert_eq!((other[0] == same[0], other[1] == same[1]), (false, true));
}

#[test]
fn what_an_expression_reads_is_never_written() {
    let world = World::new(SCHEMA)
        .role(Role::Uses, "sql(m.a)")
        .role(Role::DeletedAt, "sql(nullif(m.text, m.text))");
    assert!(
        !world
            .read(|snapshot| Ok::<_, RowError>(snapshot.marks()))
            .deleted
    );
    let before = world.dump();
    let mut writer = world.writer();
    let unit = unit_of(&mut writer, n(11));
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
    let after = world.dump();
    assert_eq!(after.len(), before.len() - 1);
    assert!(after.iter().all(|line| before.contains(line)));
}

#[test]
fn which_rows_are_memories_which_are_shown_and_which_need_a_point() {
    let mut world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id, kind, state, pending);
         INSERT INTO memories VALUES (1, 'ana', 'fact', 'active', 0), (2, 'ana', 'fact', 'deleted', 0),
           (3, 'ana', 'note', 'active', 0), (4, 'bea', NULL, 'active', 0), (5, 'ana', 'fact', NULL, 1);",
    )
    .tenant("user_id");
    world.rows.filter = Some(source("sql(m.kind = 'fact')"));
    world.rows.live = Some(source("sql(m.state = 'active')"));
    world.rows.point = Some(source("sql?(NOT m.pending)"));
    let told = |memory: &Memory| {
        (
            memory.is_other,
            memory.is_withdrawn,
            memory.needs_point,
            memory.is_hidden(instant("2026-01-01T00:00:00Z")),
        )
    };
    let memories = scan(&world, &[]);
    let told: Vec<_> = memories.iter().map(told).collect();
    assert_eq!(
        told,
        [
            (false, false, true, false),
            (false, true, true, true),
            // NULL is not active.
            (false, true, false, true),
        ]
    );
    // A row that is something else, or of which nobody can tell, is seen only by those that look for what calls for a point.
    let mut others = Vec::new();
    world.read(|snapshot| {
        snapshot.scan_rows(&[], &mut |memory| {
            others.extend(memory.is_other.then_some(memory.id));
            ControlFlow::Continue(())
        })
    });
    assert_eq!(others, [Some(n(3)), Some(n(4))]);
    let census = world.read(Snapshot::census);
    assert_eq!(
        census.by_namespace.into_iter().collect::<Vec<_>>(),
        [(user("ana"), 3)]
    );

    world.rows.point = Some(source("sql?(NOT m.no_such)"));
    assert!(scan(&world, &[]).iter().all(|memory| memory.needs_point));
}

#[test]
fn a_key_of_several_columns_is_one_id() {
    let schema =
        "CREATE TABLE memories(prefix TEXT, key TEXT, value TEXT, PRIMARY KEY(prefix, key));
         CREATE TABLE extra(p TEXT, k TEXT, x, PRIMARY KEY(p, k, x),
           FOREIGN KEY(p, k) REFERENCES memories(prefix, key) ON DELETE CASCADE);
         INSERT INTO memories VALUES ('a', 'b', 'one'), ('a', 'c', 'two'), (x'00', 'c', 'blob');
         INSERT INTO extra VALUES ('a', 'b', 1), ('a', 'b', 2), ('a', 'c', 3);";
    let mut world = World::new(schema);
    world.rows.id = vec!["prefix".into(), "key".into()];
    let id = t(r#"["a","b"]"#);
    let found: Vec<_> = scan(&world, &[]).into_iter().map(|m| m.id).collect();
    assert_eq!(found, [Some(id.clone()), Some(t(r#"["a","c"]"#)), None]);
    let before = world.dump();
    let mut writer = world.writer();
    let unit = unit_of(&mut writer, id);
    assert_eq!(unit.children.len(), 2);
    let units = [unit];
    assert_eq!(writer.delete_units(&units).unwrap(), [Fate::Removed]);
    assert_eq!(world.dump().len(), before.len() - 3);
    let [unit] = units;
    let restored = writer.put_back(&[unit.into()]).unwrap();
    assert!(restored[0].is_back && restored[0].left.is_empty());
    assert_eq!(world.dump(), before);

    for (columns, said) in [
        (
            vec!["prefix".to_owned()],
            "neither its primary key nor unique",
        ),
        (vec!["key".into(), "value".into()], "columns key, value"),
    ] {
        let mut world = World::new(schema);
        world.rows.id = columns;
        let error = world.try_reader().map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    world.rows.roles.push((Role::SupersededBy, source("value")));
    let error = world.try_reader().map(drop).unwrap_err().to_string();
    assert!(error.contains("no column can refer to it"), "{error}");
}
