//! One pod on a simulated kubelet, pure: plan, lifecycle and status. It does not use other pods and Nodes.

pub(super) mod lifecycle;
pub(super) mod status;
#[cfg(test)]
mod tests;
