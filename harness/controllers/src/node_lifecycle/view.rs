//! The input of a decision about one node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::zones::Permission;

pub(super) const READY: &str = "Ready";
pub(super) const NEVER_POSTED: &str = "NodeStatusNeverUpdated";

/// The observed state of one node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// The node as last observed.
    pub node: &'a Node,
    /// Whether its kubelet has ever posted a status.
    pub posted: bool,
    /// When its kubelet last showed a sign of life, on this controller's clock. If it never did: when the node
    /// was created.
    pub last_sign: Timestamp,
    /// The silence for which its pods have been marked not ready, identified by the time at which Ready turned
    /// Unknown.
    pub pods_marked_for: Option<Timestamp>,
    /// Whether its zone permits the `NoExecute` taint.
    pub permission: Permission,
}

pub(super) fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == READY)
}
