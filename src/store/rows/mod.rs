//! The row store: SQLite files of any schema, read through a mapping from columns to roles.

mod error;
mod time;
mod value;
