//! What happens when the program itself is wrong: the piece of work at hand fails, and says where.
//!
//! Policy: the message of a panic is never shown. It may quote what was worked on (slicing a text in the middle of a
//! character prints the text), and that may be a memory. The place in the source is enough to mend it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook};
use std::thread::ScopedJoinHandle;

use crate::error::Failure;
use crate::exit::Exit;

thread_local! {
    /// Where this thread last panicked.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A piece of work that panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked at {place}")]
pub struct Panicked {
    /// File, line and column; `an unknown place` unless [`install`] was called.
    pub place: String,
}

/// What to do about it.
const HINT: &str = "this is a bug of hypnos: what was begun is finished by the next run, what was not begun is untouched";

impl From<Panicked> for Failure {
    fn from(panicked: Panicked) -> Self {
        Self::new(Exit::Failed, panicked.to_string()).with_hint(HINT)
    }
}

/// Makes every panic of the process say where it was, and nothing else. Called once, by `main`.
pub fn install() {
    set_hook(Box::new(note));
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    tracing::error!(%place, "panicked");
    PLACE.with_borrow_mut(|known| *known = Some(place));
}

/// What a thread brought; when it panicked, this one does, too.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Does a piece of work that must not take others with it. What it was changing in memory is left half-way and must
/// not be used again; transactions are rolled back as the stack unwinds.
///
/// # Errors
///
/// When it panics.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let place = PLACE.with_borrow_mut(Option::take);
        Panicked {
            place: place.unwrap_or_else(|| "an unknown place".to_owned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_without_its_message() {
        let memory = String::from("ação: secret");
        let cut = std::hint::black_box(2);
        let panicked = catch(|| memory[..cut].len()).unwrap_err();
        assert!(!panicked.to_string().contains("secret"), "{panicked}");
        let failure = Failure::from(panicked);
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.hint.is_some_and(|hint| hint.contains("bug")));
    }

    #[test]
    fn what_does_not_panic_is_left_alone() {
        assert_eq!(catch(|| 7), Ok(7));
    }
}
