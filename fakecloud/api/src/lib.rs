//! The schema of the cloud's fault rules: what a file may contain, its checks, and its old spellings.
//!
//! `fakecloud` and the scenarios of the harness share it, so that a rule reads the same in every file. The rules of the
//! API server have the same shape: a name, `match` and `action`. What a rule does to a call is decided in `fakecloud`.

mod call;
mod delay;
pub mod deprecation;
mod rate;
mod rule;

pub use call::{AnyCall, CloudCall};
pub use delay::Delay;
pub use deprecation::{Deprecation, Deprecations};
pub use rate::{RateError, check_rate};
pub use rule::{Action, At, FaultRule, FaultRuleError, Match, Partial, RuleReader, Stale, Throttle, Trouble, Window};
