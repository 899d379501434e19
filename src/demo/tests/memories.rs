use std::collections::{BTreeMap, BTreeSet};

use super::super::planted::{Merge, Pair, Place, planted};
use super::super::seed::{ACCOUNTS, Held, PLACES, SEEDS, Scope, Seed};
use super::super::vectors::{VECTORS, cosine};
use super::{index, seed};

/// Limits of the passes in days, and the cosines, at their defaults.
const STALE_AFTER: f64 = 90.0;
const UNUSED_AFTER: f64 = 180.0;
const RETENTION: f64 = 180.0;
const WINDOW: f64 = 7.0;
const FLOOR: f64 = 0.05;
const CLUSTER_AT: f64 = 0.70;
const MERGE_AT: f64 = 0.92;
/// How far from a cosine's limit a planted pair has to stay: the loss of quantisation is a tenth of it.
const MARGIN: f64 = 0.02;

fn similarity(a: &Place, b: &Place) -> f64 {
    cosine(&VECTORS[index(a.key)], &VECTORS[index(b.key)])
}

fn keys<'a>(places: impl IntoIterator<Item = &'a Place>) -> BTreeSet<&'static str> {
    places.into_iter().map(|place| place.key).collect()
}

/// Keys of the users' memories that have a row and of which `holds` is true.
fn rows_where(holds: impl Fn(&Seed) -> bool) -> BTreeSet<&'static str> {
    SEEDS
        .iter()
        .filter(|seed| seed.scope == Scope::User && seed.place != Held::Point && holds(seed))
        .map(|seed| seed.key)
        .collect()
}

/// Keys that no pass before `decay` takes, and that are not hidden.
fn alive_after_merging(key: &str) -> bool {
    let planted = planted();
    let merged = planted
        .merges
        .iter()
        .flat_map(|merge| merge.reworded.iter().chain(&merge.same_text));
    let mut gone = keys(merged.chain(&planted.hidden));
    gone.extend(keys(planted.removed_by_ttl()));
    gone.extend(keys(planted.removed_by_orphans()));
    !gone.contains(key)
}

fn is_exempt(seed: &Seed) -> bool {
    ["preference", "procedure", "error_pattern"].contains(&seed.kind)
}

#[test]
fn the_demo_has_something_for_every_pass() {
    let planted = planted();
    assert_eq!(planted.expired.len(), 30);
    assert_eq!(planted.history.len(), 3);
    assert_eq!(planted.behind.len(), 1);
    assert_eq!(planted.not_yet_expired.len(), 7);
    assert_eq!(planted.hidden.len(), 4);
    assert_eq!(planted.owner_deleted.len(), 26);
    assert_eq!(planted.ghosts.len(), 12);
    assert_eq!(planted.rowless.len(), 8);
    assert_eq!(planted.merges.len(), 15);
    let members = |of: fn(&Merge) -> usize| planted.merges.iter().map(of).sum::<usize>();
    assert_eq!(members(|merge| merge.reworded.len()), 10);
    assert_eq!(members(|merge| merge.same_text.len()), 6);
    assert_eq!(planted.retold.len(), 13);
    assert_eq!(planted.similar.len(), 6);
    assert_eq!(planted.look_alikes.len(), 21);
    assert_eq!(planted.contradictions.len(), 12);
    assert_eq!(planted.apart.len(), 5);
    assert_eq!(planted.faded.len(), 15);
    assert_eq!(planted.stale.len(), 25);
    assert_eq!(planted.unused.len(), 5);
}

#[test]
fn every_kind_of_difference_and_signal_is_there() {
    let planted = planted();
    let by = |pairs: &[Pair]| pairs.iter().map(|pair| pair.by).collect::<BTreeSet<_>>();
    assert_eq!(
        by(&planted.look_alikes),
        BTreeSet::from([
            "date", "name", "not", "number", "port", "time", "tool", "unit", "version", "weekday"
        ])
    );
    assert_eq!(
        by(&planted.contradictions),
        BTreeSet::from(["antonym", "negation", "numeric"])
    );
    assert_eq!(by(&planted.apart), BTreeSet::from(["namespace", "window"]));
}

#[test]
fn every_account_remembers_something_and_ghosts_have_no_account() {
    let accounts: BTreeSet<_> = ACCOUNTS.iter().map(|account| account.id).collect();
    let with_rows = rows_where(|_| true)
        .iter()
        .map(|key| SEEDS[index(key)].owner)
        .collect();
    assert_eq!(accounts, with_rows);
    let closed: BTreeSet<_> = ACCOUNTS
        .iter()
        .filter(|account| account.deleted_days.is_some())
        .map(|account| account.id)
        .collect();
    let owners = |places: &[Place]| {
        places
            .iter()
            .map(|p| seed(p).owner)
            .collect::<BTreeSet<_>>()
    };
    let planted = planted();
    assert_eq!(owners(&planted.owner_deleted), closed);
    assert_eq!(owners(&planted.ghosts), BTreeSet::from(["bruno", "helga"]));
    assert!(owners(&planted.ghosts).is_disjoint(&accounts));
    assert!(owners(&planted.rowless).is_subset(&(&accounts - &closed)));
    assert_eq!(
        rows_where(|seed| closed.contains(seed.owner)),
        keys(&planted.owner_deleted)
    );
    let points_only = SEEDS
        .iter()
        .filter(|seed| seed.place == Held::Point)
        .map(|seed| seed.key)
        .collect();
    assert_eq!(
        keys(planted.ghosts.iter().chain(&planted.rowless)),
        points_only
    );
}

#[test]
fn names_ids_and_texts_are_unique() {
    let names: BTreeSet<_> = SEEDS.iter().map(|seed| seed.key).collect();
    assert_eq!(names.len(), SEEDS.len());
    let texts: BTreeSet<_> = SEEDS.iter().map(|seed| seed.text.as_str()).collect();
    assert_eq!(texts.len(), SEEDS.len());
    let points: BTreeSet<_> = PLACES.iter().map(Place::point).collect();
    assert_eq!(points.len(), SEEDS.len());
    let rows: BTreeSet<_> = SEEDS
        .iter()
        .zip(PLACES.iter())
        .map(|(seed, place)| (seed.scope, place.id))
        .collect();
    assert_eq!(rows.len(), SEEDS.len());
}

#[test]
fn awkward_but_legal_texts_are_among_them() {
    let some = |holds: fn(&str) -> bool| SEEDS.iter().any(|seed| holds(&seed.text));
    assert!(some(|text| text.contains('😅')));
    assert!(some(|text| text.contains('"')));
    assert!(some(|text| text.contains('\'')));
    assert!(some(|text| text.contains('\n')));
    assert!(some(|text| text.contains("https://")));
    assert!(some(|text| text.contains("  ")));
    assert!(some(|text| text.chars().count() >= 600));
    assert!(some(
        |text| text.contains('\u{200b}') && text.contains('\u{200f}')
    ));
}

#[test]
fn times_make_sense() {
    for seed in SEEDS.iter() {
        let key = seed.key;
        assert!(seed.age_days > 0.0, "{key}");
        assert!(
            seed.used_days.is_none_or(|used| used <= seed.age_days),
            "{key}"
        );
        assert!(
            seed.confirmed_days
                .is_none_or(|confirmed| confirmed <= seed.age_days),
            "{key}"
        );
        assert_eq!(seed.used_days.is_some(), seed.uses > 0, "{key}");
    }
}

#[test]
fn pairs_are_noted_at_the_newer_one_and_stay_in_their_namespace() {
    let planted = planted();
    let all = planted
        .similar
        .iter()
        .chain(&planted.retold)
        .chain(&planted.look_alikes)
        .chain(&planted.contradictions)
        .chain(&planted.apart);
    for Pair { older, newer, by } in all {
        assert!(seed(older).age_days > seed(newer).age_days, "{older:?}");
        assert_eq!(older.namespace == newer.namespace, *by != "namespace");
        assert_eq!(seed(older).kind, seed(newer).kind, "{older:?}");
    }
    for Merge {
        survivor,
        reworded,
        same_text,
    } in &planted.merges
    {
        for member in reworded.iter().chain(same_text) {
            assert_eq!(survivor.namespace, member.namespace);
            assert_eq!(seed(survivor).kind, seed(member).kind, "{member:?}");
        }
    }
}

#[test]
fn what_has_to_go_by_ttl_is_what_is_past_its_time() {
    let planted = planted();
    let past = |seed: &Seed| {
        seed.ttl_days
            .is_some_and(|days| seed.age_days >= f64::from(i32::try_from(days).unwrap()))
    };
    assert_eq!(rows_where(past), keys(&planted.expired));
    let alive = rows_where(|seed| seed.ttl_days.is_some() && !past(seed));
    assert_eq!(alive, keys(&planted.not_yet_expired));
    // The instant itself counts as past; half a day before it does not, and lasts for a while.
    let left = |place: &Place| {
        f64::from(i32::try_from(seed(place).ttl_days.unwrap()).unwrap()) - seed(place).age_days
    };
    assert!(planted.expired.iter().any(|place| left(place).abs() < 1e-9));
    assert!(
        planted
            .not_yet_expired
            .iter()
            .any(|place| (left(place) - 0.5).abs() < 1e-9)
    );
    assert!(
        planted
            .not_yet_expired
            .iter()
            .all(|place| left(place) >= 0.5)
    );
}

#[test]
fn superseded_chains_end_alive_and_are_old_or_not() {
    let planted = planted();
    let hidden = rows_where(|seed| seed.superseded_by.is_some());
    let history_and_hidden = planted.history.iter().chain(&planted.hidden);
    assert_eq!(hidden, keys(history_and_hidden.chain(&planted.behind)));
    let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
    for key in &hidden {
        let mut at = *key;
        while let Some(next) = SEEDS[index(at)].superseded_by {
            let (this, newer) = (&SEEDS[index(at)], &SEEDS[index(next)]);
            assert_eq!(this.owner, newer.owner);
            assert!(this.age_days > newer.age_days, "{at}");
            at = next;
        }
        *lengths.entry(at).or_insert(1) += 1;
    }
    let mut sorted: Vec<_> = lengths.values().copied().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [2, 2, 2, 3, 4]);
    // Counted from the creation of the hidden memory or from that of the one that hides it: the same answer.
    let age_hidden = |place: &Place| {
        let newer = seed(place).superseded_by.unwrap();
        (seed(place).age_days, SEEDS[index(newer)].age_days)
    };
    for place in &planted.history {
        let (older, newer) = age_hidden(place);
        assert!(
            older > RETENTION + 1.0 && newer > RETENTION + 1.0,
            "{place:?}"
        );
    }
    for place in planted.hidden.iter().chain(&planted.behind) {
        assert!(age_hidden(place).0 < RETENTION - 1.0, "{place:?}");
    }
    for place in &planted.behind {
        let head = seed(place).superseded_by.unwrap();
        assert!(keys(&planted.expired).contains(head));
    }
}

#[test]
fn no_night_comes_near_the_guard() {
    let planted = planted();
    let rows = rows_where(|_| true).len();
    let merged: Vec<_> = planted
        .merges
        .iter()
        .flat_map(|merge| merge.reworded.iter().chain(&merge.same_text))
        .collect();
    for removed in [
        planted.removed_by_ttl().collect(),
        planted.removed_by_orphans().collect(),
        merged,
        planted.faded.iter().collect::<Vec<_>>(),
    ] {
        assert!(removed.len() < 50);
        assert!(removed.len() * 5 < rows, "{} of {rows}", removed.len());
        for account in ACCOUNTS
            .iter()
            .filter(|account| account.deleted_days.is_none())
        {
            let of_owner = |key: &str| SEEDS[index(key)].owner == account.id;
            let gone = removed.iter().filter(|place| of_owner(place.key)).count();
            let all = rows_where(|seed| seed.owner == account.id).len();
            assert!(gone * 5 < all, "{gone} of {all} of {}", account.id);
        }
    }
}

#[test]
fn what_has_to_fade_is_what_is_weak() {
    let strength = |seed: &Seed| {
        let scale = if seed.kind == "observation" {
            14.0
        } else {
            90.0
        };
        let uses = f64::from(i32::try_from(seed.uses).unwrap());
        let since = seed
            .used_days
            .or(seed.confirmed_days)
            .unwrap_or(seed.age_days);
        (-since / (scale * (1.0 + uses.ln_1p()))).exp()
    };
    let fades = |floor: f64| {
        rows_where(|seed| {
            !is_exempt(seed)
                && !seed.pinned
                && strength(seed) < floor
                && alive_after_merging(seed.key)
        })
    };
    let planted = keys(&planted().faded);
    assert_eq!(fades(FLOOR), planted);
    // Nor does one of them stand so near to the floor that a day more or less decides.
    assert_eq!(fades(FLOOR * 0.8), planted);
    assert_eq!(fades(FLOOR * 1.5), planted);
}

#[test]
fn what_has_to_be_reviewed_is_what_is_stale_or_unused() {
    let planted = planted();
    let faded = keys(&planted.faded);
    let since = |event: Option<f64>, seed: &Seed| event.unwrap_or(seed.age_days);
    let live = |seed: &Seed| alive_after_merging(seed.key) && !faded.contains(seed.key);
    for margin in [-1.0, 0.0, 1.0] {
        let stale = rows_where(|seed| {
            live(seed) && since(seed.confirmed_days, seed) > STALE_AFTER + margin
        });
        assert_eq!(stale, keys(&planted.stale));
        let unused = rows_where(|seed| {
            live(seed) && is_exempt(seed) && since(seed.used_days, seed) > UNUSED_AFTER + margin
        });
        assert_eq!(unused, keys(&planted.unused));
    }
    assert!(
        planted
            .stale
            .iter()
            .all(|place| seed(place).kind == "preference")
    );
}

#[test]
fn vectors_are_there_for_every_memory_and_of_unit_length() {
    assert_eq!(VECTORS.len(), SEEDS.len());
    for vector in VECTORS.iter() {
        assert_eq!(vector.len(), 512);
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn duplicates_are_near_and_their_survivor_leads_in_everything() {
    for Merge {
        survivor,
        reworded,
        same_text,
    } in planted().merges
    {
        for member in &reworded {
            let near = similarity(&survivor, member);
            assert!(near >= MERGE_AT + MARGIN, "{} {near}", member.key);
        }
        for member in &same_text {
            let normal = |place: &Place| normalised(&seed(place).text);
            assert_eq!(normal(&survivor), normal(member));
        }
        for member in reworded.iter().chain(&same_text) {
            let (first, other) = (seed(&survivor), seed(member));
            assert!(
                first.confirmed_days.is_some() && other.confirmed_days.is_none(),
                "{}",
                other.key
            );
            assert!(first.pinned >= other.pinned);
            assert!(first.uses > other.uses, "{}", other.key);
            assert!(
                first.used_days < Some(other.used_days.unwrap_or(other.age_days)),
                "{}",
                other.key
            );
        }
    }
}

/// Letters and digits without case or accents, for the accents that the texts use.
fn normalised(text: &str) -> String {
    let plain = |c: char| match c {
        'á' | 'â' | 'ã' | 'à' => 'a',
        'é' | 'ê' => 'e',
        'í' => 'i',
        'ó' | 'ô' | 'õ' => 'o',
        'ú' => 'u',
        'ç' => 'c',
        _ => c,
    };
    text.to_lowercase()
        .chars()
        .map(plain)
        .filter(|c| c.is_alphanumeric())
        .collect()
}

#[test]
fn pairs_stand_at_the_cosines_they_were_planted_for() {
    let planted = planted();
    for Pair { older, newer, .. } in &planted.similar {
        let near = similarity(older, newer);
        assert!(
            (CLUSTER_AT + MARGIN..MERGE_AT - MARGIN).contains(&near),
            "{} {near}",
            newer.key
        );
    }
    for Pair { older, newer, .. } in &planted.retold {
        let near = similarity(older, newer);
        assert!(near >= MERGE_AT + MARGIN, "{} {near}", newer.key);
    }
    for Pair { older, newer, .. } in planted
        .look_alikes
        .iter()
        .chain(&planted.contradictions)
        .chain(&planted.apart)
    {
        let near = similarity(older, newer);
        assert!(near >= CLUSTER_AT + MARGIN, "{} {near}", newer.key);
    }
    // Cosine alone would merge many of them: that is what the guards are for.
    let merged_by_cosine = planted
        .look_alikes
        .iter()
        .filter(|pair| similarity(&pair.older, &pair.newer) >= MERGE_AT);
    assert!(merged_by_cosine.count() >= 8);
}

#[test]
fn only_contradictions_disagree_within_the_window() {
    let planted = planted();
    let days_apart = |pair: &Pair| seed(&pair.older).age_days - seed(&pair.newer).age_days;
    for pair in &planted.contradictions {
        assert!(days_apart(pair) < WINDOW - 0.5, "{pair:?}");
    }
    for pair in &planted.look_alikes {
        assert!(days_apart(pair) > WINDOW + 0.5, "{pair:?}");
    }
    for pair in &planted.apart {
        assert_eq!(
            days_apart(pair) > WINDOW + 0.5,
            pair.by == "window",
            "{pair:?}"
        );
    }
}

#[test]
fn nothing_is_near_that_was_not_planted_near() {
    let planted = planted();
    let mut group: BTreeMap<&str, &str> = BTreeMap::new();
    let pairs = planted
        .similar
        .iter()
        .chain(&planted.retold)
        .chain(&planted.look_alikes)
        .chain(&planted.contradictions)
        .chain(&planted.apart);
    let merges = planted.merges.iter().flat_map(|merge| {
        let members = merge.reworded.iter().chain(&merge.same_text);
        members.map(|member| (merge.survivor.key, member.key))
    });
    let links: Vec<_> = pairs
        .map(|pair| (pair.older.key, pair.newer.key))
        .chain(merges)
        .collect();
    let root = |group: &BTreeMap<&'static str, &'static str>, mut key: &'static str| {
        while let Some(&next) = group.get(key) {
            key = next;
        }
        key
    };
    for (a, b) in links {
        let (a, b) = (root(&group, a), root(&group, b));
        if a != b {
            group.insert(b, a);
        }
    }
    let live: Vec<usize> = (0..SEEDS.len())
        .filter(|&i| SEEDS[i].place != Held::Point && SEEDS[i].superseded_by.is_none())
        .collect();
    for (n, &i) in live.iter().enumerate() {
        for &j in &live[n + 1..] {
            let (a, b) = (&SEEDS[i], &SEEDS[j]);
            if PLACES[i].namespace != PLACES[j].namespace
                || root(&group, a.key) == root(&group, b.key)
            {
                continue;
            }
            let near = cosine(&VECTORS[i], &VECTORS[j]);
            assert!(near < CLUSTER_AT - MARGIN, "{} {} {near}", a.key, b.key);
        }
    }
}

#[test]
fn random_pairs_are_far_apart() {
    let mut cosines: Vec<f64> = (0..SEEDS.len())
        .map(|i| cosine(&VECTORS[i], &VECTORS[(i * 7 + 151) % SEEDS.len()]))
        .collect();
    cosines.sort_by(f64::total_cmp);
    assert!(cosines[cosines.len() / 2] < 0.2);
}

#[test]
fn nothing_is_planted_in_the_teams_that_no_pass_reads() {
    let team = |seed: &&Seed| seed.scope == Scope::Team;
    assert!(SEEDS.iter().filter(team).all(|seed| seed.plant.is_none()));
}
