//! The rules that keep the repository as `docs/how-it-works/architecture.md` says it is.
//!
//! What lives here: the rules as functions from what was read to what is wrong with it; the test
//! `tidy` runs them over this checkout. What must not: anything that the product needs.

pub mod affected;
pub mod cycles;
pub mod dependencies;
pub mod files;
pub mod modules;
pub mod signatures;
pub mod workspace;

/// One thing that is not as it should be, in words that say where and what to do.
pub type Finding = String;
