//! I6: pods leave by eviction, and a VM waits for them.

use super::*;

fn pod(owner: &str) -> Value {
    json!({
        "metadata": { "name": "p", "namespace": "shop", "ownerReferences": [{ "kind": owner, "controller": true }] },
        "spec": { "nodeName": "n" },
        "status": { "phase": "Running" },
    })
}

/// A machine that is deleted while a pod runs on its Node; nothing disturbs.
fn draining(change: Value, owner: &str, node_change: Value) -> Story {
    drained(Story::new(), change, owner, node_change)
}

fn drained(story: Story, change: Value, owner: &str, node_change: Value) -> Story {
    story
        .apply("Node", node(node_change))
        .apply("Machine", machine("Running"))
        .apply("Machine", with(with(machine("Terminating"), deleted_at(1)), change))
        .apply("Pod", pod(owner))
}

#[rstest]
#[case::a_pod_that_could_be_evicted(json!({}), "ReplicaSet", json!({}), Some("I6"))]
#[case::a_pod_of_a_daemon_set(json!({}), "DaemonSet", json!({}), None)]
#[case::the_label(json!({ "metadata": { "labels": { "force-deletion": "True" } } }), "ReplicaSet", json!({}), None)]
#[case::a_dead_node(json!({}), "ReplicaSet", json!({ "status": { "conditions": [
    { "type": "Ready", "status": "Unknown", "lastTransitionTime": "1969-12-31T23:00:00Z" }] } }), None)]
fn a_vm_waits_for_its_pods(
    #[case] change: Value,
    #[case] owner: &str,
    #[case] node_change: Value,
    #[case] broken: Option<&str>,
) {
    draining(change, owner, node_change)
        .see(call("DeleteMachine", ""))
        .breaks(broken);
}

#[rstest]
#[case::that_nobody_drained_unseen(json!({}), false, None)]
#[case::that_nobody_drained(json!({}), true, Some("I6"))]
#[case::that_is_being_drained(json!({ "spec": { "unschedulable": true } }), false, Some("I6"))]
fn a_vm_waits_for_the_pods_of_a_node(#[case] change: Value, #[case] calm: bool, #[case] broken: Option<&str>) {
    let story = if calm { Story::new() } else { Story::new().disturbed() };
    drained(story, json!({}), "ReplicaSet", change)
        .see(call("DeleteMachine", ""))
        .breaks(broken);
}

#[rstest]
#[case::deleted("delete", "pods", Some("I6"))]
#[case::evicted("create", "pods/eviction", None)]
fn a_pod_leaves_by_eviction(#[case] verb: &str, #[case] resource: &str, #[case] broken: Option<&str>) {
    draining(json!({}), "ReplicaSet", json!({}))
        .see(request(verb, resource, "p"))
        .breaks(broken);
}

#[rstest]
#[case::as_old_as_the_request("1970-01-01T00:00:00Z", None)]
#[case::older("1969-12-31T23:00:00Z", Some("I6"))]
fn a_pod_that_was_made_just_now_is_not_the_one_that_was_deleted(#[case] made: &str, #[case] broken: Option<&str>) {
    let made = json!({ "metadata": { "creationTimestamp": made } });
    draining(json!({}), "ReplicaSet", json!({}))
        .apply("Pod", with(pod("ReplicaSet"), made))
        .see(request("delete", "pods", "p"))
        .breaks(broken);
}
