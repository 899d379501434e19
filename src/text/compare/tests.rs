use super::super::guard::{Difference, Verdict, verdict};
use super::*;
use proptest::prelude::*;

fn disagree(a: &str, b: &str) -> [bool; 4] {
    let (a, b) = (Analysis::of(a), Analysis::of(b));
    let found = Comparison::of(&a, &b, Context::default()).disagreements();
    [found.negation, found.antonym, found.numeric, found.temporal].map(|found| found.is_some())
}

#[test]
fn each_signal_speaks_where_it_should() {
    const NEGATION: [bool; 4] = [true, false, false, false];
    const ANTONYM: [bool; 4] = [false, true, false, false];
    const NUMERIC: [bool; 4] = [false, false, true, false];
    const TEMPORAL: [bool; 4] = [false, false, false, true];
    const NONE: [bool; 4] = [false; 4];
    for (a, b, expected) in [
        ("Ana eats meat", "Ana does not eat meat", NEGATION),
        ("usa docker", "nao usa docker", NEGATION),
        ("come carne", "nunca come carne", NEGATION),
        ("usa docker", "no usa docker pero le gusta", NEGATION),
        ("há um gato em casa", "não há nenhum gato em casa", NEGATION),
        ("não há nenhum gato em casa", "não há gato em casa", NONE),
        ("she has not only read it", "she has read it", NONE),
        (
            "you attended a course",
            "you have never attended any courses or workshops",
            NEGATION,
        ),
        ("the door is open", "the door is closed", ANTONYM),
        ("a porta está aberta", "a porta está fechada", ANTONYM),
        ("la puerta está abierta", "la puerta está cerrada", ANTONYM),
        ("the door is not open", "the door is closed", NEGATION),
        ("the shirt is red", "the shirt is blue", ANTONYM),
        ("turn the light on", "turn the light off", ANTONYM),
        ("Ana has two cats", "Ana has three cats", NUMERIC),
        ("Ana tem dois gatos", "Ana tem tres gatos", NUMERIC),
        ("the cache holds 512 MB", "the cache holds 1 GB", NUMERIC),
        ("the cache holds 1000 MB", "the cache holds 1 GB", NONE),
        ("it rose from 70% to 90%", "it rose to 90%", NONE),
        ("Ana has two cats", "the trip took three days", NONE),
        (
            "the review is on 15 October",
            "the review is on 16 October",
            TEMPORAL,
        ),
        ("standup is on Monday", "standup is on Tuesday", TEMPORAL),
        (
            "standup is on Monday and Tuesday",
            "standup is on Tuesday",
            NONE,
        ),
        ("the shop opens at 9am", "the shop opens at 9 am", NONE),
        ("", "", NONE),
        ("Ana likes tea", "", NONE),
    ] {
        assert_eq!(disagree(a, b), expected, "{a} | {b}");
        assert_eq!(disagree(b, a), expected, "{b} | {a}");
    }
}

#[test]
fn never_needs_less_of_its_text_than_not() {
    let negation = |a: &str, b: &str| {
        let (a, b) = (Analysis::of(a), Analysis::of(b));
        Comparison::of(&a, &b, Context::default())
            .disagreements()
            .negation
            .unwrap()
    };
    let told = "she baked bread with her neighbour";
    let never = negation("she has never baked bread for the bazaar", told);
    let not = negation("she has not baked bread for the bazaar", told);
    assert!(never > not, "{never} {not}");
}

#[test]
fn different_things_are_no_contradiction() {
    let agreement = |a: &str, b: &str| {
        let (a, b) = (Analysis::of(a), Analysis::of(b));
        Comparison::of(&a, &b, Context::default())
            .disagreements()
            .negation
            .unwrap()
    };
    let same = agreement(
        "the man is not playing the flute",
        "the man is playing the flute",
    );
    let other = agreement(
        "the man is not playing the flute",
        "the man is playing the guitar",
    );
    let person = agreement("Ana does not eat meat", "Bruno eats meat");
    assert!(
        same > 0.9 && other < 0.4 && person < 0.5,
        "{same} {other} {person}"
    );
}

#[test]
fn what_all_texts_of_a_namespace_say_weighs_less() {
    let texts: Vec<Analysis> = [
        "the project uses rust",
        "the project has a budget",
        "the project began in may",
        "a project without end",
    ]
    .map(Analysis::of)
    .to_vec();
    let mut frequencies = Frequencies::default();
    for text in &texts {
        frequencies.add(text);
    }
    let (a, b) = (
        Analysis::of("the project is not late"),
        Analysis::of("the project uses rust"),
    );
    let agreement = |frequencies| {
        let context = Context {
            cosine: None,
            frequencies,
        };
        Comparison::of(&a, &b, context).cover(Side::A, &[false; 16])
    };
    assert!(agreement(Some(&frequencies)) < agreement(None));
}

#[test]
fn languages_are_not_compared_with_each_other() {
    let (a, b) = (
        Analysis::of("she does not drink the tea"),
        Analysis::of("ela bebe o chá da tarde"),
    );
    let pair = Comparison::of(&a, &b, Context::default());
    assert!(!pair.is_readable());
    assert_eq!(verdict(&pair), Verdict::Apart(Difference::Language));
}

const WORDS: [&str; 48] = [
    "Ana", "Bruno", "the", "a", "user", "likes", "hates", "tea", "coffee", "not", "never", "no",
    "without", "open", "closed", "two", "three", "5", "2.1", "2.10", "port", "8080", "version",
    "monday", "Tuesday", "15", "October", "16", "left", "right", "always", "only", "npm", "pnpm",
    "nao", "usa", "tem", "dois", "nunca", "não", "el", "gato", "meat,", "and", "but.", "don't",
    "👍", "/etc/x",
];

fn sentence() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..9)
        .prop_map(|words| words.join(" "))
}

/// A sentence, and the same with one word changed, dropped or added: where a wrong merge is nearest.
fn near_pair() -> impl Strategy<Value = (String, String)> {
    let word = proptest::sample::select(WORDS.to_vec());
    (sentence(), any::<proptest::sample::Index>(), word, 0..3_u8).prop_map(
        |(text, at, word, change)| {
            let mut words: Vec<&str> = text.split(' ').collect();
            let at = at.index(words.len());
            match change {
                0 => words[at] = word,
                1 => words.insert(at, word),
                _ => {
                    words.remove(at);
                }
            }
            let other = words.join(" ");
            (text, other)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_disagrees_is_never_merged((a, b) in near_pair()) {
        let (a, b) = (Analysis::of(&a), Analysis::of(&b));
        let pair = Comparison::of(&a, &b, Context { cosine: Some(1.0), frequencies: None });
        if pair.disagreements().is_any() {
            prop_assert!(!verdict(&pair).may_merge(Some(1.0), -1.0));
        }
    }

    #[test]
    fn the_order_of_a_pair_makes_no_difference((a, b) in near_pair()) {
        let (a, b) = (Analysis::of(&a), Analysis::of(&b));
        let (one, other) = (Comparison::of(&a, &b, Context::default()), Comparison::of(&b, &a, Context::default()));
        prop_assert_eq!(one.disagreements(), other.disagreements());
        prop_assert_eq!(verdict(&one), verdict(&other));
    }

    #[test]
    fn whatever_disagrees_was_possible_and_has_a_term_in_common((a, b) in near_pair()) {
        let (a, b) = (Analysis::of(&a), Analysis::of(&b));
        let found = Comparison::of(&a, &b, Context::default()).disagreements();
        let possible = Possible::between(&a, &b);
        prop_assert_eq!(possible, Possible::between(&b, &a));
        prop_assert!(possible.negation || found.negation.is_none());
        prop_assert!(possible.antonym || found.antonym.is_none());
        prop_assert!(possible.numeric || found.numeric.is_none());
        prop_assert!(possible.temporal || found.temporal.is_none());
        let others = b.terms();
        let shares = a.terms().iter().any(|term| others.binary_search(term).is_ok());
        let agreements = [found.negation, found.antonym, found.numeric, found.temporal];
        // "Never" alone gives a fifth.
        prop_assert!(shares || agreements.into_iter().flatten().all(|agreement| agreement <= 0.2));
    }

    #[test]
    fn agreements_are_shares((a, b) in near_pair()) {
        let (a, b) = (Analysis::of(&a), Analysis::of(&b));
        let found = Comparison::of(&a, &b, Context::default()).disagreements();
        for agreement in [found.negation, found.antonym, found.numeric, found.temporal].into_iter().flatten() {
            prop_assert!((0.0..=1.0).contains(&agreement));
        }
    }

    #[test]
    fn any_text_can_be_compared(a in ".{0,80}", b in "\\PC{0,80}") {
        let (a, b) = (Analysis::of(&a), Analysis::of(&b));
        let pair = Comparison::of(&a, &b, Context::default());
        let _verdict = verdict(&pair);
        prop_assert_eq!(pair.disagreements(), Comparison::of(&b, &a, Context::default()).disagreements());
    }
}
