//! From watches to the view that a decision is made from, and to the work that a change means.
//!
//! What must not live here: requests other than watches, and decisions. A view is an owned copy; nothing in it changes
//! while a decision is made.

mod cluster_state;
mod drain;
mod driver_source;
mod indexes;
mod machine;
mod owners;
mod preservation;
mod triggers;
mod watches;
mod work;

pub(crate) use self::cluster_state::ClusterState;
pub(crate) use self::drain::listed;
#[cfg(test)]
pub(crate) use self::indexes::NodeIndex;
pub(crate) use self::machine::{answered_node, secret, view};
pub(crate) use self::work::{EnabledControllers, Trigger, Work};
