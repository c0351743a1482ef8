//! The decisions about preservation: requests, their effect on a machine, and the count of preserved failed machines.
//!
//! In scope: requests and their annotations, the rules, the owner's list, and the sub-phase of a preserved machine. Out
//! of scope: the effect on a machine's plan, see `machine::preserve`.

mod defects;
mod dialect;
mod owners_list;
mod request;
mod rule;
mod shown;

pub use dialect::Dialect;
pub use owners_list::{Claim, ListView, OwnersList};
pub(crate) use owners_list::{is_rolling, sweep};
pub(crate) use request::AUTOMATIC;
pub use request::{Origin, PreservationRequest, Request, Resolved, resolve};
pub use rule::{
    Admission, Expiry, Failure, PreservationProgress, Refusal, Release, Situation, Step, on_failure, on_recovery,
    on_unchanged_phase, refusal, started_late,
};
pub use shown::shown;
pub(crate) use shown::{without_sub_phase, without_sub_phases};
