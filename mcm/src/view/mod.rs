//! Watches the clusters, builds the views for decisions, and maps changes to work.
//!
//! The module must not contain decisions, nor requests other than watches. A view is an owned copy that does not change
//! during a decision.

mod cluster_state;
mod drain;
mod driver_source;
mod health_checks;
mod indexes;
mod machine;
mod owners;
mod preservation;
mod triggers;
mod watches;
mod work;

pub(crate) use self::cluster_state::ClusterState;
pub(crate) use self::drain::set_listed_pods;
#[cfg(test)]
pub(crate) use self::indexes::NodeIndex;
pub(crate) use self::machine::{answered_node, must_wait_for_sibling, secret, view};
pub(crate) use self::work::{EnabledControllers, Trigger, Work};
