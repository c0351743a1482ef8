//! The HTML report of a run: one file that opens without a server and requests nothing.
//!
//! `assets/` has the page: a shell, a style sheet and small modules, which are ES modules with JSDoc types. [`page`] puts
//! them and a record into one file. This crate knows the format of a record, and nothing of how it was made.

mod escape;
mod page;
mod script;
mod table;

pub use self::page::page;
