//! The extension sqlite-vec, whose virtual tables (`USING vec0`) hold vectors beside the rows.
//!
//! It is linked in and known to every connection of this process: a row must not be deleted by someone who cannot delete
//! its vector, and a trigger of the application may do so.

use std::ffi::{c_char, c_int};
use std::sync::Once;

use rusqlite::auto_extension::{RawAutoExtension, register_auto_extension};
use rusqlite::ffi;

/// Makes the extension known to every connection that is opened from now on.
///
/// Where that fails, statements that need it say that there is no such module.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let done = register_entry();
        if let Err(error) = done {
            tracing::warn!(%error, "sqlite-vec could not be registered");
        }
    });
}

#[expect(unsafe_code, reason = "the entry point is a function of C")]
fn register_entry() -> rusqlite::Result<()> {
    type Entry = unsafe extern "C" fn(
        *mut ffi::sqlite3,
        *mut *mut c_char,
        *const ffi::sqlite3_api_routines,
    ) -> c_int;
    // SAFETY: the crate declares the entry point without its parameters; sqlite-vec.h gives it these. It opens and closes
    // no database, and registers no other extension.
    unsafe {
        let entry: Entry =
            std::mem::transmute::<unsafe extern "C" fn(), Entry>(sqlite_vec::sqlite3_vec_init);
        register_auto_extension(entry as RawAutoExtension)
    }
}
