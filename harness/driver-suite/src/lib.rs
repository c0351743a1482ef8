//! The contract suite for drivers: one case for each rule of `docs/using/writing-a-driver.md`, run against any
//! [`mcm_driver::Driver`].
//!
//! In scope: the cases, their run with cleanup, and the objects that they need. Out of scope: connections and
//! output (`drydock driver test` does both), and code for a specific driver.

mod call;
mod cases;
mod input;
mod leftovers;
mod ownership;
mod report;
mod run;
mod session;
mod verdict;

pub use call::{Call, CallError};
pub use cases::{CASES, Case, CaseFuture};
pub use input::Inputs;
pub use report::{CaseResult, Leftover, Outcome, Report};
pub use run::run;
pub use session::{Limits, Session, random_prefix};
pub use verdict::{Stop, Verdict};
