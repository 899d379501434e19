//! Stems that were found before: most words of a text are in many others.
//!
//! Policy: neither words nor stems are kept, only hashes of both, and of so many words at the most. The texts of all tenants
//! are read with the same stems, so the hash of a word has a key that nobody knows: a text must not be able to hold a word
//! that is taken for a word of another one.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{PoisonError, RwLock};

/// Words remembered, at the most: 2 MB.
const MOST: usize = 1 << 16;

/// The keys of the words that were stemmed.
#[derive(Debug, Default)]
pub(super) struct Stems {
    hasher: RandomState,
    /// By the hash of the word.
    keys: RwLock<HashMap<u64, u32>>,
}

impl Stems {
    /// The key of each word; `stem` finds those that are not known.
    pub(super) fn keys<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
        stem: impl Fn(&str) -> u32,
    ) -> Vec<u32> {
        let mut new = Vec::new();
        let keys = {
            let known = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            let key = |word: &str| {
                let hash = self.hasher.hash_one(word);
                known.get(&hash).copied().unwrap_or_else(|| {
                    let key = stem(word);
                    new.push((hash, key));
                    key
                })
            };
            words.map(key).collect()
        };
        if !new.is_empty() {
            let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
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

    use super::super::fold::{hash, hash32};
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
    fn a_word_is_not_taken_for_one_that_was_made_to_have_its_hash() {
        let (one, other) = ("8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ");
        assert_eq!(hash(one), hash(other), "a known pair");
        let stems = Stems::default();
        assert_eq!(stems.keys([one].into_iter(), |_| 1), [1]);
        assert_eq!(stems.keys([other].into_iter(), |_| 2), [2]);
    }

    #[test]
    fn no_more_words_are_remembered_than_there_is_room_for() {
        let stems = Stems::default();
        let known = || stems.keys.read().unwrap().len();
        for text in 0..5 {
            let words: Vec<String> = (0..MOST / 2 - 1).map(|at| format!("{text} {at}")).collect();
            let keys = stems.keys(words.iter().map(String::as_str), hash32);
            assert!(words.iter().map(|word| hash32(word)).eq(keys));
            assert!(known() <= MOST);
        }
        let long: Vec<String> = (0..=MOST).map(|at| at.to_string()).collect();
        let keys = stems.keys(long.iter().map(String::as_str), |_| 7);
        assert_eq!((keys.len(), known()), (MOST + 1, MOST));
    }
}
