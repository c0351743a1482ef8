//! The scenarios and the regression corpus, one per file, written with the builder of the crate `scenario`.
//!
//! Stages and the evaluation of runs belong to the crate `harness`.

mod regressions;
mod scenarios;

pub use regressions::regressions;
pub use scenarios::scenarios;
