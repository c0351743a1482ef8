//! The machine controller's decisions: creation, health and deletion of one machine.
//!
//! In scope: [`decide()`] and its rules, one file per topic. Out of scope: reading a cluster or a clock; the [`View`]
//! is the whole input, the [`Plan`] the whole output.

mod action;
mod claim;
mod creation;
mod decide;
mod defects;
mod deletion;
mod deletion_note;
mod drain;
mod drain_memory;
mod existing;
mod health;
mod in_place;
mod last_step;
mod migration;
mod node;
mod node_patch;
mod node_template;
mod node_template_validation;
mod pass;
mod plan;
mod preserve;
mod problem;
mod progress;
mod reason;
mod remediation;
mod secret;
mod settings;
mod similar;
mod stage;
mod token;
mod transitions;
mod update;
mod user_data;
mod validation;
mod view;

pub use action::{Action, BootstrapToken, CallKind, CloudCall, Failure, MachinePatch, Metric, TokenOwner};
pub use decide::decide;
pub use drain_memory::{Attempt, DrainMemory, EvictionOutcome, MovingPod};
pub use health::is_settled;
pub use in_place::is_drained_in_place;
pub use node_patch::{NodePatch, NodeWrite};
pub use plan::Plan;
pub use reason::Reason;
pub use secret::{Secret, SecretData};
pub use settings::{Fencing, Retry, Settings};
pub use stage::Stage;
pub use transitions::decide_ahead;
pub use view::{Answer, Budget, Claimed, NodeView, Pod, Sibling, TokenView, View};
