//! Tables of words.
//!
//! All that is in them is compiled in, so that no text can fill one with words whose hashes collide: they need no hash that
//! is hard to foresee, and looking up every word of every text takes a third of the time with one that is not.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

/// What is known of words.
pub(super) type WordMap<V> = HashMap<String, V, FixedState>;

/// What is known of words by their keys.
pub(super) type KeyMap<V> = HashMap<u32, V, FixedState>;

/// Words.
pub(super) type WordSet<W> = HashSet<W, FixedState>;
