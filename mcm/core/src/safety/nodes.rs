//! Nodes that no machine stands behind: they are marked, and let go.
//!
//! The mark tells people, and the rest of the controller, that the Node is not its business. Only a Node on a VM that the
//! cloud lists with our tags is judged: what runs elsewhere may be another controller's, which serves the same cluster. A
//! Node that is younger than a machine may take to join is left alone: its machine may not name it yet.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mcm_api::keys;
use serde_json::{Value, json};

use crate::finalizer::{finalizer_patch, has_finalizer};

/// The value of the mark, as upstream writes it. A person may set another one; it counts all the same.
const MARK: &str = "1";

/// What is known of a Node beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// How many machines name it, or are named by it.
    pub machines: usize,
    /// Whether the cloud lists its VM with our tags.
    pub vm: bool,
}

/// How long Nodes are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Within which a machine joins.
    pub creation: Duration,
    /// Within which a machine is drained.
    pub drain: Duration,
}

/// The merge patch that a Node needs; `None`: it is as it should be. Of a Node that several machines name nobody knows
/// whose it is, so it stays as it is.
pub fn patch(node: &Node, behind: Behind, patience: &Patience, now: Timestamp) -> Option<Value> {
    match behind {
        Behind { machines: 0, .. } if is_young(node, patience.creation, now) => None,
        Behind { machines: 0, vm: true } => let_go(node),
        Behind { machines: 0, vm: false } if is_forgotten(node, patience, now) => release(node),
        Behind { machines: 1, .. } if is_marked(node) => Some(json!({ "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": { keys::NOT_MANAGED_ANNOTATION: null },
        } })),
        _ => None,
    }
}

/// The merge patch that marks a Node as nobody's, and releases it; `None`: that is done.
pub fn let_go(node: &Node) -> Option<Value> {
    if is_marked(node) {
        return release(node);
    }
    let bare = || json!({ "metadata": { "resourceVersion": node.metadata.resource_version } });
    let mut patch = release(node).unwrap_or_else(bare);
    patch["metadata"]["annotations"] = json!({ keys::NOT_MANAGED_ANNOTATION: MARK });
    Some(patch)
}

/// The merge patch that takes our finalizer off; `None`: the Node has none.
fn release(node: &Node) -> Option<Value> {
    let held = has_finalizer(&node.metadata, keys::NODE_FINALIZER);
    held.then(|| finalizer_patch(&node.metadata, keys::NODE_FINALIZER, false))
}

fn is_marked(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(keys::NOT_MANAGED_ANNOTATION))
}

/// Whether it has been on its way out for longer than any controller takes to see it off, so that nobody will.
fn is_forgotten(node: &Node, patience: &Patience, now: Timestamp) -> bool {
    let limit = patience.creation.saturating_add(patience.drain);
    let going = node.metadata.deletion_timestamp.as_ref();
    going.is_some_and(|since| Duration::try_from(now.duration_since(since.0)).is_ok_and(|time| time >= limit))
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

    const PATIENCE: Patience = Patience {
        creation: Duration::from_mins(20),
        drain: Duration::from_hours(2),
    };

    fn of(machines: usize) -> Behind {
        Behind { machines, vm: true }
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
    #[case::of_nobody(node(None, false), 0, Some(json!({"metadata": {"resourceVersion": "7",
        "annotations": {keys::NOT_MANAGED_ANNOTATION: "1"}}})))]
    #[case::of_nobody_any_more(node(None, true), 0, Some(json!({"metadata": {"resourceVersion": "7",
        "annotations": {keys::NOT_MANAGED_ANNOTATION: "1"}, "finalizers": ["of/another"]}})))]
    #[case::marked(node(Some("1"), false), 0, None)]
    #[case::marked_by_a_person(node(Some("true"), false), 0, None)]
    #[case::marked_and_held(node(Some("1"), true), 0, Some(json!({"metadata": {"resourceVersion": "7",
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
    #[case::of_nobody_at_all(node(None, false), None)]
    #[case::marked_by_another(node(Some("1"), true), None)]
    #[case::going(deleting(node(None, true), 3600), None)]
    #[case::forgotten(deleting(node(None, true), 0), Some(json!({"metadata": {"resourceVersion": "7",
        "finalizers": ["of/another"]}})))]
    fn a_node_whose_vm_is_not_ours_is_left_alone(#[case] node: Node, #[case] expected: Option<Value>) {
        let now = Timestamp::from_second(140 * 60).unwrap();
        let behind = Behind { machines: 0, vm: false };
        assert_eq!(patch(&node, behind, &PATIENCE, now), expected);
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
    fn a_young_node_is_left_alone() {
        let now = Timestamp::from_second(20 * 60 - 1).unwrap();
        assert_eq!(patch(&node(None, true), of(0), &PATIENCE, now), None);
        let before_its_creation = Timestamp::from_second(-5).unwrap();
        assert_eq!(patch(&node(None, true), of(0), &PATIENCE, before_its_creation), None);
        let unborn = Node::default();
        assert_eq!(patch(&unborn, of(0), &PATIENCE, now), None);
    }
}
