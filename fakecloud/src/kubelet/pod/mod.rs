//! One pod on a simulated kubelet, pure: what it is to do, how far it is, and its status.
//!
//! What must not live here: other pods, Nodes, and when statuses are written.

pub(super) mod lifecycle;
pub(super) mod status;
#[cfg(test)]
mod tests;
