//! Folding: one spelling for what case, accents and typography spell in many.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A stable 64-bit hash (FNV-1a): the same on every machine and in every version.
#[must_use]
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The same in 32 bits.
#[must_use]
pub(crate) fn hash32(text: &str) -> u32 {
    halved(hash(text))
}

/// What [`hash32`] makes of the text of a [`hash`].
#[must_use]
pub(crate) fn halved(hash: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed in")]
    let half = (hash ^ (hash >> 32)) as u32;
    half
}

/// Lower case without accents, compatibility forms (full width, ligatures, superscripts) resolved.
#[must_use]
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfkd()
        .filter(|c| !is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .filter(|c| !is_combining_mark(*c))
        .map(plain)
        .collect()
}

/// A hash of the letters and digits of a text, whatever their case, accents, punctuation and spacing; `None` when it has
/// none. Texts that the guard calls the same have the same; that does not hold the other way round.
#[must_use]
pub fn letters(text: &str) -> Option<u64> {
    let letters: String = fold(text).chars().filter(|c| c.is_alphanumeric()).collect();
    (!letters.is_empty()).then(|| hash(&letters))
}

/// Lower case, composed, with its accents.
#[must_use]
pub(crate) fn lower(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfkc().flat_map(char::to_lowercase).nfc().collect()
}

/// Letters that decomposition leaves alone although people type them without.
fn plain(c: char) -> char {
    match c {
        'ø' => 'o',
        'ł' => 'l',
        'đ' => 'd',
        'ı' => 'i',
        _ => c,
    }
}

/// Typographic quotes and dashes as on a keyboard; `None` for what shows nothing.
#[must_use]
pub(crate) fn keyboard(c: char) -> Option<char> {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{02bc}' | '\u{2032}' | '\u{00b4}' => Some('\''),
        '\u{201c}' | '\u{201d}' | '\u{00ab}' | '\u{00bb}' => Some('"'),
        '\u{2010}' | '\u{2011}' | '\u{2012}' | '\u{2013}' | '\u{2212}' => Some('-'),
        '\u{2014}' | '\u{2015}' => Some('\u{2014}'),
        '\u{00ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fe0f}' => None,
        c if c.is_control() => Some(' '),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_accents_and_typography_fold_away() {
        for (text, folded) in [
            ("NÃO", "nao"),
            ("na\u{303}o", "nao"),
            ("ﬁm", "fim"),
            ("ＡＢＣ１", "abc1"),
            ("İstanbul", "istanbul"),
            ("Straße", "straße"),
            ("łódź", "lodz"),
            ("", ""),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
        assert_eq!(lower("AVO\u{302}"), "avô");
    }

    #[test]
    fn hashes_never_change() {
        assert_eq!(hash("hypnos"), hash("hypnos"));
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
