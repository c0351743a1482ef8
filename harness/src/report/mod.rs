//! Reports of runs: a numbered folder for each failure, the record and the HTML report of a run, and JUnit XML and JSON for
//! programs.
//!
//! The module `cli` prints the progress of runs.

pub mod campaign;
pub mod ctrf;
pub mod diff;
pub mod driver;
pub mod files;
pub mod folder;
pub mod github;
pub mod json;
pub mod junit;
pub mod record;
pub mod store;
mod trace;
