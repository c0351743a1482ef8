//! The StatefulSet controller: pods with stable names and claims, created and deleted in order
//! (kubernetes/kubernetes, stateful_set_control.go, stateful_set_utils.go).
//!
//! Files: the decision, a pod's identity, claims and their retention, the rolling update, the status.

mod claims;
mod decide;
mod identity;
mod scene;
mod status;
mod update;

#[cfg(test)]
mod tests;

pub use claims::claims_of;
pub use decide::decide;
pub use scene::View;
