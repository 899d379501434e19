use std::time::Duration;

use super::*;
use crate::config::Ratio;
use crate::memory::Namespace;
use crate::state::Answer;

const DAY: i64 = 86_400;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + day * DAY).unwrap()
}

fn on(day: i64) -> Moment {
    Moment::exact(at(day))
}

fn ana() -> Namespace {
    Namespace::parse("user:ana").unwrap()
}

fn settings() -> config::Review {
    config::Review {
        enabled: true,
        stale_after: Duration::from_hours(90 * 24),
        unused_after: Duration::from_hours(180 * 24),
        per_week: 20,
    }
}

fn decay() -> config::Decay {
    config::Decay {
        enabled: true,
        floor: Ratio::new(0.05).unwrap(),
        default_scale: Duration::from_hours(1),
        scale: vec![],
        shape: 1.0,
        exempt_types: vec!["preference".into()],
        max_fraction: Ratio::new(0.05).unwrap(),
    }
}

const FULL: Schema = Schema {
    confirms: true,
    tells_use: true,
};

fn judge_with(schema: Schema, memory: &Memory, asked: &[Asked]) -> Verdict {
    let (settings, decay, queue) = (settings(), decay(), Queue::default());
    let rule = Rule {
        now: at(0),
        settings: &settings,
        decay: &decay,
        queue: &queue,
        left: 20,
    };
    let asked: Vec<&Asked> = asked.iter().collect();
    rule.judge(schema, memory, &asked)
}

fn judge(memory: &Memory) -> Verdict {
    judge_with(FULL, memory, &[])
}

fn memory(kind: &str, created: i64) -> Memory {
    let mut memory = Memory::new(Some(MemoryId::Integer(1)));
    memory.kind = Some(kind.into());
    memory.content = Some("the text".into());
    memory.namespace = Some(ana());
    memory.created_at = on(created);
    memory
}

fn asked(kind: QuestionKind, since: i64, answered: Option<(Answer, i64)>) -> Asked {
    Asked {
        entry: 1,
        kind,
        namespace: ana(),
        fingerprint: fingerprint(&memory("fact", 0)),
        since: Some(at(since)),
        answered: answered.map(|(answer, day)| (answer, at(day))),
    }
}

#[test]
fn a_memory_is_stale_at_the_very_instant() {
    assert_eq!(judge(&memory("fact", -90)), Verdict::Stale(at(-90)));
    let mut young = memory("fact", -90);
    young.created_at = Moment::exact(at(-90) + SignedDuration::from_nanos(1));
    assert_eq!(judge(&young), Verdict::Nothing);
    let mut coarse = memory("fact", -90);
    coarse.created_at = Moment::At {
        earliest: at(-90),
        latest: at(-89),
    };
    assert_eq!(judge(&coarse), Verdict::Nothing, "some time of that day");
}

#[test]
fn a_confirmation_counts_instead_of_the_creation_and_noise_asks_nothing() {
    let mut confirmed = memory("fact", -900);
    confirmed.confirmed_at = on(-89);
    assert_eq!(judge(&confirmed), Verdict::Nothing);
    confirmed.confirmed_at = on(-91);
    assert_eq!(judge(&confirmed), Verdict::Stale(at(-91)));
    confirmed.confirmed_at = Moment::Unreadable;
    assert_eq!(judge(&confirmed), Verdict::Unreadable);
    let mut timeless = memory("fact", 0);
    timeless.created_at = Moment::Absent;
    assert_eq!(judge(&timeless), Verdict::Unreadable);
}

#[test]
fn what_never_fades_is_asked_about_when_nobody_uses_it() {
    let mut kept = memory("Preference", -900);
    kept.confirmed_at = on(-10);
    kept.last_used_at = on(-180);
    assert_eq!(judge(&kept), Verdict::Unused(at(-180)));
    kept.last_used_at = Moment::Absent;
    assert_eq!(judge(&kept), Verdict::Unused(at(-900)));
    kept.last_used_at = on(-179);
    assert_eq!(judge(&kept), Verdict::Nothing);
    kept.last_used_at = Moment::Unreadable;
    assert_eq!(judge(&kept), Verdict::Unreadable);
    let mut fact = memory("fact", -900);
    fact.confirmed_at = on(-10);
    fact.last_used_at = on(-500);
    assert_eq!(judge(&fact), Verdict::Nothing, "it fades by itself");
    fact.pinned = true;
    assert_eq!(judge(&fact), Verdict::Unused(at(-500)));
    let blind = Schema {
        tells_use: false,
        ..FULL
    };
    assert_eq!(judge_with(blind, &fact, &[]), Verdict::Nothing);
}

#[test]
fn nothing_is_asked_twice() {
    use QuestionKind::{Stale, Unused};
    let stale = memory("fact", -100);
    let open = asked(Stale, -100, None);
    assert_eq!(judge_with(FULL, &stale, &[open]), Verdict::Nothing);
    let kept = asked(Stale, -100, Some((Answer::Kept, -50)));
    assert_eq!(
        judge_with(FULL, &stale, std::slice::from_ref(&kept)),
        Verdict::Nothing
    );
    let mut anew = memory("fact", -400);
    anew.confirmed_at = on(-95);
    assert_eq!(
        judge_with(FULL, &anew, &[kept]),
        Verdict::Stale(at(-95)),
        "another confirmation has become old"
    );
    let mut unused = memory("preference", -900);
    unused.confirmed_at = on(-10);
    unused.last_used_at = on(-400);
    for (day, verdict) in [(-179, Verdict::Nothing), (-181, Verdict::Unused(at(-400)))] {
        let stale = asked(Stale, -900, Some((Answer::Confirmed, day)));
        assert_eq!(judge_with(FULL, &unused, &[stale]), verdict, "{day}");
    }
    let old = asked(Unused, -400, Some((Answer::Kept, -300)));
    assert_eq!(judge_with(FULL, &unused, &[old]), Verdict::Nothing);
}

#[test]
fn an_answer_is_a_confirmation_where_the_row_can_hold_none() {
    let bare = Schema {
        confirms: false,
        ..FULL
    };
    let stale = memory("fact", -400);
    for (answer, day, verdict) in [
        (Answer::Confirmed, -89, Verdict::Nothing),
        (Answer::Kept, -89, Verdict::Nothing),
        (Answer::Confirmed, -91, Verdict::Stale(at(-91))),
        (Answer::Replaced, -89, Verdict::Nothing),
    ] {
        let asked = asked(QuestionKind::Stale, -400, Some((answer, day)));
        assert_eq!(
            judge_with(bare, &stale, &[asked]),
            verdict,
            "{answer} {day}"
        );
    }
}

/// What happened to a memory since.
type Change = fn(&mut Memory);

#[test]
fn a_question_is_void_when_its_memory_is_not_what_it_was() {
    let entry = |reason| Entry {
        id: 1,
        question: Question {
            kind: QuestionKind::Stale,
            partition: "main".into(),
            namespace: ana(),
            members: [member(&memory("fact", -100)).unwrap()].into(),
        },
        reason,
        run: "run".into(),
        queued_at: at(0),
        snoozed_until: None,
        answered: None,
        answered_by: None,
    };
    let stale = entry(Reason::Unconfirmed { since: at(-100) });
    let unused = entry(Reason::Unused { since: at(-100) });
    let changes: [(&str, Change, [bool; 2]); 9] = [
        ("nothing", |_| {}, [false, false]),
        ("text", |m| m.content = Some("x".into()), [true, true]),
        ("type", |m| m.kind = None, [true, true]),
        ("owner", |m| m.namespace = None, [true, true]),
        ("hidden", |m| m.deleted_at = on(-1), [true, true]),
        ("ends later", |m| m.valid_to = on(1), [false, false]),
        ("confirmed", |m| m.confirmed_at = on(-1), [true, false]),
        ("used", |m| m.last_used_at = on(-1), [false, true]),
        ("used often", |m| m.uses = Some(9), [false, false]),
    ];
    for (what, change, void) in changes {
        let mut now = memory("fact", -100);
        change(&mut now);
        let present = HashMap::from([(MemoryId::Integer(1), now)]);
        let found = [&stale, &unused].map(|entry| is_void(entry, &present, at(0)));
        assert_eq!(found, void, "{what}");
    }
    assert!(is_void(&stale, &HashMap::new(), at(0)), "gone");
}
