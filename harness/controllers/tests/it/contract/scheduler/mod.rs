//! Scheduling. Nodes and pods of a case match by the label `case`, so that cases can share a real cluster.

mod nodes;
mod pods;
mod preemption;

use serde_json::{Value, json};

use super::Site;

/// The path of a pod of the case.
pub fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/{{ns}}/pods/{name}")
}

/// The path of a node of the case.
pub fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}-{{ns}}")
}

/// Creates a ready node `NAME-{ns}` with 2 CPUs, 4 GiB and 10 pods in zone a, with this change.
pub async fn node(site: &Site, name: &str, change: Value) {
    let amounts = json!({ "cpu": "2", "memory": "4Gi", "pods": "10" });
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("{name}-{{ns}}"),
            "labels": {
                "case": "{ns}", "kubernetes.io/hostname": format!("{name}-{{ns}}"),
                "topology.kubernetes.io/zone": "a",
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
        },
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready" }],
        },
    });
    json_patch::merge(&mut node, &change);
    site.create(node).await;
    site.until_it(
        &node_path(name),
        "without the taint of nodes that are not ready",
        |node| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints
                .iter()
                .all(|taint| taint["key"] != "node.kubernetes.io/not-ready")
        },
    )
    .await;
}

/// Creates a pod for the case's nodes, with this change.
pub async fn pod(site: &Site, name: &str, change: Value) {
    site.create(pod_object(name, change)).await;
}

/// The pod that [`pod`] creates.
pub fn pod_object(name: &str, change: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "nodeSelector": { "case": "{ns}" }, "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "c", "image": "example.com/i:1" }],
        },
    });
    json_patch::merge(&mut pod, &change);
    pod
}

/// A change of a pod that requests these amounts.
pub fn requests(amounts: Value) -> Value {
    json!({ "spec": { "containers": [{ "name": "c", "image": "example.com/i:1", "resources": { "requests": amounts } }] } })
}

/// Waits until a pod has a node; returns its name without the case's namespace.
pub async fn node_of(site: &Site, name: &str) -> String {
    let pod = site
        .until_it(&pod_path(name), "on a node", |pod| pod["spec"]["nodeName"].is_string())
        .await;
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    node.trim_end_matches(&format!("-{}", site.namespace())).to_owned()
}

/// The condition `PodScheduled` of a pod.
pub fn scheduled(pod: &Value) -> &Value {
    let conditions = pod["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "PodScheduled"));
    found.unwrap_or(&Value::Null)
}

/// Waits until a pod is unschedulable for this reason; returns the complete message.
pub async fn refused(site: &Site, name: &str, why: &str) -> String {
    let pod = site
        .until_it(&pod_path(name), why, |pod| {
            let condition = scheduled(pod);
            condition["status"] == "False"
                && condition["reason"] == "Unschedulable"
                && condition["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(why))
        })
        .await;
    scheduled(&pod)["message"].as_str().unwrap().to_owned()
}

/// Deletes a pod immediately.
pub async fn end(site: &Site, name: &str) {
    site.delete(&pod_path(name), json!({ "gracePeriodSeconds": 0 })).await;
}
