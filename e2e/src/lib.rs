//! The scenarios and the regression corpus, one a file, each a short story in the builder's words.
//!
//! What must not live here: how a stage does what it is asked, and how a run is judged (crate `harness`).

mod regressions;
mod scenarios;

pub use regressions::regressions;
pub use scenarios::scenarios;
