use super::super::compare::Context;
use super::*;

#[path = "rewording.rs"]
mod rewording;

fn judge(a: &str, b: &str) -> Verdict {
    let (a, b) = (Analysis::of(a), Analysis::of(b));
    verdict(&Comparison::of(&a, &b, Context::default()))
}

/// One word, digit or sign apart, and two memories all the same.
#[rustfmt::skip]
pub(crate) const APART: &[(&str, &str)] = &[
    ("The review is on 15 October", "The review is on 16 October"),
    ("uses version 2.1 of the tool", "uses version 2.10 of the tool"),
    ("Ana prefers npm", "Ana prefers pnpm"),
    ("prefers npm", "prefers pnpm"),
    ("User prefers npm for all front-end projects", "User prefers pnpm for all front-end projects"),
    ("nao usa docker", "usa docker"),
    ("nao usa", "usa"),
    ("The service listens on port 8080", "The service listens on port 9090"),
    ("port 8080", "port 9090"),
    ("Ana likes tea", "Bruno likes tea"),
    ("ana gosta de cha", "bruno gosta de cha"),
    ("turn left at the corner", "turn right at the corner"),
    ("uses Postgres for storage", "uses MySQL for storage"),
    ("The price is 1.5 euros", "The price is 15 euros"),
    ("standup every monday", "standup every tuesday"),
    ("meeting at 3 am", "meeting at 3 pm"),
    ("meeting at 3am", "meeting at 3pm"),
    ("Ana has two children", "Ana has three children"),
    ("The budget is 500 EUR", "The budget is 500 USD"),
    ("The budget is €500", "The budget is $500"),
    ("the trial lasts 3 days", "the trial lasts 3 weeks"),
    ("runs every day", "never runs"),
    ("Ana manages Bruno", "Bruno manages Ana"),
    ("docs at https://a.example/x", "docs at https://a.example/y"),
    ("mail ana@x.org", "mail ana@y.org"),
    ("config in /etc/app/a.conf", "config in /etc/app/b.conf"),
    ("commit 3f2a9bc", "commit 3f2a9bd"),
    ("use parse_config", "use parse_configs"),
    ("The dog chased the cat", "The cat chased the dog"),
    ("likes coffee", "likes tea"),
    ("prefers dark mode", "prefers light mode"),
    ("always use tabs", "always use spaces"),
    ("lives in Rome", "lived in Rome"),
    ("Ana lives in Rome", "Ana used to live in Rome"),
    ("Ana might move to Porto", "Ana moved to Porto"),
    ("Ana is allergic to nuts", "Ana's son is allergic to nuts"),
    ("my wife is vegan", "your wife is vegan"),
    ("flight from Lisbon to Porto", "flight from Porto to Lisbon"),
    ("flight to Lisbon", "flight from Lisbon"),
    ("Ana eats meat", "Ana does not eat meat"),
    ("Ana doesn't like Bruno", "Ana likes Bruno"),
    ("I like it 👍", "I like it 👎"),
    ("uses C", "uses C++"),
    ("uses C++", "uses C#"),
    ("Python 3.1 is installed", "Python 3.10 is installed"),
    ("python 3.1", "python 3.10"),
    ("release v1.2.3", "release v1.2.4"),
    ("the file is 5 MB", "the file is 5 GB"),
    ("the file is 5MB", "the file is 5 GB"),
    ("temperature -5 degrees", "temperature 5 degrees"),
    ("ele mora com a avó", "ele mora com o avô"),
    ("her first job was at Acme", "her second job was at Acme"),
    ("my brother works at Google", "my sister works at Google"),
    ("only eats fish", "eats fish"),
    ("all tests pass", "some tests pass"),
    ("Ana started smoking", "Ana stopped smoking"),
    ("increase the timeout", "decrease the timeout"),
    ("enable the cache", "disable the cache"),
    ("reuniao na segunda-feira", "reuniao na quarta-feira"),
    ("prefere café", "prefere chá"),
    ("tem dois filhos", "tem tres filhos"),
    ("tiene dos hijos", "tiene tres hijos"),
    ("no usa docker", "usa docker"),
    ("vive en Madrid", "vive en Sevilla"),
    ("Ich mag Kaffee", "Ich mag keinen Kaffee"),
    ("J'aime le café", "Je n'aime pas le café"),
    ("The meeting is at 15:30", "The meeting is at 15:45"),
    ("in 2023 she moved", "in 2024 she moved"),
    ("Ana said the deploy works", "Ana said the deploy never works"),
    ("the API key ends in 4f9a", "the API key ends in 4f9b"),
    ("Call me at 555-0134", "Call me at 555-0135"),
    ("phone 5550134", "phone 5550135"),
    ("uses TLS 1.2", "uses TLS 1.3"),
    ("user id 1001", "user id 1002"),
    ("room A12", "room A13"),
    ("likes red", "likes blue"),
    ("Ana is taller than Bruno", "Bruno is taller than Ana"),
    ("Ana bought the house from Bruno", "Bruno bought the house from Ana"),
    ("before lunch", "after lunch"),
    ("The server is up", "The server is down"),
    ("include tests", "exclude tests"),
    ("Use GET for this endpoint", "Use POST for this endpoint"),
    ("he is married", "he is unmarried"),
    ("she agrees with the plan", "she disagrees with the plan"),
    ("the door is locked", "the door is unlocked"),
    ("takes aspirin", "takes ibuprofen"),
    ("allergic to penicillin", "allergic to amoxicillin"),
    ("works remotely", "works on site"),
    ("dinner at 7", "dinner at 8"),
    ("twice a week", "three times a week"),
    ("weekly report", "monthly report"),
    ("can eat gluten", "can't eat gluten"),
    ("gluten-free diet", "gluten diet"),
    ("has no allergies", "has allergies"),
    ("Tem alergia a amendoim", "Não tem alergia a amendoim"),
    ("Nunca toma café", "Toma café"),
    ("Não há nenhum gato na casa", "Há um gato na casa"),
    ("我喜欢茶", "我不喜欢茶"),
    ("Мне нравится чай", "Мне не нравится чай"),
    ("", ""),
    ("...", "!!!"),
    ("Ana's email is ana.silva@x.org", "Ana's email is ana.souza@x.org"),
    ("The password was changed last week", "The password was changed this week"),
    ("born on 1990-05-12", "born on 1990-12-05"),
    ("deadline 12/05", "deadline 05/12"),
    ("The user wants short answers", "The user wants long answers"),
    ("the user wants answers in French", "the user wants answers in English"),
    ("uses vim", "uses emacs"),
    ("usa vim", "usa emacs"),
    ("likes cats more than dogs", "likes dogs more than cats"),
    ("Bruno's daughter is 5", "Bruno's son is 5"),
    ("Ana trusts nobody", "Ana trusts everybody"),
    ("Ana reports to Carla", "Carla reports to Ana"),
    ("temperature 20 °C", "temperature 20 °F"),
    ("weighs 70 kg", "weighs 70 lb"),
    ("costs R$ 10", "costs US$ 10"),
    ("a filha gosta de cinema", "o filho gosta de cinema"),
    ("mora no Rio", "morava no Rio"),
    ("o café custa 2,50 €", "o café custa 2,50 $"),
    ("the fee is € 2.50", "the fee is £ 2.50"),
    ("the coffee costs ₹3", "the coffee costs ₽3"),
    ("the fee is 10 %", "the fee is 10 $"),
    ("balance: - 200 EUR", "balance: 200 EUR"),
    ("it grew + 5 %", "it grew - 5 %"),
    ("alert when cpu > 90", "alert when cpu < 90"),
    ("alert when cpu>90", "alert when cpu<90"),
    ("x != 5", "x = 5"),
    ("the pipe is 5' long", "the pipe is 5\" long"),
];

/// Case, accents, punctuation, spacing.
#[rustfmt::skip]
pub(crate) const SAME: &[(&str, &str)] = &[
    ("Ana likes green tea.", "ana likes GREEN tea"),
    ("Não usa Docker.", "nao usa docker"),
    ("Prefers  dark   mode!", "prefers dark mode"),
    ("“Hello”, she said", "\"Hello\" she said"),
    ("Ana—likes tea", "Ana likes tea"),
    ("café da manhã às 8h", "cafe da manha as 8h"),
    ("don't use tabs", "dont use tabs"),
    ("don’t use tabs", "don't use tabs"),
    ("Version 2.1", "version 2.1."),
    ("uses C++, always", "uses C++ always"),
];

#[test]
fn look_alikes_are_never_merged() {
    for (a, b) in APART {
        for (a, b) in [(a, b), (b, a)] {
            let verdict = judge(a, b);
            assert!(
                matches!(verdict, Verdict::Apart(_)),
                "{verdict:?}: {a} | {b}"
            );
            assert!(!verdict.may_merge(Some(1.0), 0.0));
        }
    }
}

#[test]
fn one_text_in_two_spellings_is_merged_without_vectors() {
    for (a, b) in SAME {
        assert_eq!(judge(a, b), Verdict::Same, "{a} | {b}");
        assert!(judge(a, b).may_merge(None, 1.0));
        assert!(judge(a, b).may_merge(Some(-1.0), 1.0));
    }
}

#[test]
fn a_text_said_in_other_words_is_left_to_the_cosine() {
    for (a, b) in [
        ("User prefers dark mode", "The user prefers dark mode"),
        (
            "User prefers dark mode",
            "User prefers dark mode in the editor",
        ),
        (
            "Carla keeps bees behind the barn because the orchard needs them",
            "Behind her barn Carla has hives, which is good for the trees",
        ),
    ] {
        let verdict = judge(a, b);
        assert_eq!(verdict, Verdict::Alike, "{a} | {b}");
        assert!(verdict.may_merge(Some(0.93), 0.92));
        assert!(!verdict.may_merge(Some(0.91), 0.92));
        assert!(!verdict.may_merge(Some(f32::NAN), 0.92));
        assert!(!verdict.may_merge(None, 0.92));
    }
}

/// A vector that stands for what could not be embedded is near every other one of its kind.
#[test]
fn one_vector_does_not_make_one_memory_of_texts_in_other_words() {
    let judge = |a, b, cosine| {
        let (a, b) = (Analysis::of(a), Analysis::of(b));
        let cosine = Some(cosine);
        verdict(&Comparison::of(
            &a,
            &b,
            Context {
                cosine,
                ..Context::default()
            },
        ))
    };
    let retold = (
        "Carla keeps bees behind the barn because the orchard needs them",
        "Behind her barn Carla has hives, which is good for the trees",
    );
    assert_eq!(judge(retold.0, retold.1, 0.95), Verdict::Alike);
    assert_eq!(
        judge(retold.0, retold.1, 1.0),
        Verdict::Apart(Difference::Vectors)
    );
    assert_eq!(
        judge("Tom bought a car", "Tom purchased an automobile", 1.0),
        Verdict::Alike
    );
    assert_eq!(judge("Prefers tea.", "prefers TEA", 1.0), Verdict::Same);
}

#[test]
fn what_goes_on_cannot_go_for_what_it_began_with() {
    for (longer, shorter) in [
        ("Ana takes the pill before lunch", "Ana takes the pill"),
        ("Ana is allergic to penicillin", "Ana is allergic"),
        ("The gate opens with the old key", "The gate opens"),
    ] {
        let (longer, shorter) = (Analysis::of(longer), Analysis::of(shorter));
        assert!(goes_on(&longer, &shorter));
        assert!(!goes_on(&shorter, &longer));
    }
    for (one, other) in [
        ("The user prefers dark mode", "User prefers dark mode"),
        ("Ana currently lives in Rome", "Ana lives in Rome"),
        ("Tom bought a car", "Tom purchased an automobile"),
        (
            "Maeve works as a manager at Harbor",
            "Maeve is a manager at Harbor",
        ),
    ] {
        assert!(!goes_on(&Analysis::of(one), &Analysis::of(other)), "{one}");
    }
}

#[test]
fn the_first_difference_is_named() {
    for (a, b, difference) in [
        ("", "", Difference::Empty),
        ("Ana likes tea", "Bruno likes tea", Difference::Names),
        ("mail ana@x.org", "mail ana@y.org", Difference::Codes),
        ("Ana manages Bruno", "Bruno manages Ana", Difference::Order),
        (
            "Ana eats meat",
            "Ana never eats meat",
            Difference::Contradiction,
        ),
        ("Ana might move", "Ana moves", Difference::Qualifiers),
        (
            "ele mora com a avó",
            "ele mora com a avô",
            Difference::Accents,
        ),
        (
            "prefers quiet rooms",
            "prefers sunny rooms",
            Difference::Words,
        ),
    ] {
        assert_eq!(judge(a, b), Verdict::Apart(difference), "{a} | {b}");
    }
}

#[test]
fn a_text_too_long_to_be_judged_merges_only_with_itself() {
    let long = "Ana likes tea and the sea. ".repeat(60);
    assert_eq!(judge(&long, &long), Verdict::Same);
    assert_eq!(
        judge(&long, &format!("{long} Really.")),
        Verdict::Apart(Difference::Length)
    );
    let huge = "Ana likes tea and the sea. ".repeat(4000);
    assert_eq!(judge(&huge, &huge), Verdict::Same);
    let tail = format!("{huge} Never.");
    assert_eq!(
        judge(&huge, &tail),
        Verdict::Apart(Difference::Length),
        "they differ beyond what is read"
    );
}
