//! The faults that buttons inject: what they hit, for how long, the steps that perform them, and the same as a command line.

mod catalogue;
mod plan;

pub use self::catalogue::{Fault, Needs, all};
pub(crate) use self::plan::rule_name;
pub use self::plan::{FaultError, FaultPlan, FaultRequest, FaultStep, Fleet, Member, decide};
