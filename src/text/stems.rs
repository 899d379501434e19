//! Stems that were found before: most words of a text are in many others.
//!
//! Policy: neither words nor stems are kept, only hashes of both, and of so many words at the most.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::fold::hash;

/// Words remembered, at the most: 2 MB.
const MOST: usize = 1 << 16;

/// The key of every word that was stemmed, by its hash.
#[derive(Debug, Default)]
pub(super) struct Stems(RwLock<HashMap<u64, u32>>);

impl Stems {
    /// The key of each word; `stem` finds those that are not known.
    pub(super) fn keys<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
        stem: impl Fn(&str) -> u32,
    ) -> Vec<u32> {
        let mut new = Vec::new();
        let keys = {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            let mut key = |word: &str| {
                let hash = hash(word);
                known.get(&hash).copied().unwrap_or_else(|| {
                    let key = stem(word);
                    new.push((hash, key));
                    key
                })
            };
            words.map(&mut key).collect()
        };
        if !new.is_empty() {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() + new.len() > MOST {
                known.clear();
            }
            known.extend(new.into_iter().take(MOST));
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_word_is_stemmed_once() {
        let (stems, stemmed) = (Stems::default(), Cell::new(0));
        let stem = |word: &str| {
            stemmed.set(stemmed.get() + 1);
            u32::try_from(word.len()).unwrap()
        };
        assert_eq!(stems.keys(["a", "bcd"].into_iter(), stem), [1, 3]);
        assert_eq!(stems.keys(["bcd", "ef", "a"].into_iter(), stem), [3, 2, 1]);
        assert_eq!(stemmed.get(), 3);
    }

    #[test]
    fn no_more_words_are_remembered_than_there_is_room_for() {
        let stems = Stems::default();
        for text in 0..5 {
            let words: Vec<String> = (0..MOST / 2 - 1).map(|at| format!("{text} {at}")).collect();
            let keys = stems.keys(words.iter().map(String::as_str), super::super::fold::hash32);
            assert!(
                words
                    .iter()
                    .zip(keys)
                    .all(|(word, key)| super::super::fold::hash32(word) == key)
            );
            assert!(stems.0.read().unwrap().len() <= MOST);
        }
        let long: Vec<String> = (0..=MOST).map(|at| at.to_string()).collect();
        assert_eq!(
            stems.keys(long.iter().map(String::as_str), |_| 7).len(),
            MOST + 1
        );
        assert_eq!(stems.0.read().unwrap().len(), MOST);
    }
}
