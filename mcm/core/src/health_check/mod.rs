//! The health checks of machines: when a machine is unhealthy, when it is remediated, and by whom.
//!
//! In scope: [`decide()`] and its rules, one file per topic. Out of scope: reading a cluster or a clock; the [`View`] is the
//! whole input, the [`Plan`] the whole output. A health check never deletes a machine: it sets conditions, which the
//! owner of the machine acts on ([`owner`]), or creates a request to another controller.

mod breaker;
mod conditions;
mod decide;
mod evaluate;
mod events;
mod judged;
mod outcome;
pub mod owner;
mod policy;
mod problem;
mod requests;
mod spelling;
mod status;
#[cfg(test)]
mod tests;
mod view;
mod withdraw;

pub use breaker::{Allowance, allowance};
pub(crate) use conditions::set_condition;
pub use decide::{decide, needs_requests};
pub use evaluate::{Health, evaluate, is_node_observed};
pub use outcome::{Action, EventObject, Outcome, Plan, Remediated, Remediator, State};
pub use policy::{Amount, Escalation, Limit, MachineRule, NodeRule, Policy, Remediation};
pub use problem::PolicyError;
pub use spelling::normalize;
pub use view::{Connection, NodeState, Request, RequestKind, RequestView, Settings, Target, TemplateView, View};
pub use withdraw::{Selection, WITHDRAWN, may_be_withdrawn, withdrawn};
