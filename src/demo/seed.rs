//! The memories as they are written down in `memories.jsonl`, one object a line, and who they belong to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::planted::Place;

/// A user account of the demo.
pub(super) struct Account {
    /// Key of the account, and owner in the namespace.
    pub(super) id: &'static str,
    /// Address, under a domain that is reserved for examples.
    pub(super) email: &'static str,
    /// Days since the account was closed.
    pub(super) deleted_days: Option<f64>,
}

/// The users table. Two of the owners in `memories.jsonl` are not in it: nothing but their points is left.
pub(super) const ACCOUNTS: [Account; 8] = [
    account("ana", "ana.ferreira@example.org", None),
    account("rafael", "rafael@atlas.example", None),
    account("celia", "celia.moura@example.org", None),
    account("maeve", "maeve@harbor.example", None),
    account("tom", "tom@crumbandember.example", None),
    account("noor", "noor.haddad@example.org", None),
    account("ines", "ines.valadas@example.org", Some(20.0)),
    account("greg", "greg@example.org", Some(3.0)),
];

const fn account(id: &'static str, email: &'static str, deleted_days: Option<f64>) -> Account {
    Account {
        id,
        email,
        deleted_days,
    }
}

/// Every memory, in the order of the file, which is also that of the vectors.
#[expect(
    clippy::expect_used,
    reason = "the file is compiled in and read by the tests"
)]
pub(super) static SEEDS: LazyLock<Vec<Seed>> = LazyLock::new(|| {
    include_str!("memories.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("memories.jsonl is compiled in and tested"))
        .collect()
});

/// Where each memory of [`SEEDS`] ends up, in the same order.
///
/// Keys of rows count from one in the order of creation, as a table fills up; what is a mere point by now took a
/// number then, too, so that the keys of the rows have the gaps of a store where things were deleted.
pub(super) static PLACES: LazyLock<Vec<Place>> = LazyLock::new(|| {
    let mut oldest_first: Vec<usize> = (0..SEEDS.len()).collect();
    oldest_first.sort_by(|&a, &b| SEEDS[b].age_days.total_cmp(&SEEDS[a].age_days));
    let mut last_id: BTreeMap<Scope, i64> = BTreeMap::new();
    let mut ids = vec![0; SEEDS.len()];
    for index in oldest_first {
        let last = last_id.entry(SEEDS[index].scope).or_default();
        *last += 1;
        ids[index] = *last;
    }
    SEEDS
        .iter()
        .zip(ids)
        .map(|(seed, id)| Place {
            key: seed.key,
            namespace: seed.namespace(),
            id,
        })
        .collect()
});

/// Where each stable name stands in [`SEEDS`].
static INDEX: LazyLock<BTreeMap<&'static str, usize>> = LazyLock::new(|| {
    let keys = SEEDS.iter().map(|seed| seed.key);
    keys.zip(0..).collect()
});

/// The place of a memory by its stable name, which tests have seen to exist.
pub(super) fn place_of(key: &str) -> Place {
    PLACES[INDEX[key]].clone()
}

/// One memory as it is written down. Ages count in days before the instant for which the demo is built.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seed {
    /// Stable name, such as `ana-012`.
    pub(super) key: &'static str,
    /// The user or team.
    pub(super) owner: &'static str,
    /// Which of the two it is.
    pub(super) scope: Scope,
    /// Kind of memory.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// What is remembered.
    pub(super) text: String,
    /// Age.
    pub(super) age_days: f64,
    /// Days since the last use.
    pub(super) used_days: Option<f64>,
    /// Days since somebody confirmed it.
    pub(super) confirmed_days: Option<f64>,
    /// How often it was used.
    pub(super) uses: i64,
    /// Days that it was meant to live.
    pub(super) ttl_days: Option<i64>,
    /// Where it came from.
    pub(super) source: &'static str,
    /// Key of the memory that replaced it.
    pub(super) superseded_by: Option<&'static str>,
    /// What it is there for.
    pub(super) plant: Option<Plant>,
    /// Whether a person pinned it.
    #[serde(default)]
    pub(super) pinned: bool,
    /// Tags, kept in a child table.
    #[serde(default)]
    pub(super) tags: Vec<&'static str>,
    /// Which of the stores holds it.
    #[serde(default)]
    pub(super) place: Held,
}

impl Seed {
    /// `scope:owner`.
    pub(super) fn namespace(&self) -> String {
        format!("{}:{}", self.scope.as_str(), self.owner)
    }
}

/// Whose kind of memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    /// One person's.
    User,
    /// A team's.
    Team,
}

impl Scope {
    /// As namespaces spell it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Team => "team",
        }
    }
}

/// Which of the stores holds a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Held {
    /// Both, as it should be.
    #[default]
    Both,
    /// Only the row, which a hidden memory is left with.
    Row,
    /// Only the point, which nothing owns any more.
    Point,
}

/// What a memory is there for. Pairs are noted at the newer of the two.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Plant {
    /// Past its time to live.
    Expired,
    /// Has a time to live, but not past it.
    NotYetExpired,
    /// Superseded longer ago than history is kept.
    History,
    /// Hidden behind a memory that expires, and so goes with it.
    Behind,
    /// Superseded not long ago: stays.
    Hidden,
    /// Of an account that was closed.
    OwnerDeleted,
    /// A point of an owner who is in no table.
    Ghost,
    /// A point of a living owner whose row is gone.
    Rowless,
    /// `to` in other words that mean the same wherever they stand.
    Duplicate { to: &'static str },
    /// `to` in other words that happen to mean the same here.
    Retold { to: &'static str },
    /// `to` with other case, accents, punctuation or spacing.
    SameText { to: &'static str },
    /// Near `to`, but not the same.
    Similar { to: &'static str },
    /// The words of `to` but for one that matters.
    LookAlike {
        to: &'static str,
        differs: &'static str,
    },
    /// Denies `to`, within the window.
    Contradiction {
        to: &'static str,
        signal: &'static str,
    },
    /// Would deny `to`, were it not for another namespace or a longer time between them.
    Apart { to: &'static str, by: &'static str },
    /// Faded: old, unused, of a type that fades.
    Faded,
    /// Not confirmed for too long.
    Stale,
    /// Of a type that never fades, and not used for too long.
    Unused,
}
