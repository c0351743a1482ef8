//! The harness: the engine that performs scenarios, campaigns, shrinking, regressions, reports, and the command line as
//! a library.
//!
//! It does not contain scenarios (crate `e2e`), stages (`stage`) or the judging of a world (`judge`).

// Lines go to standard output through `cli::output`, which tolerates a closed pipe.
#![deny(clippy::print_stdout)]

pub mod campaign;
pub mod cli;
pub mod engine;
pub mod regression;
pub mod report;
pub mod runner;
pub mod schema;
pub mod shrink;
pub mod stale;
