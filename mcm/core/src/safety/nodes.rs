//! Nodes without a machine: they are marked as not managed, and released.
//!
//! The mark shows users and the other rules that the controller does not manage the Node. Only a Node on a VM that the
//! cloud lists with our tags is marked: other Nodes may belong to another controller of the same cluster. A Node that
//! is younger than the creation timeout is ignored: its machine may not name it yet.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mcm_api::keys;
use serde_json::{Value, json};

use crate::finalizer::{finalizer_patch, has_finalizer};

/// The value of the mark, as upstream writes it. A mark with another value, set by a user, counts as well.
const MARK: &str = "1";

/// The machines and the VM of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReferences {
    /// How many machines name the Node or are named by it.
    pub machines: usize,
    /// Whether the cloud lists its VM with our tags.
    pub vm: bool,
}

/// The timeouts after which a Node is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTimeouts {
    /// The creation timeout of a machine.
    pub creation: Duration,
    /// The drain timeout of a machine.
    pub drain: Duration,
}

/// The merge patch that a Node needs; `None`: no change. A Node that several machines name is ambiguous, so it is not
/// changed.
pub fn patch(node: &Node, references: NodeReferences, timeouts: &NodeTimeouts, now: Timestamp) -> Option<Value> {
    match references {
        NodeReferences { machines: 0, .. } if is_young(node, timeouts.creation, now) => None,
        NodeReferences { machines: 0, vm: true } => let_go(node),
        NodeReferences { machines: 0, vm: false } if is_stuck(node, timeouts, now) => release(node),
        NodeReferences { machines: 1, .. } if is_marked(node) => Some(json!({ "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": { keys::NOT_MANAGED_ANNOTATION: null },
        } })),
        _ => None,
    }
}

/// The merge patch that marks a Node as not managed, and releases it; `None`: no change.
pub fn let_go(node: &Node) -> Option<Value> {
    if is_marked(node) {
        return release(node);
    }
    let bare = || json!({ "metadata": { "resourceVersion": node.metadata.resource_version } });
    let mut patch = release(node).unwrap_or_else(bare);
    patch["metadata"]["annotations"] = json!({ keys::NOT_MANAGED_ANNOTATION: MARK });
    Some(patch)
}

/// The merge patch that removes our finalizer; `None`: the Node does not have it.
fn release(node: &Node) -> Option<Value> {
    let present = has_finalizer(&node.metadata, keys::NODE_FINALIZER);
    present.then(|| finalizer_patch(&node.metadata, keys::NODE_FINALIZER, false))
}

fn is_marked(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(keys::NOT_MANAGED_ANNOTATION))
}

/// Whether the Node has been terminating for longer than any controller needs to complete its deletion.
fn is_stuck(node: &Node, timeouts: &NodeTimeouts, now: Timestamp) -> bool {
    let limit = timeouts.creation.saturating_add(timeouts.drain);
    let deleted_at = node.metadata.deletion_timestamp.as_ref();
    deleted_at.is_some_and(|since| Duration::try_from(now.duration_since(since.0)).is_ok_and(|time| time >= limit))
}

fn is_young(node: &Node, creation_timeout: Duration, now: Timestamp) -> bool {
    let created = node.metadata.creation_timestamp.as_ref();
    created.is_none_or(|created| {
        Duration::try_from(now.duration_since(created.0)).is_ok_and(|age| age < creation_timeout) || now < created.0
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use rstest::rstest;

    use super::*;

    const PATIENCE: NodeTimeouts = NodeTimeouts {
        creation: Duration::from_mins(20),
        drain: Duration::from_hours(2),
    };

    fn of(machines: usize) -> NodeReferences {
        NodeReferences { machines, vm: true }
    }

    fn node(marked: Option<&str>, finalizer: bool) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some("n1".into()),
                resource_version: Some("7".into()),
                creation_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
                annotations: marked
                    .map(|value| BTreeMap::from([(keys::NOT_MANAGED_ANNOTATION.to_owned(), value.to_owned())])),
                finalizers: finalizer.then(|| vec!["of/another".to_owned(), keys::NODE_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            ..Node::default()
        }
    }

    #[rstest]
    #[case::without_machine(node(None, false), 0, Some(json!({"metadata": {"resourceVersion": "7",
        "annotations": {keys::NOT_MANAGED_ANNOTATION: "1"}}})))]
    #[case::machine_is_deleted(node(None, true), 0, Some(json!({"metadata": {"resourceVersion": "7",
        "annotations": {keys::NOT_MANAGED_ANNOTATION: "1"}, "finalizers": ["of/another"]}})))]
    #[case::marked(node(Some("1"), false), 0, None)]
    #[case::marked_by_a_user(node(Some("true"), false), 0, None)]
    #[case::marked_with_finalizer(node(Some("1"), true), 0, Some(json!({"metadata": {"resourceVersion": "7",
        "finalizers": ["of/another"]}})))]
    #[case::adopted(node(Some("1"), true), 1, Some(json!({"metadata": {"resourceVersion": "7",
        "annotations": {keys::NOT_MANAGED_ANNOTATION: null}}})))]
    #[case::ours(node(None, true), 1, None)]
    #[case::of_several(node(None, true), 2, None)]
    #[case::of_several_and_marked(node(Some("1"), true), 2, None)]
    fn a_node_is_marked_while_no_machine_names_it(
        #[case] node: Node,
        #[case] machines: usize,
        #[case] expected: Option<Value>,
    ) {
        let now = Timestamp::from_second(20 * 60).unwrap();
        assert_eq!(patch(&node, of(machines), &PATIENCE, now), expected);
    }

    #[rstest]
    #[case::of_another_controller(node(None, true), None)]
    #[case::without_finalizer(node(None, false), None)]
    #[case::marked_by_another(node(Some("1"), true), None)]
    #[case::deleting(deleting(node(None, true), 3600), None)]
    #[case::deleting_for_too_long(deleting(node(None, true), 0), Some(json!({"metadata": {"resourceVersion": "7",
        "finalizers": ["of/another"]}})))]
    fn a_node_with_a_foreign_vm_is_ignored(#[case] node: Node, #[case] expected: Option<Value>) {
        let now = Timestamp::from_second(140 * 60).unwrap();
        let references = NodeReferences { machines: 0, vm: false };
        assert_eq!(patch(&node, references, &PATIENCE, now), expected);
    }

    fn deleting(node: Node, since: i64) -> Node {
        let since = Timestamp::from_second(since).unwrap();
        let metadata = ObjectMeta {
            deletion_timestamp: Some(Time(since)),
            ..node.metadata
        };
        Node { metadata, ..node }
    }

    #[test]
    fn a_young_node_is_ignored() {
        let now = Timestamp::from_second(20 * 60 - 1).unwrap();
        assert_eq!(patch(&node(None, true), of(0), &PATIENCE, now), None);
        let before_its_creation = Timestamp::from_second(-5).unwrap();
        assert_eq!(patch(&node(None, true), of(0), &PATIENCE, before_its_creation), None);
        let without_creation_time = Node::default();
        assert_eq!(patch(&without_creation_time, of(0), &PATIENCE, now), None);
    }
}
