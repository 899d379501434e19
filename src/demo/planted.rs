//! What was put into the demo for the passes to find, as data: for tests, and for the words at the end of the demo.

use uuid::Uuid;

use super::seed::{PLACES, Plant, SEEDS, place_of};

/// Where a memory of the demo stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its stable name, such as `ana-012`; the same in every version of the demo.
    pub key: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Key of its row (which ghosts and points without a row no longer have).
    pub id: i64,
}

impl Place {
    /// What its point is named after, and its `doc_id`.
    #[must_use]
    pub fn doc_id(&self) -> String {
        format!("{}::{}", self.namespace, self.id)
    }

    /// The id of its point.
    #[must_use]
    pub fn point(&self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_DNS, self.doc_id().as_bytes())
    }
}

/// Memories that say the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The one that stays: confirmed, used most often and most recently.
    pub survivor: Place,
    /// Those in other words that mean the same wherever they stand, at a cosine of 0.92 or more to the survivor.
    pub reworded: Vec<Place>,
    /// Those of the same words but for case, accents, punctuation or spacing, at whatever cosine.
    pub same_text: Vec<Place>,
}

/// Two memories that have something to do with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The one written first.
    pub older: Place,
    /// The one written later.
    pub newer: Place,
    /// What makes the pair what it is: the word that differs, the signal of a contradiction, or what keeps the two
    /// apart (`namespace` or `window`).
    pub by: &'static str,
}

/// What the passes have to find in the demo, with the settings of its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planted {
    /// Removed by `ttl`: past their time to live.
    pub expired: Vec<Place>,
    /// Removed by `ttl`: history older than it is kept.
    pub history: Vec<Place>,
    /// Removed by `ttl` together with the expired memory that hides them.
    pub behind: Vec<Place>,
    /// Not removed by `ttl`, though they have a time to live.
    pub not_yet_expired: Vec<Place>,
    /// Not removed: superseded not long ago. They have a row and no point.
    pub hidden: Vec<Place>,
    /// Removed by `orphans`, row and point: the account was closed.
    pub owner_deleted: Vec<Place>,
    /// Points removed by `orphans`: nobody of that name exists. They never had a row.
    pub ghosts: Vec<Place>,
    /// Points removed by `orphans`: the owner lives, the row is gone.
    pub rowless: Vec<Place>,
    /// Clusters of which one memory stays.
    pub merges: Vec<Merge>,
    /// Pairs of 0.92 or more that say the same in words of which only a person can tell: queued as `similar`, never
    /// merged.
    pub retold: Vec<Pair>,
    /// Pairs between 0.70 and 0.92: queued as `similar`, never merged.
    pub similar: Vec<Pair>,
    /// Pairs of 0.70 or more that differ in one word that matters: queued as `similar`, never merged. Written more
    /// than a week apart, so that they are no contradictions.
    pub look_alikes: Vec<Pair>,
    /// Pairs of one namespace that disagree within a week: queued as `contradiction`, never merged. Near enough to be
    /// queued as `similar`, too.
    pub contradictions: Vec<Pair>,
    /// Pairs that would disagree, were they not of two namespaces or written more than a week apart: never queued as
    /// `contradiction`, never merged.
    pub apart: Vec<Pair>,
    /// Faded: removed by `decay`, at most a twentieth of a namespace a night.
    pub faded: Vec<Place>,
    /// Queued as `stale`, at most 20 a week: not confirmed for more than 90 days, apart from what earlier passes take.
    pub stale: Vec<Place>,
    /// Queued as `unused`, when the week has entries left.
    pub unused: Vec<Place>,
}

impl Planted {
    /// Every memory that `ttl` removes, whatever for.
    pub fn removed_by_ttl(&self) -> impl Iterator<Item = &Place> {
        self.expired.iter().chain(&self.history).chain(&self.behind)
    }

    /// Every memory or point that `orphans` removes, whatever for.
    pub fn removed_by_orphans(&self) -> impl Iterator<Item = &Place> {
        self.owner_deleted
            .iter()
            .chain(&self.ghosts)
            .chain(&self.rowless)
    }

    fn add(&mut self, place: Place, plant: Plant) {
        match plant {
            Plant::Expired => self.expired.push(place),
            Plant::NotYetExpired => self.not_yet_expired.push(place),
            Plant::History => self.history.push(place),
            Plant::Behind => self.behind.push(place),
            Plant::Hidden => self.hidden.push(place),
            Plant::OwnerDeleted => self.owner_deleted.push(place),
            Plant::Ghost => self.ghosts.push(place),
            Plant::Rowless => self.rowless.push(place),
            Plant::Faded => self.faded.push(place),
            Plant::Stale => self.stale.push(place),
            Plant::Unused => self.unused.push(place),
            Plant::Duplicate { to } => self.merge_into(to).reworded.push(place),
            Plant::SameText { to } => self.merge_into(to).same_text.push(place),
            Plant::Retold { to } => self.retold.push(pair(to, place, "wording")),
            Plant::Similar { to } => self.similar.push(pair(to, place, "topic")),
            Plant::LookAlike { to, differs } => self.look_alikes.push(pair(to, place, differs)),
            Plant::Contradiction { to, signal } => {
                self.contradictions.push(pair(to, place, signal));
            }
            Plant::Apart { to, by } => self.apart.push(pair(to, place, by)),
        }
    }

    fn merge_into(&mut self, survivor: &str) -> &mut Merge {
        let known = self
            .merges
            .iter()
            .position(|merge| merge.survivor.key == survivor);
        let index = known.unwrap_or_else(|| {
            self.merges.push(Merge {
                survivor: place_of(survivor),
                reworded: Vec::new(),
                same_text: Vec::new(),
            });
            self.merges.len() - 1
        });
        &mut self.merges[index]
    }
}

/// What the passes have to find in the demo.
#[must_use]
pub fn planted() -> Planted {
    let mut planted = Planted::default();
    for (seed, place) in SEEDS.iter().zip(PLACES.iter()) {
        if let Some(plant) = seed.plant {
            planted.add(place.clone(), plant);
        }
    }
    planted
}

fn pair(older: &str, newer: Place, by: &'static str) -> Pair {
    Pair {
        older: place_of(older),
        newer,
        by,
    }
}
