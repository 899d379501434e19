//! How near is near: what merging makes of a cosine, and of a model under which all memories look alike.

use super::*;

/// 30 pairs of one text in other words, at falling cosines; the ids of each.
pub(super) fn falling(world: &mut World, of: impl Fn(Vec<f32>) -> Vec<f32>) -> Vec<[i64; 2]> {
    const THINGS: [&str; 30] = [
        "apples",
        "bridges",
        "candles",
        "dolphins",
        "engines",
        "forests",
        "gardens",
        "harbours",
        "islands",
        "jackets",
        "kettles",
        "ladders",
        "mirrors",
        "needles",
        "oceans",
        "pianos",
        "quilts",
        "rivers",
        "saddles",
        "towers",
        "umbrellas",
        "valleys",
        "windows",
        "yachts",
        "zebras",
        "anchors",
        "baskets",
        "carpets",
        "drums",
        "easels",
    ];
    (0i16..)
        .zip(THINGS)
        .map(|(n, thing)| {
            let cosine = 1.0 - f32::from(n) * 0.009;
            let id = 100 + i64::from(n);
            let texts = [
                format!("User likes {thing}"),
                format!("The user likes {thing}"),
            ];
            let vectors = [vector(id), near(id, cosine, 1000 + id)];
            let mut pair = texts
                .iter()
                .zip(vectors)
                .map(|(text, vector)| say(world, "ana", text, of(vector)));
            [pair.next().unwrap(), pair.next().unwrap()]
        })
        .collect()
}

/// The pairs of which one is hidden behind the other.
pub(super) fn merged(world: &World, pairs: &[[i64; 2]]) -> BTreeSet<usize> {
    let hidden = hidden(world);
    let is_merged = |pair: &[i64; 2]| pair.iter().any(|id| hidden.contains_key(id));
    let merged: BTreeSet<usize> = (0..pairs.len())
        .filter(|at| is_merged(&pairs[*at]))
        .collect();
    assert_eq!(merged.len(), hidden.len(), "only within pairs");
    merged
}

fn levels(night: &Output) -> [f64; 3] {
    let levels = &night.pass("duplicates")["levels"];
    ["background", "cluster_at", "merge_at"].map(|name| levels[name].as_f64().unwrap())
}

#[test]
fn merging_follows_the_cosine_to_the_survivor() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 1.0\n[pass.orphans]",
        );
        let pairs = falling(&mut world, |vector| vector);
        let night = world.night().expect(0);
        assert_eq!(levels(&night)[1..], [0.7, 0.92]);
        assert_eq!(night.pass("duplicates")["degraded"], Value::Null);
        // 1 - 0.009 n >= 0.92 for n up to 8.
        assert_eq!(merged(&world, &pairs), (0..=8).collect());
        assert_eq!(asked(&world).len(), 21, "each other pair is one question");
        is_quiet(&world);
    }
}

/// A vector with a constant one of this length added to it.
fn added(vector: &[f32], length: f32) -> Vec<f32> {
    let constant = length / f32::from(DIM).sqrt();
    vector.iter().map(|x| x + constant).collect()
}

/// The thresholds of a store in which random pairs sit at 4 / 5.
fn assert_raised(night: &Output) {
    let [background, cluster_at, merge_at] = levels(night);
    assert!((0.75..0.85).contains(&background), "{background}");
    assert!(
        cluster_at > 0.88 && merge_at > 0.96,
        "{cluster_at} {merge_at}"
    );
}

/// Vectors of another length, or without a direction, do not hide how alike the others look.
#[test]
fn odd_vectors_do_not_keep_the_thresholds_down() {
    let mut world = world(Backend::Sqlite);
    world.configure(
        "[pass.orphans]",
        "[guard]\nmax_fraction = 1.0\n[pass.orphans]",
    );
    say(&mut world, "ana", "nothing", vec![0.0; usize::from(DIM)]);
    falling(&mut world, |vector| added(&vector, 2.0));
    // The first one of the sample.
    let sql = "UPDATE points SET vector = x'0000803f' WHERE id = (SELECT min(id) FROM points)";
    let path = world.path("vectors.db");
    assert_eq!(open(&path).execute(sql, []).unwrap(), 1);
    let night = world.night().expect(0);
    assert_raised(&night);
}

#[test]
fn where_all_memories_look_alike_the_thresholds_rise_and_nothing_more_is_merged() {
    for backend in BACKENDS {
        let plain = {
            let mut world = world(backend);
            world.configure(
                "[pass.orphans]",
                "[guard]\nmax_fraction = 1.0\n[pass.duplicates]\nmerge_at = 0.87\n[pass.orphans]",
            );
            // Random pairs of one person's facts sit at 1 / 5.
            let pairs = falling(&mut world, |vector| added(&vector, 0.5));
            let night = world.night().expect(0);
            assert!((0.1..0.3).contains(&levels(&night)[0]), "{night:#?}");
            merged(&world, &pairs)
        };
        let mut world = world(backend);
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 1.0\n[pass.orphans]",
        );
        // Random pairs sit at 4 / 5 once the same is added to all.
        let pairs = falling(&mut world, |vector| added(&vector, 2.0));
        let night = world.night().expect(0);
        assert_raised(&night);
        let said = night.pass("duplicates")["degraded"].to_string();
        assert!(
            said.contains("merge_at is raised") || said.contains("merge_at from"),
            "{said}"
        );
        let merged = merged(&world, &pairs);
        assert!(merged.is_subset(&plain), "{merged:?} {plain:?}");
        assert!(
            !merged.is_empty(),
            "all but the equal ones would be too far"
        );
        assert!(
            asked(&world).len() <= 30,
            "and nobody is flooded with questions"
        );
    }
}
