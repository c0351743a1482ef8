//! Nodes that no machine stands behind: they are marked, and let go.
//!
//! The mark tells people, and the rest of the controller, that the Node is not its business. A Node that is younger than
//! a machine may take to join is left alone: its machine may not name it yet.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mcm_api::keys;
use serde_json::{Value, json};

use crate::finalizer::{finalizer_patch, has_finalizer};

/// The value of the mark, as upstream writes it. A person may set another one; it counts all the same.
const MARK: &str = "1";

/// The merge patch that a Node needs, given how many machines name it and the time within which a machine joins;
/// `None`: it is as it should be. Of a Node that several machines name nobody knows whose it is, so it stays as it is.
pub fn patch(node: &Node, machines: usize, creation_timeout: Duration, now: Timestamp) -> Option<Value> {
    let annotations = node.metadata.annotations.as_ref();
    let marked = annotations.is_some_and(|all| all.contains_key(keys::NOT_MANAGED_ANNOTATION));
    match machines {
        0 if is_young(node, creation_timeout, now) => None,
        0 => {
            let held = has_finalizer(&node.metadata, keys::NODE_FINALIZER);
            if marked && !held {
                return None;
            }
            let mut patch = match held {
                true => finalizer_patch(&node.metadata, keys::NODE_FINALIZER, false),
                false => json!({ "metadata": { "resourceVersion": node.metadata.resource_version } }),
            };
            if !marked {
                patch["metadata"]["annotations"] = json!({ keys::NOT_MANAGED_ANNOTATION: MARK });
            }
            Some(patch)
        }
        1 if marked => Some(json!({ "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": { keys::NOT_MANAGED_ANNOTATION: null },
        } })),
        _ => None,
    }
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

    const TIMEOUT: Duration = Duration::from_mins(20);

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
        assert_eq!(patch(&node, machines, TIMEOUT, now), expected);
    }

    #[test]
    fn a_young_node_is_left_alone() {
        let now = Timestamp::from_second(20 * 60 - 1).unwrap();
        assert_eq!(patch(&node(None, true), 0, TIMEOUT, now), None);
        let before_its_creation = Timestamp::from_second(-5).unwrap();
        assert_eq!(patch(&node(None, true), 0, TIMEOUT, before_its_creation), None);
        let unborn = Node::default();
        assert_eq!(patch(&unborn, 0, TIMEOUT, now), None);
    }
}
