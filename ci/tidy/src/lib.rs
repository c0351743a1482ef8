//! The rules of `docs/how-it-works/architecture.md`, as checks of the repository.
//!
//! Each rule is a function from file contents or metadata to findings; the test `tidy` runs them on this checkout.
//! The crate contains no product code.

pub mod affected;
pub mod cycles;
pub mod dependencies;
pub mod files;
pub mod modules;
pub mod signatures;
pub mod workflows;
pub mod workspace;

/// A violation of a rule: its location and the fix.
pub type Finding = String;
