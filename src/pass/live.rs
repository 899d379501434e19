//! The live memories of a row database, for the passes that compare them with each other.
//!
//! Only what is compared is kept of each: fingerprints of what it says, its standing among its like, when it goes by
//! itself. Texts are read again for the few that a decision is about.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use crate::clock::Timestamp;
use crate::context::Context;
use crate::memory::{Memory, MemoryId, Moment, Namespace, PointId, Role, Version};
use crate::plan::{Finding, Plan};
use crate::store::rows::{Partition, RowError, Snapshot};
use crate::store::vectors::point_id::{Derived, Rule};
use crate::store::vectors::{PointHead, VectorError, VectorReader};
use crate::text;
use crate::view::View;

use super::PassError;
use super::duplicates::kernel::has_direction;
use super::member::fingerprint;
use super::ttl::{Deadline, deadline};

/// What is read of each memory.
const ROLES: [Role; 16] = [
    Role::Content,
    Role::Type,
    Role::Context,
    Role::CreatedAt,
    Role::UpdatedAt,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ExpiresAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::Ttl,
    Role::SupersededBy,
    Role::Uses,
    Role::Pinned,
    Role::Trust,
    Role::Point,
];

/// Vectors asked for at once.
const VECTORS_AT_ONCE: usize = 1_000;

/// One live memory.
#[derive(Debug, Clone)]
pub(super) struct Live {
    /// The memory.
    pub(super) id: MemoryId,
    /// Its type, as it is written.
    pub(super) kind: Option<Box<str>>,
    /// What else the application asks by.
    pub(super) context: Context,
    /// What it says, to the letter: see [`super::member`].
    pub(super) fingerprint: Version,
    /// Its letters and digits, whatever their case, accents and spacing: those of equal texts are equal. `None` when it
    /// has none.
    pub(super) letters: Option<u64>,
    /// When it was first written.
    pub(super) created_at: Moment,
    /// When it goes by itself.
    pub(super) deadline: Deadline,
    /// Whether a person pinned it.
    pub(super) pinned: bool,
    /// Its place among its like.
    pub(super) rank: Rank,
    /// Where its vector is.
    point: Link,
}

impl Live {
    /// Whether the vector of its point was made of another text; the application may write the row, and the point later
    /// or never.
    fn is_other_text(&self, made_of: Option<u64>) -> bool {
        made_of.is_some_and(|letters| self.letters.is_some_and(|own| own != letters))
    }
}

#[cfg(test)]
impl Live {
    /// A memory with a key, without a vector.
    pub(super) fn sample(memory: Memory) -> Self {
        Self {
            fingerprint: fingerprint(&memory),
            letters: memory.content.as_deref().and_then(text::letters),
            created_at: memory.created_at,
            deadline: deadline(&memory),
            pinned: memory.pinned,
            rank: Rank::of(&memory),
            point: Link::None,
            id: memory.id.expect("a key"),
            context: memory.context,
            kind: memory.kind.map(String::into_boxed_str),
        }
    }
}

/// What decides which of several memories stays: the greatest. The id decides last, and is compared apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    trust: f64,
    pinned: bool,
    confirmed_at: Option<Timestamp>,
    uses: u64,
    written_at: Option<Timestamp>,
}

impl Rank {
    fn of(memory: &Memory) -> Self {
        Self {
            trust: memory.trust.unwrap_or_default(),
            pinned: memory.pinned,
            confirmed_at: memory.confirmed_at.latest(),
            uses: memory.uses.unwrap_or_default(),
            written_at: memory.updated_at.latest().max(memory.created_at.latest()),
        }
    }

    /// Whether the source of a memory is trusted less than that of another.
    pub(super) fn is_trusted_less(&self, other: &Self) -> bool {
        self.trust < other.trust
    }

    /// The order of trust alone; the greatest is trusted most.
    pub(super) fn trust_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.trust.total_cmp(&other.trust)
    }

    /// The trust, for a fingerprint.
    pub(super) fn trust_bits(&self) -> [u8; 8] {
        self.trust.to_le_bytes()
    }

    /// The order among memories; the greatest stays.
    pub(super) fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        let rest = |rank: &Self| (rank.pinned, rank.confirmed_at, rank.uses, rank.written_at);
        self.trust
            .total_cmp(&other.trust)
            .then_with(|| rest(self).cmp(&rest(other)))
    }
}

#[derive(Debug, Clone)]
enum Link {
    Point(PointId),
    Payload { key: Box<str>, value: Box<str> },
    None,
}

/// The live memories of each namespace, in order of their ids.
pub(super) type Namespaces = BTreeMap<Namespace, Vec<Live>>;

/// Some memories of a namespace that are compared with each other.
pub(super) type Group = (Namespace, Vec<Live>);

/// Reads every live memory that can be addressed. What is past its deadline is the `ttl` pass's; what an earlier pass of
/// a dry run would take is not there.
///
/// # Errors
///
/// When the rows cannot be read.
pub(super) fn read(
    plan: &mut Plan,
    view: &View<'_>,
    partition: &Partition,
    snapshot: &Snapshot,
) -> Result<Namespaces, RowError> {
    let (store, now) = (view.config(), view.now());
    let rule = store.vectors.as_ref().map(|vectors| Rule {
        point_id: &vectors.point_id,
        rows: &store.rows,
    });
    let mut namespaces = Namespaces::new();
    snapshot.scan(&ROLES, &mut |memory| {
        if memory.is_hidden(now) {
            return ControlFlow::Continue(());
        }
        let Some(namespace) = memory.namespace.clone() else {
            plan.found(Finding::WithoutNamespace, 1);
            return ControlFlow::Continue(());
        };
        let Some(id) = memory.id.clone() else {
            plan.found(Finding::WithoutKey, 1);
            return ControlFlow::Continue(());
        };
        let deadline = deadline(&memory);
        let is_past = matches!(deadline, Deadline::At(at) if at <= now);
        if is_past || view.is_gone(&partition.name, &id) {
            return ControlFlow::Continue(());
        }
        let live = Live {
            id,
            fingerprint: fingerprint(&memory),
            letters: memory.content.as_deref().and_then(text::letters),
            created_at: memory.created_at,
            deadline,
            pinned: memory.pinned,
            rank: Rank::of(&memory),
            point: rule.as_ref().map_or(Link::None, |rule| link(rule, &memory)),
            kind: memory.kind.map(String::into_boxed_str),
            context: memory.context,
        };
        namespaces.entry(namespace).or_default().push(live);
        ControlFlow::Continue(())
    })?;
    for members in namespaces.values_mut() {
        members.sort_by(|a, b| a.id.cmp(&b.id));
    }
    Ok(namespaces)
}

fn link(rule: &Rule<'_>, memory: &Memory) -> Link {
    match rule.derive(memory) {
        Derived::Id(point) => Link::Point(point),
        Derived::ByPayload { key, value } => Link::Payload {
            key: key.into(),
            value: value.into(),
        },
        Derived::None { .. } => Link::None,
    }
}

/// The vectors of some memories: one matrix, and which of them each row is of.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    /// The numbers, row after row.
    pub(super) numbers: Vec<f32>,
    /// Dimensions of a vector; 0 when there is none.
    pub(super) dim: usize,
    /// For each row, the index of the memory.
    pub(super) members: Vec<usize>,
}

/// Where the vectors of memories are.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a> {
    store: &'a dyn VectorReader,
    /// The payload key of the text that a vector was made of, where payloads have one.
    text: Option<&'a str>,
}

impl<'a> Vectors<'a> {
    /// Those of a store; `None` where it has none.
    pub(super) fn of(view: &View<'a>) -> Option<Self> {
        let config = view.config().vectors.as_ref();
        Some(Self {
            store: view.vectors()?,
            text: config.and_then(|config| config.text.as_deref()),
        })
    }

    /// Reads the vectors of memories of one namespace, in their order. Those that have none, one without a direction (all
    /// zero, NaN, infinite), one of another length than most, or one of another text are left out.
    ///
    /// # Errors
    ///
    /// When the vector store cannot be read.
    pub(super) fn read(
        &self,
        namespace: &Namespace,
        members: &[Live],
    ) -> Result<Matrix, PassError> {
        let points = points(self.store, namespace, members)?;
        let mut matrix = Matrix::default();
        for chunk in points.chunks(VECTORS_AT_ONCE) {
            let fetched = self.fetch(chunk.iter())?;
            matrix.extend(members, chunk, &fetched);
        }
        Ok(matrix)
    }

    /// The same for each group of a batch (see [`batches`]), whose points are asked for together: a store with thousands of
    /// tenants has many groups that are small.
    ///
    /// # Errors
    ///
    /// When the vector store cannot be read.
    pub(super) fn read_each(&self, batch: &[Group]) -> Result<Vec<Matrix>, PassError> {
        if let [(namespace, members)] = batch {
            return Ok(vec![self.read(namespace, members)?]);
        }
        let points = batch
            .iter()
            .map(|(namespace, members)| points(self.store, namespace, members))
            .collect::<Result<Vec<_>, _>>()?;
        let fetched = self.fetch(points.iter().flatten())?;
        let matrix = |((_, members), points): (&Group, &Vec<(usize, PointId)>)| {
            let mut matrix = Matrix::default();
            matrix.extend(members, points, &fetched);
            matrix
        };
        Ok(batch.iter().zip(&points).map(matrix).collect())
    }

    fn fetch<'p>(
        &self,
        points: impl Iterator<Item = &'p (usize, PointId)>,
    ) -> Result<Fetched, VectorError> {
        let mut asked: Vec<PointId> = points.map(|(_, point)| point.clone()).collect();
        asked.sort();
        asked.dedup();
        let vectors = self.store.vectors(&asked)?.into_iter();
        Ok(Fetched {
            vectors: vectors
                .filter(|(_, vector)| has_direction(vector))
                .collect(),
            texts: self.texts(&asked)?,
        })
    }

    /// The letters of the texts that vectors were made of, as far as their points say.
    fn texts(&self, points: &[PointId]) -> Result<HashMap<PointId, u64>, VectorError> {
        let Some(key) = self.text else {
            return Ok(HashMap::new());
        };
        let heads = self.store.heads(points, &[key])?.into_iter();
        let letters = |head: PointHead| Some((head.id.clone(), letters_of(&head, key)?));
        Ok(heads.filter_map(letters).collect())
    }
}

/// What was read of points.
struct Fetched {
    /// Only those with a direction.
    vectors: HashMap<PointId, Vec<f32>>,
    /// The letters of the texts that the vectors were made of.
    texts: HashMap<PointId, u64>,
}

impl Matrix {
    /// Adds the vectors of some members, by their points.
    fn extend(&mut self, members: &[Live], points: &[(usize, PointId)], fetched: &Fetched) {
        let found = |point: &PointId| fetched.vectors.get(point);
        if self.dim == 0 {
            let lengths = points.iter().filter_map(|(_, point)| found(point));
            self.dim = usual_length(lengths.map(Vec::len));
            self.numbers.reserve_exact(points.len() * self.dim);
        }
        for (member, point) in points {
            let is_stale = members[*member].is_other_text(fetched.texts.get(point).copied());
            let vector = found(point).filter(|vector| vector.len() == self.dim && !is_stale);
            if let Some(vector) = vector {
                self.numbers.extend_from_slice(vector);
                self.members.push(*member);
            }
        }
    }
}

/// Groups in the order given, in batches of which each has no more members than are asked for at once, or one group.
pub(super) fn batches(groups: &[Group]) -> Vec<&[Group]> {
    let mut batches = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (at, (_, members)) in groups.iter().enumerate() {
        if at > start && size + members.len() > VECTORS_AT_ONCE {
            batches.push(&groups[start..at]);
            (start, size) = (at, 0);
        }
        size += members.len();
    }
    if start < groups.len() {
        batches.push(&groups[start..]);
    }
    batches
}

/// The letters of the text that the vector of a point was made of; `None` where the point does not say.
pub(super) fn letters_of(head: &PointHead, key: &str) -> Option<u64> {
    text::letters(head.payload.get(key)?.as_str()?)
}

/// The length that most vectors have; 0 where there is none.
pub(super) fn usual_length(lengths: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for length in lengths {
        *counts.entry(length).or_default() += 1;
    }
    let usual = counts
        .into_iter()
        .max_by_key(|(length, count)| (*count, *length));
    usual.map_or(0, |(length, _)| length)
}

/// The point of each memory that has one.
fn points(
    store: &dyn VectorReader,
    namespace: &Namespace,
    members: &[Live],
) -> Result<Vec<(usize, PointId)>, VectorError> {
    let mut points = Vec::with_capacity(members.len());
    let mut linked: BTreeMap<&str, HashMap<&str, usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        match &member.point {
            Link::Point(point) => points.push((index, point.clone())),
            Link::Payload { key, value } => {
                linked.entry(key).or_default().insert(value, index);
            }
            Link::None => {}
        }
    }
    for (key, by_value) in linked {
        let mut values: Vec<String> = by_value.keys().map(|value| (*value).to_owned()).collect();
        values.sort();
        let mut seen = std::collections::HashSet::new();
        for (value, point) in store.find(namespace.as_str(), key, &values)? {
            // Of several points of one memory the first stands for it: they are parts of one text.
            if let (Some(index), Some(point)) = (by_value.get(value.as_str()), point)
                && seen.insert(*index)
            {
                points.push((*index, point));
            }
        }
    }
    points.sort_by_key(|(index, _)| *index);
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_group_in_order_and_no_more_members_than_are_asked_for() {
        let group = |size: usize| -> Group {
            let member = Live::sample(Memory::new(Some(MemoryId::Integer(1))));
            (Namespace::parse("user:ana").unwrap(), vec![member; size])
        };
        let most = VECTORS_AT_ONCE;
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![1], vec![1]),
            (vec![1, 2, 3], vec![3]),
            (vec![most, 1], vec![1, 1]),
            (vec![1, most], vec![1, 1]),
            (vec![most - 1, 1, 1], vec![2, 1]),
            (vec![3, most + 5, 3, 4], vec![1, 1, 2]),
            (vec![0, most, 0], vec![3]),
        ] {
            let groups: Vec<Group> = sizes.iter().map(|size| group(*size)).collect();
            let batches = batches(&groups);
            let counts: Vec<usize> = batches.iter().map(|batch| batch.len()).collect();
            assert_eq!(counts, expected, "{sizes:?}");
            let members = |groups: &[Group]| -> Vec<usize> {
                groups.iter().map(|(_, members)| members.len()).collect()
            };
            assert_eq!(members(&batches.concat()), sizes);
        }
    }
}
