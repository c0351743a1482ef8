//! Node resources, taints and selectors.

use serde_json::{Value, json};

use super::{end, node, node_of, node_path, pod, pod_path, refused, requests, scheduled};
use crate::contract::Site;
use crate::contract::contract;

#[test]
fn a_pod_is_scheduled_with_an_event() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "p", json!({})).await;
        assert_eq!(node_of(site, "p").await, "n");
        let pod = site.get(&pod_path("p")).await;
        assert_eq!(scheduled(&pod)["status"], "True");
        assert_eq!(pod["metadata"]["generation"], 1);
        assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
        let event = site.until_event("p", "Scheduled").await;
        let namespace = site.namespace();
        assert_eq!(
            event["message"],
            format!("Successfully assigned {namespace}/p to n-{namespace}")
        );
        assert_eq!(event["type"], "Normal");
    });
}

#[test]
fn the_emptier_node_is_chosen() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        node(
            site,
            "b",
            json!({ "status": { "allocatable": { "cpu": "8", "memory": "16Gi" } } }),
        )
        .await;
        pod(site, "p", requests(json!({ "cpu": "1", "memory": "2Gi" }))).await;
        assert_eq!(node_of(site, "p").await, "b");
    });
}

#[test]
fn a_pod_with_too_high_requests_reports_the_insufficient_resource() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "p", requests(json!({ "cpu": "3", "memory": "8Gi" }))).await;
        let message = refused(site, "p", "1 Insufficient cpu, 1 Insufficient memory").await;
        assert!(message.contains("nodes are available: "), "{message}");
        assert!(
            message.contains("no new claims to deallocate, preemption: 0/"),
            "{message}"
        );
        assert!(
            message.ends_with("Preemption is not helpful for scheduling."),
            "{message}"
        );
        let pod = site.get(&pod_path("p")).await;
        assert_eq!(scheduled(&pod)["observedGeneration"], 1);
        assert_eq!(pod["status"]["phase"], "Pending");
        let event = site.until_event("p", "FailedScheduling").await;
        assert_eq!(event["type"], "Warning");
        assert!(event["message"].as_str().unwrap().contains("1 Insufficient cpu"));
    });
}

#[test]
fn a_full_node_gets_a_pod_after_another_is_deleted() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "a", requests(json!({ "cpu": "1500m" }))).await;
        node_of(site, "a").await;
        pod(site, "b", requests(json!({ "cpu": "1" }))).await;
        let message = refused(site, "b", "1 Insufficient cpu").await;
        assert!(
            message.contains("1 No preemption victims found for incoming pod"),
            "{message}"
        );
        end(site, "a").await;
        assert_eq!(node_of(site, "b").await, "n");
    });
}

#[test]
fn a_finished_pod_frees_its_resources() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "a", requests(json!({ "cpu": "2" }))).await;
        node_of(site, "a").await;
        pod(site, "b", requests(json!({ "cpu": "2" }))).await;
        refused(site, "b", "1 Insufficient cpu").await;
        site.set_status(&pod_path("a"), json!({ "phase": "Succeeded" })).await;
        assert_eq!(node_of(site, "b").await, "n");
    });
}

#[test]
fn extended_resources_count() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        let gpu = json!({ "spec": { "containers": [{
            "name": "c", "image": "example.com/i:1", "resources": { "limits": { "example.com/gpu": "1" } },
        }] } });
        pod(site, "p", gpu).await;
        refused(site, "p", "1 Insufficient example.com/gpu").await;
        let amounts = json!({ "cpu": "2", "memory": "4Gi", "pods": "10", "example.com/gpu": "1" });
        site.set_status(&node_path("a"), json!({ "capacity": amounts, "allocatable": amounts }))
            .await;
        assert_eq!(node_of(site, "p").await, "a");
    });
}

#[test]
fn init_containers_and_overhead_count() {
    contract!(async |site: &Site| {
        node(site, "small", json!({})).await;
        let image = "example.com/i:1";
        pod(
            site,
            "p",
            json!({ "spec": {
            "initContainers": [{ "name": "i", "image": image, "resources": { "requests": { "cpu": "3" } } }],
        } }),
        )
        .await;
        refused(site, "p", "1 Insufficient cpu").await;
        node(
            site,
            "big",
            json!({ "status": { "allocatable": { "cpu": "4" }, "capacity": { "cpu": "4" } } }),
        )
        .await;
        assert_eq!(node_of(site, "p").await, "big");
    });
}

#[test]
fn a_node_gets_at_most_its_maximum_number_of_pods() {
    contract!(async |site: &Site| {
        node(site, "n", json!({ "status": { "allocatable": { "pods": "1" } } })).await;
        pod(site, "a", json!({})).await;
        node_of(site, "a").await;
        pod(site, "b", json!({})).await;
        refused(site, "b", "1 Too many pods").await;
    });
}

#[test]
fn a_taint_excludes_pods_until_it_is_removed() {
    contract!(async |site: &Site| {
        let taints = json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }]);
        node(site, "n", json!({ "spec": { "taints": taints } })).await;
        pod(
            site,
            "tolerant",
            json!({ "spec": { "tolerations": [{ "key": "k", "operator": "Equal", "value": "v" }] } }),
        )
        .await;
        assert_eq!(node_of(site, "tolerant").await, "n");
        pod(site, "p", json!({})).await;
        refused(site, "p", "node(s) had untolerated taint(s)").await;
        site.merge(&node_path("n"), json!({ "spec": { "taints": null } })).await;
        assert_eq!(node_of(site, "p").await, "n");
    });
}

#[test]
fn a_no_execute_taint_excludes_new_pods_too() {
    contract!(async |site: &Site| {
        let taints = json!([{ "key": "k", "effect": "NoExecute" }]);
        node(site, "n", json!({ "spec": { "taints": taints } })).await;
        pod(site, "p", json!({})).await;
        refused(site, "p", "node(s) had untolerated taint(s)").await;
    });
}

#[test]
fn a_node_with_a_prefer_no_schedule_taint_is_chosen_last() {
    contract!(async |site: &Site| {
        let taints = json!([{ "key": "k", "effect": "PreferNoSchedule" }]);
        node(site, "a", json!({ "spec": { "taints": taints } })).await;
        node(site, "b", json!({})).await;
        pod(site, "p", json!({})).await;
        assert_eq!(node_of(site, "p").await, "b");
    });
}

#[test]
fn a_cordoned_node_gets_no_pods_until_it_is_uncordoned() {
    contract!(async |site: &Site| {
        node(site, "n", json!({ "spec": { "unschedulable": true } })).await;
        pod(site, "p", json!({})).await;
        let message = refused(site, "p", "node(s) were unschedulable").await;
        assert!(
            message.contains("Preemption is not helpful for scheduling"),
            "{message}"
        );
        site.merge(&node_path("n"), json!({ "spec": { "unschedulable": null } }))
            .await;
        assert_eq!(node_of(site, "p").await, "n");
    });
}

#[test]
fn a_node_selector_waits_for_a_node_with_the_label() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "p", json!({ "spec": { "nodeSelector": { "disk": "fast" } } })).await;
        refused(site, "p", "node(s) didn't match Pod's node affinity/selector").await;
        site.merge(&node_path("n"), json!({ "metadata": { "labels": { "disk": "fast" } } }))
            .await;
        assert_eq!(node_of(site, "p").await, "n");
    });
}

#[test]
fn pending_pods_are_scheduled_on_a_new_node() {
    contract!(async |site: &Site| {
        node(site, "full", json!({ "status": { "allocatable": { "pods": "0" } } })).await;
        for name in ["a", "b"] {
            pod(site, name, json!({})).await;
            refused(site, name, "1 Too many pods").await;
        }
        node(site, "new", json!({})).await;
        for name in ["a", "b"] {
            assert_eq!(node_of(site, name).await, "new");
        }
    });
}

fn required(term: Value) -> Value {
    let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    json!({ "spec": { "affinity": { "nodeAffinity": terms } } })
}

#[test]
fn node_affinity_by_labels_is_kept() {
    contract!(async |site: &Site| {
        node(site, "a", json!({ "metadata": { "labels": { "cores": "4" } } })).await;
        node(site, "b", json!({ "metadata": { "labels": { "cores": "16" } } })).await;
        let expressions = [
            ("gt", json!({ "key": "cores", "operator": "Gt", "values": ["8"] }), "b"),
            ("lt", json!({ "key": "cores", "operator": "Lt", "values": ["8"] }), "a"),
            ("in", json!({ "key": "cores", "operator": "In", "values": ["16"] }), "b"),
            (
                "notin",
                json!({ "key": "cores", "operator": "NotIn", "values": ["16"] }),
                "a",
            ),
        ];
        for (name, expression, expected) in expressions {
            pod(site, name, required(json!({ "matchExpressions": [expression] }))).await;
            assert_eq!(node_of(site, name).await, expected, "{name}");
        }
    });
}

#[test]
fn node_affinity_by_name_is_kept() {
    contract!(async |site: &Site| {
        for name in ["a", "b"] {
            node(site, name, json!({})).await;
        }
        let named = |name: &str| {
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [format!("{name}-{{ns}}")] });
            required(json!({ "matchFields": [field] }))
        };
        pod(site, "p", named("b")).await;
        assert_eq!(node_of(site, "p").await, "b");
        pod(site, "q", named("missing")).await;
        refused(site, "q", "node(s) didn't satisfy plugin(s) [NodeAffinity]").await;
    });
}

#[test]
fn a_preferred_node_is_chosen_if_it_fits() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        node(site, "b", json!({ "metadata": { "labels": { "disk": "fast" } } })).await;
        let preferred = json!({ "spec": { "affinity": { "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "preference": { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["fast"] }] },
            }],
        } } } });
        pod(site, "p", preferred.clone()).await;
        assert_eq!(node_of(site, "p").await, "b");
        site.merge(&node_path("b"), json!({ "spec": { "unschedulable": true } }))
            .await;
        site.until_it(&node_path("b"), "tainted", |node| node["spec"]["taints"].is_array())
            .await;
        pod(site, "q", preferred).await;
        assert_eq!(node_of(site, "q").await, "a");
    });
}
