//! DaemonSets: one pod on every node that the template fits
//! (kubernetes/kubernetes, daemon_controller.go, update.go).
//!
//! One file an idea: which nodes are meant, the pod that is made for one, the decision, the rolling
//! update, the status.

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
