//! Proper names: by their capital, or because they are known names of tools and products however they are written.
//!
//! Policy: a first word of a sentence counts only if its language does not know it as a word; taking a word for a name
//! costs a merge, overlooking one may cost a memory.

use std::sync::LazyLock;

use super::lexicon::Lexicon;
use super::token::{Case, Token};
use super::words::WordSet;

static KNOWN: LazyLock<WordSet<&str>> = LazyLock::new(|| {
    include_str!("lexicon/names.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .collect()
});

/// Whether the token at `at` is a proper name.
pub(crate) fn is_name(lexicon: &Lexicon, tokens: &[Token], at: usize) -> bool {
    let token = &tokens[at];
    let bare = token.fold.trim_end_matches('s');
    if KNOWN.contains(token.fold.as_str()) || KNOWN.contains(bare) {
        return true;
    }
    match token.case {
        Case::Lower => false,
        Case::Mixed => true,
        Case::Upper => token.fold.chars().count() > 1 && !is_shouted(tokens),
        Case::Title => !is_title(tokens) && (!token.begins || is_foreign_to(lexicon, &token.fold)),
    }
}

/// Whether nearly everything is in capitals, so that they say nothing.
fn is_shouted(tokens: &[Token]) -> bool {
    let upper = tokens
        .iter()
        .filter(|token| token.case == Case::Upper)
        .count();
    upper * 2 > tokens.len()
}

/// Whether most words have a capital, as in a heading.
fn is_title(tokens: &[Token]) -> bool {
    let title = tokens
        .iter()
        .filter(|token| token.case == Case::Title)
        .count();
    tokens.len() >= 6 && title * 4 > tokens.len() * 3
}

/// Whether the first word of a sentence is none that its language begins sentences with.
fn is_foreign_to(lexicon: &Lexicon, word: &str) -> bool {
    let is_known = lexicon.get(word).is_some() || lexicon.relations(lexicon.key(word)).is_some();
    let is_inflected = match lexicon.code {
        "en" => ["ing", "ed", "ly", "tion", "ment", "ness", "es", "ies"].as_slice(),
        "pt" => [
            "ando", "endo", "indo", "mente", "cao", "coes", "ou", "ar", "er", "ir", "dade", "ado",
            "ada", "ido", "ida",
        ]
        .as_slice(),
        _ => [
            "ando", "iendo", "mente", "cion", "ar", "er", "ir", "dad", "ado", "ada", "ido", "ida",
        ]
        .as_slice(),
    }
    .iter()
    .any(|ending| word.len() > ending.len() + 2 && word.ends_with(ending));
    !is_known && !is_inflected
}
