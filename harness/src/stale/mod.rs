//! `drydock stale`: runs a controller on the embedded API server while what it sees is old, and compares its writes with
//! what it was sent.
//!
//! `counts` and `report` are pure; `run` starts the server and the controller and performs the steps.

mod counts;
mod error;
mod objects;
mod observer;
mod report;
mod rules;
mod run;

pub use error::StaleError;
pub use report::{CountResult, RunReport, narrative};
pub use run::{Settings, run};
