//! One wording for what can be said in several: the form in which a merge compares two texts word by word.
//!
//! Mechanics: articles go, what the language calls exchangeable gets one spelling, and an apposition that begins a
//! sentence gets one order ("Tom's son Alfie" is "Alfie, Tom's son,"). What each language exchanges is data, the table
//! `[rewording]` of its lexicon: one line a set of words or phrases in one form each, so that no tense or number is
//! lost; a line of one phrase keeps an idiom out of the others.
//!
//! Policy: only what means the same wherever it stands is exchanged. Names, codes and figures never are, nothing is
//! reordered but that apposition, and where a comma may part a list, none is seen.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

use super::align::MAX_WORDS;
use super::fold::{fold, hash, hash32};
use super::lexicon::Lexicon;
use super::names;
use super::token::{Case, Ends, Kind, Token};
use super::words::{WordMap, WordSet};

/// The table `[rewording]` of a lexicon.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRewording {
    /// Articles and adverbs that say nothing.
    dropped: String,
    /// What stands between somebody's role and whose it is.
    of: String,
    /// Function words that may follow an apposition, with their accents.
    verbs: String,
    /// What can be exchanged, a line each.
    same: String,
}

/// What a language can say in several ways.
#[derive(Debug)]
pub(crate) struct Rewording {
    dropped: WordSet<String>,
    of: WordSet<String>,
    verbs: WordSet<String>,
    /// By first word, the longest first.
    phrases: WordMap<Vec<Phrase>>,
}

#[derive(Debug)]
struct Phrase {
    rest: Vec<String>,
    line: usize,
}

/// Letters that a word has at least before an "s" can make its plural.
const SHORT: usize = 3;

impl Rewording {
    pub(crate) fn read(raw: &RawRewording) -> Self {
        let set = |words: &str| words.split_whitespace().map(fold).collect();
        let mut phrases: BTreeMap<String, Vec<Phrase>> = BTreeMap::new();
        for (line, same) in raw.same.trim().lines().enumerate() {
            for phrase in same.split_whitespace() {
                let mut words = phrase.split('_').map(fold);
                let first = words.next().unwrap_or_default();
                let rest = words.collect();
                phrases
                    .entry(first)
                    .or_default()
                    .push(Phrase { rest, line });
            }
        }
        for known in phrases.values_mut() {
            known.sort_by_key(|phrase| std::cmp::Reverse(phrase.rest.len()));
        }
        Self {
            dropped: set(&raw.dropped),
            of: set(&raw.of),
            verbs: raw.verbs.split_whitespace().map(str::to_owned).collect(),
            phrases: phrases.into_iter().collect(),
        }
    }

    /// Every line, its phrases spelt with spaces.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<Vec<String>> {
        let phrases: BTreeMap<_, _> = self.phrases.iter().collect();
        let mut lines = BTreeMap::<usize, Vec<String>>::new();
        for (first, phrases) in phrases {
            for Phrase { rest, line } in phrases {
                let mut words = vec![first.clone()];
                words.extend(rest.iter().cloned());
                lines.entry(*line).or_default().push(words.join(" "));
            }
        }
        lines.into_values().collect()
    }

    /// The line of the longest phrase that begins at `at`, whether it is a plural of it, and how many tokens it takes.
    fn phrase(&self, tokens: &[Token], at: usize) -> Option<(usize, bool, usize)> {
        let word = tokens[at].fold.as_str();
        if let Some(phrase) = self.phrases.get(word).and_then(|known| {
            known
                .iter()
                .find(|phrase| begins_with(&tokens[at..], &phrase.rest))
        }) {
            return Some((phrase.line, false, phrase.rest.len() + 1));
        }
        let singular = word
            .strip_suffix('s')
            .filter(|singular| singular.len() >= SHORT)?;
        let known = self.phrases.get(singular)?;
        let phrase = known.iter().find(|phrase| phrase.rest.is_empty())?;
        Some((phrase.line, true, 1))
    }
}

/// Whether the words behind the first of `tokens` are `rest`, without a break.
fn begins_with(tokens: &[Token], rest: &[String]) -> bool {
    tokens.len() > rest.len()
        && rest
            .iter()
            .zip(tokens.windows(2))
            .all(|(word, two)| two[0].ends == Ends::Nothing && two[1].fold == *word)
}

/// A word of a wording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    said: u64,
    /// Hash of the accented spelling; zero where it has no accents.
    accented: u32,
}

/// Whether two wordings are one; those of texts too long to be judged are none.
pub(crate) fn is_one(a: &[Piece], b: &[Piece]) -> bool {
    let is_same = |(one, other): (&Piece, &Piece)| {
        let clash = one.accented != 0 && other.accented != 0 && one.accented != other.accented;
        one.said == other.said && !clash
    };
    !a.is_empty() && a.len() == b.len() && a.iter().zip(b).all(is_same)
}

/// What a word is to an apposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    /// A word in lower case that carries a topic.
    Plain,
    Of,
    Verb,
    Other,
}

#[derive(Debug)]
struct Draft {
    piece: Piece,
    part: Part,
    ends: Ends,
    begins: bool,
    /// Whether something was dropped before it.
    is_led: bool,
    /// Whether it ends in a possessive.
    owns: bool,
}

/// The wording of a text; empty when it is too long to be judged.
pub(crate) fn wording(lexicon: &Lexicon, tokens: &[Token]) -> Box<[Piece]> {
    if tokens.len() > MAX_WORDS {
        return Box::default();
    }
    let drafts = drafts(lexicon, tokens);
    let mut pieces = Vec::with_capacity(drafts.len());
    let mut at = 0;
    while at < drafts.len() {
        if let Some(found) = Apposition::at(&drafts, at) {
            found.write(&drafts, &mut pieces);
            at = found.end;
        } else {
            pieces.push(drafts[at].piece());
            at += 1;
        }
    }
    pieces.into()
}

fn drafts(lexicon: &Lexicon, tokens: &[Token]) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::with_capacity(tokens.len());
    let (mut at, mut is_led, mut begins) = (0, false, false);
    while at < tokens.len() {
        let token = &tokens[at];
        begins |= token.begins;
        let found = exchanged(lexicon, tokens, at);
        if found.is_none() && is_dropped(lexicon, tokens, at) {
            if let Some(last) = drafts.last_mut() {
                last.ends = last.ends.max(token.ends);
            }
            is_led = true;
            at += 1;
            continue;
        }
        let (piece, used) = found.unwrap_or_else(|| (as_written(token), 1));
        drafts.push(Draft {
            piece,
            part: part(lexicon, tokens, at),
            ends: tokens[at + used - 1].ends,
            begins: std::mem::take(&mut begins),
            is_led: std::mem::take(&mut is_led),
            owns: token.owns,
        });
        at += used;
    }
    drafts
}

fn as_written(token: &Token) -> Piece {
    Piece {
        said: hash(&token.fold),
        accented: token.accented.as_deref().map_or(0, hash32),
    }
}

/// What stands for the exchangeable words at `at`, and how many tokens they take.
fn exchanged(lexicon: &Lexicon, tokens: &[Token], at: usize) -> Option<(Piece, usize)> {
    let (line, is_plural, used) = lexicon.rewording.phrase(tokens, at)?;
    let is_word = |at: usize| {
        tokens[at].kind == Kind::Word && !tokens[at].owns && !is_name(lexicon, tokens, at)
    };
    let plural = if is_plural { "s" } else { "" };
    let piece = Piece {
        said: hash(&format!("={line}{plural}")),
        accented: 0,
    };
    (at..at + used).all(is_word).then_some((piece, used))
}

/// Whether the token says nothing. Before a figure an "a" may be a "to": from two to three.
fn is_dropped(lexicon: &Lexicon, tokens: &[Token], at: usize) -> bool {
    let next = tokens.get(at + 1);
    tokens[at].kind == Kind::Word
        && lexicon.rewording.dropped.contains(&tokens[at].fold)
        && !next.is_some_and(|next| is_figure(lexicon, next))
}

fn is_figure(lexicon: &Lexicon, token: &Token) -> bool {
    let is_word = lexicon.get(&token.fold).is_some_and(|entry| {
        entry.number.is_some()
            || entry.weekday.is_some()
            || entry.month.is_some()
            || entry.relative.is_some()
    });
    is_word || matches!(token.kind, Kind::Numeral(_))
}

fn is_name(lexicon: &Lexicon, tokens: &[Token], at: usize) -> bool {
    let is_function = lexicon
        .get(&tokens[at].fold)
        .is_some_and(|entry| entry.is_function);
    !is_function && names::is_name(lexicon, tokens, at)
}

fn part(lexicon: &Lexicon, tokens: &[Token], at: usize) -> Part {
    let token = &tokens[at];
    let entry = lexicon.get(&token.fold);
    let spelling = token.accented.as_ref().unwrap_or(&token.fold);
    if token.kind != Kind::Word {
        Part::Other
    } else if is_name(lexicon, tokens, at) {
        Part::Name
    } else if lexicon.rewording.of.contains(&token.fold) {
        Part::Of
    } else if lexicon.rewording.verbs.contains(spelling) {
        Part::Verb
    } else if token.case == Case::Lower
        && entry.is_none_or(|entry| !entry.is_function && entry.negator.is_none())
    {
        Part::Plain
    } else {
        Part::Other
    }
}

impl Draft {
    /// The word as it stands outside an apposition, where a possessive is part of it.
    fn piece(&self) -> Piece {
        Piece {
            said: self.piece.said ^ u64::from(self.owns),
            ..self.piece
        }
    }
}

/// Somebody's name, and what they are to whom, at the beginning of a sentence.
#[derive(Debug)]
struct Apposition {
    name: Range<usize>,
    role: Range<usize>,
    owner: Range<usize>,
    end: usize,
}

/// Words of a role.
const ROLE: usize = 2;

impl Apposition {
    fn at(drafts: &[Draft], at: usize) -> Option<Self> {
        if !drafts[at].begins {
            return None;
        }
        let found = Self::owner_first(drafts, at)
            .or_else(|| Self::name_first(drafts, at))
            .or_else(|| Self::role_first(drafts, at))
            .or_else(|| Self::role_of(drafts, at))?;
        is_followed(drafts, found.end).then_some(found)
    }

    /// "Tom's son Alfie".
    fn owner_first(drafts: &[Draft], at: usize) -> Option<Self> {
        let owner = run(drafts, at, Part::Name, Ends::Nothing, true)?;
        let role = run(drafts, owner.end, Part::Plain, Ends::Nothing, false)?;
        let name = run(drafts, role.end, Part::Name, Ends::Nothing, false)?;
        let end = name.end;
        Some(Self {
            name,
            role,
            owner,
            end,
        })
    }

    /// "Alfie, Tom's son,".
    fn name_first(drafts: &[Draft], at: usize) -> Option<Self> {
        let name = run(drafts, at, Part::Name, Ends::Item, false)?;
        let owner = run(drafts, name.end, Part::Name, Ends::Nothing, true)?;
        let role = run(drafts, owner.end, Part::Plain, Ends::Item, false)?;
        let end = role.end;
        Some(Self {
            name,
            role,
            owner,
            end,
        })
    }

    /// "The son of Tom, Alfie,".
    fn role_first(drafts: &[Draft], at: usize) -> Option<Self> {
        let role = run(drafts, at, Part::Plain, Ends::Nothing, false)?;
        let owner = run(drafts, of(drafts, role.end)?, Part::Name, Ends::Item, false)?;
        let name = run(drafts, owner.end, Part::Name, Ends::Item, false)?;
        let end = name.end;
        Some(Self {
            name,
            role,
            owner,
            end,
        })
    }

    /// "Alfie, the son of Tom,".
    fn role_of(drafts: &[Draft], at: usize) -> Option<Self> {
        let name = run(drafts, at, Part::Name, Ends::Item, false)?;
        let role = run(drafts, name.end, Part::Plain, Ends::Nothing, false)?;
        let owner = run(drafts, of(drafts, role.end)?, Part::Name, Ends::Item, false)?;
        let end = owner.end;
        Some(Self {
            name,
            role,
            owner,
            end,
        })
    }

    /// The name, the role, whose it is.
    fn write(&self, drafts: &[Draft], pieces: &mut Vec<Piece>) {
        let mark = Piece {
            said: hash("=apposition"),
            accented: 0,
        };
        let bare = |range: &Range<usize>| drafts[range.clone()].iter().map(|draft| draft.piece);
        pieces.extend(bare(&self.name));
        pieces.push(mark);
        pieces.extend(bare(&self.role));
        pieces.push(mark);
        pieces.extend(bare(&self.owner));
        pieces.push(mark);
    }
}

/// Words of one part from `at` on, of which only the last ends something, namely this, and owns or does not.
fn run(drafts: &[Draft], at: usize, part: Part, ends: Ends, owns: bool) -> Option<Range<usize>> {
    let of_part = drafts[at..]
        .iter()
        .take_while(|draft| draft.part == part)
        .count();
    let words = &drafts[at..at + of_part];
    let length = words
        .iter()
        .position(|draft| draft.ends != Ends::Nothing || draft.owns)
        .map_or(of_part, |last| last + 1);
    let last = words[..length].last()?;
    let fits = last.ends == ends && last.owns == owns && (part == Part::Name || length <= ROLE);
    fits.then_some(at..at + length)
}

/// The place behind an "of".
fn of(drafts: &[Draft], at: usize) -> Option<usize> {
    let of = drafts.get(at)?;
    (of.part == Part::Of && of.ends == Ends::Nothing).then_some(at + 1)
}

/// Whether what stands at `at` goes on with the sentence, not with a list.
fn is_followed(drafts: &[Draft], at: usize) -> bool {
    drafts.get(at).is_some_and(|next| {
        !next.is_led && !next.begins && matches!(next.part, Part::Plain | Part::Verb)
    })
}
