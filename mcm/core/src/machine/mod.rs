//! The machine controller's decisions: creation, health and deletion of one machine.
//!
//! What lives here: [`decide()`] and the rules behind it, a file a topic. What must not: reading a
//! cluster or a clock; all that is known is in the [`View`], all that is to be done in the [`Plan`].

/// Whether one of these defects is planted, by settings that can have one. Nobody can plant any without the feature
/// `mutants`.
macro_rules! planted {
    ($settings:expr, $($mutant:ident)|+) => {{
        #[cfg(feature = "mutants")]
        {
            matches!($settings.mutant, $(Some($crate::machine::Mutant::$mutant))|+)
        }
        #[cfg(not(feature = "mutants"))]
        {
            false
        }
    }};
}

mod creation;
mod decide;
mod deletion;
mod drain;
mod health;
mod in_place;
mod migration;
#[cfg(feature = "mutants")]
mod mutant;
mod node;
mod node_patch;
mod node_template;
mod pass;
mod plan;
mod preserve;
mod reason;
mod settings;
mod similar;
mod stage;
mod token;
mod update;
mod user_data;
mod validation;
mod view;

pub use decide::decide;
pub use drain::{Attempt, DrainMemory, EvictionOutcome, Moving};
pub use in_place::is_drained_in_place;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use node_patch::NodePatch;
pub use plan::{Action, BootstrapToken, CallKind, CloudCall, EventType, MachinePatch, Metric, Plan, TokenOwner};
pub use reason::Reason;
pub use settings::{Retry, Settings};
pub use stage::Stage;
pub use view::{Answer, Budget, Claimed, Failure, NodeView, Pod, Secret, SecretData, Sibling, TokenView, View};
