//! Which language a text is in: the one whose function words it uses most.

use std::sync::LazyLock;

use super::lexicon::LEXICONS;
use super::token::{Kind, Token};
use super::words::WordSet;

/// Everyday words of languages that have no lexicon, so that their texts are not taken for one that has.
static FOREIGN: LazyLock<WordSet<&str>> = LazyLock::new(|| {
    include_str!("lexicon/foreign.txt")
        .split_whitespace()
        .collect()
});

/// The language of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its place among the lexicons.
    pub(crate) index: usize,
    /// Whether the words say so.
    pub(crate) is_certain: bool,
    /// Whether no lexicon covers the text.
    pub(crate) is_foreign: bool,
}

/// Chooses the lexicon of a text; `hint` decides where its words do not.
pub(crate) fn choose(tokens: &[Token], hint: Option<&str>) -> Choice {
    let words: Vec<&Token> = tokens
        .iter()
        .filter(|token| token.kind == Kind::Word)
        .take(400)
        .collect();
    let scores: Vec<usize> = LEXICONS
        .iter()
        .map(|lexicon| {
            let weigh = |token: &&Token| match lexicon.get(&token.fold) {
                Some(entry) if entry.is_function || entry.expansion.is_some() => 3,
                Some(_) => 2,
                None if token.fold.contains('\'') && lexicon.code == "en" => 2,
                None => 0,
            };
            let accents = words
                .iter()
                .filter(|token| is_accented(lexicon.code, token))
                .count();
            words.iter().map(weigh).sum::<usize>() + 2 * accents
        })
        .collect();
    let best = scores.iter().copied().max().unwrap_or(0);
    let leaders: Vec<usize> = (0..scores.len()).filter(|at| scores[*at] == best).collect();
    let hinted = hint.and_then(|code| LEXICONS.iter().position(|lexicon| lexicon.code == code));
    let index = match hinted {
        Some(hinted) if leaders.contains(&hinted) || best == 0 => hinted,
        _ => leaders.first().copied().unwrap_or(0),
    };
    Choice {
        index,
        is_certain: best > 0 && leaders.len() == 1,
        is_foreign: is_foreign(&words, best),
    }
}

/// Letters that only one of the languages writes.
fn is_accented(code: &str, token: &Token) -> bool {
    let Some(accented) = &token.accented else {
        return false;
    };
    match code {
        "pt" => accented.contains(['ã', 'õ', 'ç', 'ê', 'ô', 'â', 'à']),
        "es" => accented.contains(['ñ']),
        _ => false,
    }
}

fn is_foreign(words: &[&Token], best: usize) -> bool {
    let is_latin = |token: &&&Token| {
        token
            .fold
            .chars()
            .all(|c| !c.is_alphabetic() || c.is_ascii() || ('\u{c0}'..'\u{250}').contains(&c))
    };
    let latin = words.iter().filter(is_latin).count();
    let foreign = words
        .iter()
        .filter(|token| FOREIGN.contains(token.fold.as_str()))
        .count();
    latin * 2 < words.len() || foreign * 3 > best || (words.len() >= 6 && best == 0)
}

#[cfg(test)]
mod tests {
    use super::super::analysis::Analysis;

    #[test]
    fn the_words_say_which_language_it_is() {
        for (text, language) in [
            ("the user prefers dark mode", "en"),
            ("o usuario prefere o modo escuro", "pt"),
            ("el usuario prefiere el modo oscuro", "es"),
            ("não usa Docker", "pt"),
            ("nao usa docker", "pt"),
            ("Ana", "en"),
            ("", "en"),
        ] {
            assert_eq!(Analysis::of(text).language(), language, "{text}");
        }
    }

    #[test]
    fn a_hint_decides_only_where_the_words_do_not() {
        assert_eq!(Analysis::with_language("Ana", Some("pt")).language(), "pt");
        assert_eq!(Analysis::with_language("Ana", Some("xx")).language(), "en");
        assert_eq!(
            Analysis::with_language("the cat is here", Some("pt")).language(),
            "en"
        );
    }

    #[test]
    fn a_language_without_a_lexicon_is_known_as_foreign() {
        for text in [
            "Ich mag keinen Kaffee und keinen Tee",
            "Je n'aime pas le thé",
            "Мне нравится чай",
            "我喜欢茶",
        ] {
            assert!(Analysis::of(text).is_foreign, "{text}");
        }
        for text in [
            "the user likes tea",
            "gosta de chá",
            "le gusta el té",
            "npm 9",
            "Ana",
        ] {
            assert!(!Analysis::of(text).is_foreign, "{text}");
        }
    }
}
