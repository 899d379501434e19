//! What a memory says, as a fingerprint: how a question knows that it is still about the same.

use sha2::{Digest as _, Sha256};

use crate::memory::{Memory, Role, Version};
use crate::plan::Member;

/// The roles that [`fingerprint`] needs.
pub const ROLES: [Role; 2] = [Role::Content, Role::Type];

/// The fingerprint of what a memory says: the first 16 bytes of a SHA-256 over its text and its type. When and how
/// often it was used, confirmed or moved about is not in it.
#[must_use]
pub fn fingerprint(memory: &Memory) -> Version {
    let mut hash = Sha256::new();
    for text in [&memory.content, &memory.kind] {
        // Absent and empty differ, and no text runs into the next.
        let length = text.as_ref().map_or(u64::MAX, |text| text.len() as u64);
        hash.update(length.to_le_bytes());
        hash.update(text.as_deref().unwrap_or_default());
    }
    let mut version = [0; 16];
    version.copy_from_slice(&hash.finalize()[..16]);
    Version(version)
}

/// A memory as a question remembers it; `None` for one that cannot be addressed.
#[must_use]
pub fn member(memory: &Memory) -> Option<Member> {
    Some(Member {
        id: memory.id.clone()?,
        fingerprint: fingerprint(memory),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryId, Moment};

    fn memory(content: Option<&str>, kind: Option<&str>) -> Memory {
        let mut memory = Memory::new(Some(MemoryId::Integer(1)));
        memory.content = content.map(Into::into);
        memory.kind = kind.map(Into::into);
        memory
    }

    #[test]
    fn text_and_type_count_apart_and_nothing_else_does() {
        let all = [
            memory(Some("ab"), Some("c")),
            memory(Some("a"), Some("bc")),
            memory(Some("abc"), None),
            memory(Some("abc"), Some("")),
            memory(None, Some("abc")),
            memory(Some("Abc"), None),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(fingerprint(a) == fingerprint(b), i == j, "{a:?} {b:?}");
            }
        }
        let mut used = memory(Some("ab"), Some("c"));
        used.id = Some(MemoryId::Integer(2));
        used.uses = Some(9);
        used.pinned = true;
        used.last_used_at = Moment::Unreadable;
        assert_eq!(fingerprint(&used), fingerprint(&all[0]));
    }
}
