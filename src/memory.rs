//! What a memory is, apart from where it is kept: ids, namespaces, readings of time. No I/O.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::context::Context;

/// The id of a memory as its row store keeps it: the value *and* its storage class, since `5`, `'5'` and
/// `x'35'` are three different keys to SQLite.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemoryId {
    /// An INTEGER key.
    Integer(i64),
    /// A TEXT key, UUIDs in text form among them.
    Text(Box<str>),
    /// A BLOB key, such as a UUID in 16 bytes.
    Bytes(Box<[u8]>),
}

impl MemoryId {
    /// The ids that are printed like this: the text itself, the integer, the bytes of a UUID, the bytes of `x'..'`.
    #[must_use]
    pub fn spelled(text: &str) -> Vec<Self> {
        let mut ids = vec![Self::Text(text.into())];
        ids.extend(text.parse().map(Self::Integer));
        ids.extend(Uuid::try_parse(text).map(|uuid| Self::Bytes(uuid.as_bytes()[..].into())));
        ids.extend(blob(text).map(|bytes| Self::Bytes(bytes.into())));
        ids.retain(|id| id.to_string() == text);
        ids
    }
}

/// The bytes that `x'..'` spells.
fn blob(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("x'")?.strip_suffix('\'')?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

impl fmt::Display for MemoryId {
    /// Integers and text as they are, sixteen bytes as a hyphenated UUID, other bytes as `x'..'`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(id) => write!(f, "{id}"),
            Self::Text(id) => f.write_str(id),
            Self::Bytes(id) => {
                if let Ok(uuid) = Uuid::from_slice(id) {
                    return write!(f, "{uuid}");
                }
                f.write_str("x'")?;
                for byte in id {
                    write!(f, "{byte:02x}")?;
                }
                f.write_char('\'')
            }
        }
    }
}

/// The id of a point in the vector store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PointId {
    /// An unsigned integer, as Qdrant and SQLite have them.
    Number(u64),
    /// A UUID, in whatever spelling the store keeps it.
    Uuid(Uuid),
    /// Any other text key of a SQLite vector table.
    Text(Box<str>),
}

impl PointId {
    /// Reads the text form of a point id: a UUID in any spelling, an unsigned integer as it is printed, else the text
    /// itself.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        if let Ok(uuid) = Uuid::try_parse(text) {
            return Self::Uuid(uuid);
        }
        match text.parse::<u64>() {
            Ok(id) if id.to_string() == text => Self::Number(id),
            _ => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(id) => write!(f, "{id}"),
            Self::Uuid(id) => write!(f, "{id}"),
            Self::Text(id) => f.write_str(id),
        }
    }
}

/// A namespace `scope:owner`: the wall that no pass ever looks over.
///
/// Cheap to clone: plans hold one per action.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    raw: Arc<str>,
    colon: usize,
}

impl Namespace {
    /// Splits `scope:owner` once, at the first colon (an owner may contain colons).
    ///
    /// `None` when there is no colon or either side is empty: such a value names nobody, and what nobody owns is
    /// never touched.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        let colon = raw.find(':')?;
        (colon > 0 && colon + 1 < raw.len()).then(|| Self {
            raw: raw.into(),
            colon,
        })
    }

    /// The namespace of a row that names none: no value of a store parses to it.
    #[must_use]
    pub fn nobody() -> Self {
        Self {
            raw: ":".into(),
            colon: 0,
        }
    }

    /// The same namespace in one spelling: two programs rarely write a UUID alike.
    #[must_use]
    pub fn normal(&self) -> String {
        match Uuid::try_parse(self.owner()) {
            Ok(uuid) => format!("{}:{uuid}", self.scope()),
            Err(_) => self.raw.to_string(),
        }
    }

    /// The kind of owner: `user`, `team`, `world`.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.raw[..self.colon]
    }

    /// Whom it belongs to, in the spelling of the owners table.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.raw[self.colon + 1..]
    }

    /// The whole, as the payload of a point has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.raw
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.raw)
    }
}

impl Serialize for Namespace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.raw)
    }
}

/// A fingerprint of one row, over every stored column: it changes whenever anything about the memory does.
///
/// The first 16 bytes of a SHA-256, see [`crate::store::image`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(pub [u8; 16]);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

/// What a stored time says: nothing, an instant (or a span of instants, when the value is coarse), or noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    /// NULL, empty, zero, or a role the schema does not have.
    #[default]
    Absent,
    /// Some instant within `[earliest, latest]`. The two differ for a bare date (the whole day) and for a local
    /// time that a clock change made ambiguous; what decides a removal is always the one that keeps longer.
    At {
        /// The first instant that the value can mean.
        earliest: Timestamp,
        /// The last instant that the value can mean; for a bare date the following midnight.
        latest: Timestamp,
    },
    /// Not a time, or an absurd one. Never a reason to remove anything.
    Unreadable,
}

impl Moment {
    /// A moment known exactly.
    #[must_use]
    pub fn exact(at: Timestamp) -> Self {
        Self::At {
            earliest: at,
            latest: at,
        }
    }

    /// The last instant that the value can mean.
    #[must_use]
    pub fn latest(self) -> Option<Timestamp> {
        match self {
            Self::At { latest, .. } => Some(latest),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// The first instant that the value can mean.
    #[must_use]
    pub fn earliest(self) -> Option<Timestamp> {
        match self {
            Self::At { earliest, .. } => Some(earliest),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// Whether the stored value could not be understood.
    #[must_use]
    pub fn is_unreadable(self) -> bool {
        matches!(self, Self::Unreadable)
    }
}

/// How long a memory is to live, counted from its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeToLive {
    /// NULL, zero, or a role that the schema does not have: for ever.
    #[default]
    Forever,
    /// This long.
    For(jiff::SignedDuration),
    /// Negative, not a number, or beyond what a time can hold. Never a reason to remove anything.
    Unreadable,
}

/// One memory as its row tells it. Roles that the schema lacks, or that were not asked for, are empty.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is what the row says, independent of the others"
)]
pub struct Memory {
    /// Key of the row; unique within its partition. `None` when the stored key is no key (NULL, or a REAL that a
    /// UUID became by numeric affinity): such a row cannot be addressed, and is left alone by every pass.
    pub id: Option<MemoryId>,
    /// Whose it is. `None` when the tenant column is NULL or empty: such a row is left alone by every pass.
    pub namespace: Option<Namespace>,
    /// The text.
    pub content: Option<String>,
    /// The kind of memory: `fact`, `preference` and so on.
    pub kind: Option<String>,
    /// What else the application asks by.
    pub context: Context,
    /// When it was first written.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Moment,
    /// When it was last retrieved.
    pub last_used_at: Moment,
    /// When a person last confirmed it.
    pub confirmed_at: Moment,
    /// When it ceases to hold.
    pub expires_at: Moment,
    /// When it ceased to be true (bitemporal schemas).
    pub valid_to: Moment,
    /// When it was soft-deleted.
    pub deleted_at: Moment,
    /// Life from creation.
    pub ttl: TimeToLive,
    /// The memory that replaced this one.
    pub superseded_by: Option<MemoryId>,
    /// The memory that this one replaced (bitemporal schemas).
    pub supersedes: Option<MemoryId>,
    /// How often it was retrieved.
    pub uses: Option<u64>,
    /// How much it matters, on the schema's own scale.
    pub salience: Option<f64>,
    /// Where it came from.
    pub source: Option<String>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How far its source is trusted; more is more.
    pub trust: Option<f64>,
    /// The text of the column that holds the id of its point, for schemas that have one.
    pub point: Option<String>,
    /// Whether the row is something else than a memory (`where` is false): its point is left, and it is no pass's business.
    pub is_other: bool,
    /// Whether the application hides it (`live` is false).
    pub is_withdrawn: bool,
    /// Whether it has a point as long as it is not hidden (`point`).
    pub needs_point: bool,
}

impl Memory {
    /// A memory of which only the key is known.
    #[must_use]
    pub fn new(id: Option<MemoryId>) -> Self {
        Self {
            id,
            namespace: None,
            content: None,
            kind: None,
            context: Context::default(),
            created_at: Moment::Absent,
            updated_at: Moment::Absent,
            last_used_at: Moment::Absent,
            confirmed_at: Moment::Absent,
            expires_at: Moment::Absent,
            valid_to: Moment::Absent,
            deleted_at: Moment::Absent,
            ttl: TimeToLive::Forever,
            superseded_by: None,
            supersedes: None,
            uses: None,
            salience: None,
            source: None,
            pinned: false,
            trust: None,
            point: None,
            is_other: false,
            is_withdrawn: false,
            needs_point: true,
        }
    }

    /// Whether it is hidden at `now`: superseded, soft-deleted, withdrawn, or no longer true. Hidden memories need no point.
    #[must_use]
    pub fn is_hidden(&self, now: Timestamp) -> bool {
        let past = |moment: Moment| moment.latest().is_some_and(|at| at <= now);
        self.is_withdrawn
            || self.superseded_by.is_some()
            || !matches!(self.deleted_at, Moment::Absent)
            || past(self.valid_to)
    }
}

/// A set of the roles that a scan should read beside id and namespace, which are always read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "each is the role of the same name in the configuration"
)]
pub enum Role {
    Content,
    Type,
    Context,
    CreatedAt,
    UpdatedAt,
    LastUsedAt,
    ConfirmedAt,
    ExpiresAt,
    ValidTo,
    DeletedAt,
    Ttl,
    SupersededBy,
    Supersedes,
    Uses,
    Salience,
    Source,
    Pinned,
    Trust,
    ContentHash,
    Point,
}

impl Role {
    /// The key of the configuration that says where it is read from.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Type => "type",
            Self::Context => "context",
            Self::CreatedAt => "created_at",
            Self::UpdatedAt => "updated_at",
            Self::LastUsedAt => "last_used_at",
            Self::ConfirmedAt => "confirmed_at",
            Self::ExpiresAt => "expires_at",
            Self::ValidTo => "valid_to",
            Self::DeletedAt => "deleted_at",
            Self::Ttl => "ttl_days",
            Self::SupersededBy => "superseded_by",
            Self::Supersedes => "supersedes",
            Self::Uses => "uses",
            Self::Salience => "salience",
            Self::Source => "source",
            Self::Pinned => "pinned",
            Self::Trust => "trust",
            Self::ContentHash => "content_hash",
            Self::Point => "point_id",
        }
    }
}

/// Makes stored text fit for a terminal: control characters (line breaks too) and the characters that reorder or
/// hide text are replaced by spaces.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if text.contains(hides) {
        Cow::Owned(text.replace(hides, " "))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_splits_once_at_the_first_colon() {
        let namespace = Namespace::parse("user:mail:ana@example.org").unwrap();
        assert_eq!(
            (namespace.scope(), namespace.owner()),
            ("user", "mail:ana@example.org")
        );
        for nobody in ["", "user", "user:", ":ana", ":"] {
            assert_eq!(Namespace::parse(nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn ids_of_different_storage_classes_differ() {
        let text = MemoryId::Text("5".into());
        assert_ne!(MemoryId::Integer(5), text);
        assert_ne!(MemoryId::Bytes((*b"5").into()), text);
        assert_eq!(
            MemoryId::Bytes((*b"\x00\xff").into()).to_string(),
            "x'00ff'"
        );
    }

    #[test]
    fn an_id_is_found_by_the_way_it_is_printed() {
        let uuid = Uuid::parse_str("6ba7b810-9dad-11d1-80b4-00c04fd430c8").unwrap();
        for id in [
            MemoryId::Integer(-7),
            MemoryId::Integer(i64::MIN),
            MemoryId::Text("".into()),
            MemoryId::Text("x'zz'".into()),
            MemoryId::Text("knowledge:42".into()),
            MemoryId::Text(uuid.to_string().into()),
            MemoryId::Bytes(uuid.as_bytes()[..].into()),
            MemoryId::Bytes((*b"\x00\xff").into()),
            MemoryId::Bytes([].into()),
        ] {
            assert!(MemoryId::spelled(&id.to_string()).contains(&id), "{id:?}");
        }
        let seven = [MemoryId::Text("7".into()), MemoryId::Integer(7)];
        assert_eq!(MemoryId::spelled("7"), seven);
        assert_eq!(MemoryId::spelled("007"), [MemoryId::Text("007".into())]);
        assert_eq!(MemoryId::spelled("x'0'").len(), 1);
    }

    #[test]
    fn point_ids_ignore_the_spelling_of_a_uuid() {
        let dashed = PointId::from_text("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        assert_eq!(
            PointId::from_text("6BA7B8109DAD11D180B400C04FD430C8"),
            dashed
        );
        for text in ["note-7", "007", "+7", "-7", "18446744073709551616", ""] {
            assert_eq!(PointId::from_text(text), PointId::Text(text.into()));
        }
        assert_eq!(
            PointId::from_text("18446744073709551615"),
            PointId::Number(u64::MAX)
        );
    }

    #[test]
    fn printable_text_cannot_move_the_cursor_or_turn_around() {
        assert_eq!(printable("a\x1b[31mb\u{202e}c\r\nd"), "a [31mb c  d");
        assert!(matches!(printable("não é só"), Cow::Borrowed(_)));
    }
}
