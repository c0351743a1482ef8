//! The Deployment controller: one ReplicaSet per pod template, and rollouts between them
//! (kubernetes/kubernetes, deployment_controller.go, sync.go, rolling.go, recreate.go, progress.go).
//!
//! Files: the sets and their writes, revisions, rolling update, recreate, proportional scaling, status and
//! conditions. Pods are read only to find out whether any old pod is left.

mod decide;
mod numbers;
mod progress;
mod recreate;
mod revisions;
mod rolling;
mod scale;
mod sets;
mod view;

#[cfg(test)]
mod tests;

pub use decide::decide;
pub use revisions::next_set_name;
pub use view::View;
