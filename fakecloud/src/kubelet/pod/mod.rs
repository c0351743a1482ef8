//! One pod on a simulated kubelet, pure: plan, lifecycle and status. It knows no other pods and no Nodes.

pub(super) mod lifecycle;
pub(super) mod status;
#[cfg(test)]
mod tests;
