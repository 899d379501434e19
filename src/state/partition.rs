//! Which row database a state file is about, and the name of that file.
//!
//! A tenant may be called anything; a file name must be safe, must not be another tenant's, and must stay its own on a
//! file system that ignores case or composes accents. So everything but `a-z 0-9 . _ -` is percent-encoded (capitals
//! too), as is the first byte of what would be hidden or reserved. The empty name is a single `%`. What would get too
//! long is cut and ends in `~` and the SHA-256 of the name, which then stands inside the file only.

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

/// Longest encoded name, in bytes: leaves room for `.db-journal` in the 255 that file systems allow.
const LONGEST: usize = 200;

/// What is left of a name that is too long, in bytes.
const KEPT: usize = 80;

/// Which row database a state file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition<'a> {
    /// The store as a whole, and its row database when that is one file.
    Main,
    /// The row database of one tenant. A tenant called `main` is not [`Partition::Main`].
    Tenant(&'a str),
}

impl<'a> Partition<'a> {
    /// The partition that a plan calls `name`: in a store with one file per tenant that is the tenant, else `Main`.
    #[must_use]
    pub fn of(name: &'a str, per_tenant: bool) -> Self {
        if per_tenant {
            Self::Tenant(name)
        } else {
            Self::Main
        }
    }

    /// Its name in plans and reports: `main`, or the tenant.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            Self::Main => "main",
            Self::Tenant(tenant) => tenant,
        }
    }

    /// The tenant, if it is one's.
    #[must_use]
    pub fn tenant(self) -> Option<&'a str> {
        match self {
            Self::Main => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    /// The name of its state file.
    pub(super) fn file_name(self) -> String {
        let mut name = match self {
            Self::Main => "main".to_owned(),
            Self::Tenant(tenant) => encode(tenant),
        };
        name.push_str(".db");
        name
    }
}

impl fmt::Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the name of a state file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is the main one.
    Main,
    /// It is this tenant's.
    Tenant(String),
    /// It is that of the tenant who is named inside.
    Inside,
}

/// Reads the name of a file in the state folder; `None` for names that [`Partition::file_name`] never gives.
pub(super) fn from_file_name(file: &str) -> Option<Named> {
    let name = file.strip_suffix(".db")?;
    if name == "main" {
        return Some(Named::Main);
    }
    if let Some((_, hash)) = name.split_once('~') {
        let is_hash = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        return is_hash.then_some(Named::Inside);
    }
    let tenant = decode(name)?;
    (encode(&tenant) == name).then_some(Named::Tenant(tenant))
}

fn encode(tenant: &str) -> String {
    if tenant.is_empty() {
        return "%".to_owned();
    }
    let mut name = String::with_capacity(tenant.len());
    let reserved = tenant.starts_with('.') || matches!(tenant, "main" | "lock");
    for (i, byte) in tenant.bytes().enumerate() {
        let plain = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        if plain && !(reserved && i == 0) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() > LONGEST {
        shorten(&mut name, tenant);
    }
    name
}

fn shorten(name: &mut String, tenant: &str) {
    name.truncate(KEPT);
    name.push('~');
    for byte in Sha256::digest(tenant) {
        let _ = write!(name, "{byte:02x}");
    }
}

fn decode(name: &str) -> Option<String> {
    if name == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                let value = digit(rest.next())? * 16 + digit(rest.next())?;
                u8::try_from(value).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_safe_and_say_whose_they_are() {
        for (tenant, file) in [
            ("6a2f-0b_1.x", "6a2f-0b_1.x.db"),
            ("Ana", "%41na.db"),
            ("josé", "jos%c3%a9.db"),
            ("a/b", "a%2fb.db"),
            ("..", "%2e..db"),
            (".", "%2e.db"),
            (".hidden", "%2ehidden.db"),
            ("", "%.db"),
            ("%", "%25.db"),
            ("main", "%6dain.db"),
            ("MAIN", "%4d%41%49%4e.db"),
            ("lock", "%6cock.db"),
            ("main.db", "main.db.db"),
            ("a\0b", "a%00b.db"),
            ("x~y", "x%7ey.db"),
        ] {
            assert_eq!(Partition::Tenant(tenant).file_name(), file);
            assert_eq!(from_file_name(file), Some(Named::Tenant(tenant.into())));
        }
        assert_eq!(
            from_file_name(&Partition::Main.file_name()),
            Some(Named::Main)
        );
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let longest = "a".repeat(LONGEST);
        assert_eq!(
            Partition::Tenant(&longest).file_name(),
            format!("{longest}.db")
        );
        let mut files = BTreeSet::new();
        for long in [
            format!("{longest}a"),
            format!("{longest}b"),
            "я".repeat(34),
            "A".repeat(9999),
        ] {
            let file = Partition::Tenant(&long).file_name();
            assert!(file.len() <= 255 - "-journal".len(), "{file}");
            assert_eq!(from_file_name(&file), Some(Named::Inside), "{file}");
            files.insert(file);
        }
        assert_eq!(files.len(), 4);
    }

    #[test]
    fn files_of_others_are_not_ours() {
        for file in [
            "lock",
            "main",
            "main.db-wal",
            "Main.db",
            "Ana.db",
            ".db",
            "%2.db",
            "%zz.db",
            "%61.db",
            "a%2Fb.db",
            "copy of x.db",
            "x~y.db",
            "%ff.db",
            ".x.db.4711-0.tmp",
            "%+1.db",
        ] {
            assert_eq!(from_file_name(file), None, "{file}");
        }
    }

    proptest! {
        #[test]
        fn no_two_tenants_share_a_file_even_when_case_is_ignored(a in ".{0,40}", b in "[aA.%~/mainMAIN]{0,6}") {
            let (x, y) = (Partition::Tenant(&a).file_name(), Partition::Tenant(&b).file_name());
            prop_assert_eq!(x.to_lowercase() == y.to_lowercase(), a == b);
            for file in [x, y] {
                prop_assert!(file.to_lowercase() != "main.db" && file != "lock" && !file.starts_with('.'));
                prop_assert!(file.bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
                prop_assert!(from_file_name(&file).is_some());
            }
        }
    }
}
