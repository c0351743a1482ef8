//! Deployments: a ReplicaSet for each pod template, and the way from one to the next
//! (kubernetes/kubernetes, deployment_controller.go, sync.go, rolling.go, recreate.go, progress.go).
//!
//! One file an idea: the sets and how they are written, finding the new set, rolling, recreating,
//! scaling in proportion, status and conditions. What must not live here: pods, beyond the
//! question whether any is left.

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
