//! The decisions about preservation: who asks for what, what that means for a machine, and how failed machines that are
//! kept are counted.
//!
//! What lives here: requests and their words, the rule, the list of an owner, and how a preserved phase is shown. What must
//! not: how a machine's plan is made of it, which is `machine::preserve`'s.

mod defects;
mod dialect;
mod ledger;
mod request;
mod rule;
mod shown;

pub use dialect::Dialect;
pub(crate) use ledger::sweep;
pub use ledger::{Claim, Ledger, Standing};
pub(crate) use request::AUTOMATIC;
pub use request::{Asked, Origin, Request, Resolved, resolve};
pub use rule::{
    Expiry, Failure, Gate, Release, Situation, Step, Track, on_failure, on_recovery, standing, started_late,
};
pub use shown::shown;
pub(crate) use shown::{without_sub_phase, without_sub_phases};
