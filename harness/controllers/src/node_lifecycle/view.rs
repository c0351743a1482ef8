//! What decisions about one node rest on.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::zones::Permission;

pub(super) const READY: &str = "Ready";
pub(super) const NEVER_POSTED: &str = "NodeStatusNeverUpdated";

/// What is known about one node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// The Node as last seen.
    pub node: &'a Node,
    /// Whether its kubelet has ever posted a status.
    pub posted: bool,
    /// When its kubelet last showed a sign of life, on this controller's clock. For a kubelet that
    /// never did: when the Node was created.
    pub last_sign: Timestamp,
    /// The silence (by the time at which Ready turned Unknown) for which its pods have been marked.
    pub pods_marked_for: Option<Timestamp>,
    /// Whether its zone lets it have the taint that drives its pods away.
    pub permission: Permission,
}

pub(super) fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == READY)
}
