use uuid::Uuid;

use super::super::testing::*;
use super::*;
use crate::store::image::SqlValue;

/// Intents with every field in an odd state.
fn odd_ones() -> Vec<Intent> {
    let bare = Intent {
        namespace: None,
        points: vec![],
        images: vec![],
        ..drop_point(1)
    };
    vec![
        deletion(1),
        erasure(i64::MIN),
        drop_point(u64::MAX),
        bare,
        Intent {
            memory: Some(MemoryId::Text("1".into())),
            behind: vec![MemoryId::Bytes([0, 255].into()), MemoryId::Text("".into())],
            points: vec![PointId::Uuid(Uuid::max()), PointId::Text("é/ø".into())],
            ..deletion(2)
        },
        Intent {
            kind: ActionKind::End,
            mark: Some(Mark::Ended {
                at: "9999-12-30T22:00:00.999999999Z".parse().unwrap(),
            }),
            reason: Reason::OwnerUnknown,
            images: vec![],
            ..deletion(3)
        },
        Intent {
            kind: ActionKind::Supersede,
            mark: Some(Mark::Superseded {
                by: MemoryId::Bytes([0xff, 0].into()),
            }),
            survivor: Some(Survivor {
                id: MemoryId::Bytes([0xff, 0].into()),
                essence: Version([7; 16]),
            }),
            reason: Reason::Duplicate {
                cosine_e4: Some(9876),
            },
            stays: Some(RowImage {
                table: "t".into(),
                rowid: None,
                columns: vec![("uses".into(), SqlValue::Integer(3))],
            }),
            ..deletion(5)
        },
        Intent {
            unit: Some(Unit {
                root: RowImage {
                    table: "t".into(),
                    rowid: Some(-1),
                    columns: vec![
                        ("a".into(), SqlValue::Null),
                        ("b".into(), SqlValue::Real(f64::NEG_INFINITY)),
                        ("c".into(), SqlValue::Text(vec![0xff, 0])),
                        ("d".into(), SqlValue::Blob(vec![])),
                    ],
                },
                behind: vec![],
                children: vec![],
                detached: vec![],
            }),
            images: vec![PointImage {
                id: PointId::Number(0),
                namespace: None,
                body: (0..=255).cycle().take(100_000).collect(),
            }],
            ..deletion(4)
        },
    ]
}

#[test]
fn every_intent_is_read_as_it_was_written() {
    let world = World::new();
    let state = world.main();
    let written = odd_ones();
    let ids = state.intend("run-1", PassName::Orphans, &written).unwrap();
    let read = state.open_intents(None, 99).unwrap();
    assert_eq!(read.iter().map(|r| r.id).collect::<Vec<_>>(), ids);
    for (record, intent) in read.iter().zip(&written) {
        assert_eq!(record.intent, *intent);
        assert_eq!(
            (record.run.as_str(), record.pass),
            ("run-1", PassName::Orphans)
        );
        assert_eq!((record.settled, record.undone_at), (None, None));
    }
    assert_eq!(state.intents_of_run("run-1", None, 99).unwrap(), read);
}

#[test]
fn open_intents_come_in_pages_across_runs() {
    let world = World::new();
    let state = world.main();
    assert_eq!(state.open_intents(None, 9).unwrap(), []);
    assert_eq!(state.intend("run-0", PassName::Ttl, &[]).unwrap(), []);
    let mut ids = Vec::new();
    for run in ["run-1", "run-2"] {
        for pass in [PassName::Ttl, PassName::Orphans] {
            ids.extend(
                state
                    .intend(run, pass, &[deletion(1), deletion(2)])
                    .unwrap(),
            );
        }
    }
    assert!(ids.is_sorted());
    state
        .settle(
            &[(ids[1], Settled::Done), (ids[6], Settled::Abandoned)],
            at(0),
        )
        .unwrap();
    let mut seen = Vec::new();
    loop {
        let page = state.open_intents(seen.last().copied(), 4).unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|record| record.id));
    }
    assert_eq!(seen, [ids[0], ids[2], ids[3], ids[4], ids[5], ids[7]]);
    assert_eq!(state.count_open_intents().unwrap(), 6);
    let of_run = state.intents_of_run("run-2", Some(ids[4]), 2).unwrap();
    let of_run: Vec<_> = of_run.iter().map(|r| (r.id, r.settled)).collect();
    assert_eq!(
        of_run,
        [(ids[5], None), (ids[6], Some((Settled::Abandoned, at(0))))]
    );
}

#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    let world = World::new();
    let state = world.main();
    let stranger = Intent {
        partition: "ana".into(),
        ..deletion(2)
    };
    let refused = state.intend("run-1", PassName::Ttl, &[deletion(1), stranger]);
    assert!(
        matches!(refused, Err(StateError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(state.count_open_intents().unwrap(), 0);
}

#[test]
fn a_memory_is_found_by_its_own_id_and_behind_others() {
    let world = World::new();
    let state = world.main();
    let text = Intent {
        memory: Some(MemoryId::Text("1".into())),
        behind: vec![],
        ..deletion(9)
    };
    let ids = state
        .intend(
            "run-1",
            PassName::Ttl,
            &[deletion(1), text, deletion(2), drop_point(1)],
        )
        .unwrap();
    let find = |id: MemoryId| -> Vec<_> {
        let found = state.intents_of_memory(&id).unwrap();
        found.into_iter().map(|record| record.id).collect()
    };
    assert_eq!(find(MemoryId::Integer(1)), [ids[0]]);
    assert_eq!(find(MemoryId::Text("1".into())), [ids[1]]);
    assert_eq!(find(MemoryId::Integer(1_000_002)), [ids[2]]);
    assert_eq!(find(MemoryId::Integer(3)), []);
}

#[test]
fn the_search_for_open_intents_does_not_walk_through_the_settled() {
    let world = World::new();
    let state = world.main();
    let sql = concat!(
        "EXPLAIN QUERY PLAN ",
        select_intents!("i.outcome IS NULL AND i.id > 0"),
        "9"
    );
    let plan = state
        .rows("explain", sql, [], |row| row.get::<_, String>(3))
        .unwrap();
    assert!(
        plan.iter().any(|step| step.contains("INDEX intents_open")),
        "{plan:?}"
    );
}

#[test]
fn an_intent_is_never_printed_with_what_the_memory_says() {
    let printed = format!("{:?}", deletion(1));
    let hidden = [SECRET.to_owned(), format!("{:?}", SECRET.as_bytes())];
    for text in hidden {
        assert!(
            !printed.contains(text.trim_matches(['[', ']'])),
            "{printed}"
        );
    }
}
