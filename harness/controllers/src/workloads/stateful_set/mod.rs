//! StatefulSets: pods with names, claims that stay, and an order in which they come and go
//! (kubernetes/kubernetes, stateful_set_control.go, stateful_set_utils.go).
//!
//! One file an idea: the decision, a pod and its identity, claims and how long they are kept, the
//! rolling update, the status.

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
