//! I6: pods leave by eviction, and a VM is not deleted before its pods have left.

use super::*;

fn pod(owner: &str) -> Value {
    json!({
        "metadata": { "name": "p", "namespace": "shop", "ownerReferences": [{ "kind": owner, "controller": true }] },
        "spec": { "nodeName": "n" },
        "status": { "phase": "Running" },
    })
}

/// A machine that is deleted while a pod runs on its Node, without a disturbance.
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
#[case::an_evictable_pod(json!({}), "ReplicaSet", json!({}), Some("I6"))]
#[case::a_pod_of_a_daemon_set(json!({}), "DaemonSet", json!({}), None)]
#[case::the_label(json!({ "metadata": { "labels": { "force-deletion": "True" } } }), "ReplicaSet", json!({}), None)]
#[case::a_dead_node(json!({}), "ReplicaSet", json!({ "status": { "conditions": [
    { "type": "Ready", "status": "Unknown", "lastTransitionTime": "1969-12-31T23:00:00Z" }] } }), None)]
fn a_vm_waits_for_its_pods(
    #[case] change: Value,
    #[case] owner: &str,
    #[case] node_change: Value,
    #[case] violated: Option<&str>,
) {
    draining(change, owner, node_change)
        .observe(call("DeleteMachine", ""))
        .violates(violated);
}

#[rstest]
#[case::not_drained_and_unobserved(json!({}), false, None)]
#[case::not_drained(json!({}), true, Some("I6"))]
#[case::being_drained(json!({ "spec": { "unschedulable": true } }), false, Some("I6"))]
fn a_vm_waits_for_the_pods_of_a_node(#[case] change: Value, #[case] undisturbed: bool, #[case] violated: Option<&str>) {
    let story = if undisturbed {
        Story::new()
    } else {
        Story::new().disturbed()
    };
    drained(story, json!({}), "ReplicaSet", change)
        .observe(call("DeleteMachine", ""))
        .violates(violated);
}

#[rstest]
#[case::deleted("delete", "pods", Some("I6"))]
#[case::evicted("create", "pods/eviction", None)]
fn a_pod_leaves_by_eviction(#[case] verb: &str, #[case] resource: &str, #[case] violated: Option<&str>) {
    draining(json!({}), "ReplicaSet", json!({}))
        .observe(request(verb, resource, "p"))
        .violates(violated);
}

#[rstest]
#[case::as_old_as_the_request("1970-01-01T00:00:00Z", None)]
#[case::older("1969-12-31T23:00:00Z", Some("I6"))]
fn a_deletion_does_not_concern_a_pod_that_was_created_at_that_moment(
    #[case] created: &str,
    #[case] violated: Option<&str>,
) {
    let created = json!({ "metadata": { "creationTimestamp": created } });
    draining(json!({}), "ReplicaSet", json!({}))
        .apply("Pod", with(pod("ReplicaSet"), created))
        .observe(request("delete", "pods", "p"))
        .violates(violated);
}
