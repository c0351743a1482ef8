//! Judges runs: the world state as a fold of observations, expectations, invariants, and texts about observations.
//!
//! Everything here is pure: no client, no transport, no waiting. `harness` collects the observations, and `stage` runs
//! the components.

pub mod armed;
pub mod checked;
pub mod end;
pub mod evaluate;
mod grounds;
pub mod interest;
pub mod invariants;
pub mod object;
pub mod occurred;
mod outcome;
pub mod preserved;
mod readings;
pub mod remediation;
pub mod signature;
pub mod texts;
mod unmet;
mod workloads;
pub mod world;
pub mod writes;

pub use self::outcome::{Failure, Miss, ScenarioOutcome};
