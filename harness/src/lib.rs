//! The harness: stages, scenarios, the engine that performs and judges them, invariants, reports,
//! and the command line as a library.
//!
//! What must not live here: which scenarios there are (crate `e2e`).

// A line goes to standard output by `cli::output`, which outlives its reader.
#![deny(clippy::print_stdout)]

pub mod campaign;
pub mod cli;
pub mod deploy;
pub mod engine;
pub mod file;
pub mod invariants;
pub mod plan;
pub mod regression;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod shrink;
pub mod stage;

pub use scenario::Scenario;
pub use stage::StageKind;
