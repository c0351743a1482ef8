//! Judgement of a world: its state as a fold of observations, expectations, invariants, and the narrative of a run.
//!
//! Everything here is pure. This crate knows neither clients nor transports, does not wait, and does not know who
//! observes (`harness`) or how a stage works (`stage`).

pub mod end;
pub mod evaluate;
pub mod interest;
pub mod invariants;
pub mod narrative;
pub mod object;
pub mod occurred;
mod outcome;
pub mod preserved;
mod workloads;
pub mod world;

pub use self::outcome::{Failure, ScenarioOutcome};
