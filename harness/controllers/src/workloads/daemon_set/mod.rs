//! The DaemonSet controller: one pod on every eligible node (kubernetes/kubernetes, daemon_controller.go,
//! update.go).
//!
//! Files: node eligibility, the pod of a node, the decision, the rolling update, the status.

mod decide;
mod eligible;
mod pod;
mod scene;
mod status;
mod update;

#[cfg(test)]
mod tests;

pub use decide::decide;
pub use scene::{View, backoff};
