//! The schema of the cloud's fault rules: what a file may contain, its checks, and its old spellings; and the states of a
//! VM.
//!
//! `fakecloud` and the scenarios of the harness share it, so that a rule has the same form in every file. The rules of
//! the API server have the same shape: a name, `match` and `action`. `fakecloud` decides what a rule does to a call.

mod call;
mod delay;
pub mod deprecation;
mod rate;
mod rule;
mod schema;
mod vm_state;

pub use call::{AnyCall, CloudCall};
pub use delay::{Delay, DelayError};
pub use deprecation::{Deprecation, Deprecations};
pub use rate::{RateError, check_rate};
pub use rule::{
    Action, At, CommonError, FaultRule, FaultRuleError, Match, Partial, RuleReader, Stale, Throttle, Window,
};
pub use schema::{CodeText, DurationText};
pub use vm_state::VmState;
