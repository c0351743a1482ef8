//! Deletion of pods: taint eviction and pod garbage collection.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, contract};

const POD: &str = "/api/v1/namespaces/{ns}/pods/p";
const NODE: &str = "/api/v1/nodes/{ns}";
const TAINT: &str = "example.com/bad";

async fn node(site: &Site, ready: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "{ns}", "labels": { "topology.kubernetes.io/zone": "{ns}" } },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    site.create(node).await;
    if ready == "True" {
        site.until_it(NODE, "has no taints", |node| node["spec"]["taints"].is_null())
            .await;
    }
}

async fn taint(site: &Site, key: &str, effect: &str) {
    let taint = json!({ "key": key, "value": "v", "effect": effect });
    site.merge(NODE, json!({ "spec": { "taints": [taint] } })).await;
}

fn pod(extra: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "nodeName": "{ns}", "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 600 },
    });
    json_patch::merge(&mut pod, &extra);
    pod
}

fn tolerating(seconds: Option<i64>) -> Value {
    let mut toleration = json!({ "key": TAINT, "operator": "Exists", "effect": "NoExecute" });
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    pod(json!({ "spec": { "tolerations": [toleration] } }))
}

fn is_deleting(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn disruption(pod: &Value) -> Option<&Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget")
}

#[test]
fn a_pod_without_a_toleration_is_evicted_immediately() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(pod(json!({}))).await;
        taint(site, TAINT, "NoExecute").await;
        let pod = site.until_it(POD, "is deleted", is_deleting).await;
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 600);
        let condition = disruption(&pod).unwrap();
        assert_eq!(
            (&condition["status"], &condition["reason"], &condition["message"]),
            (
                &json!("True"),
                &json!("DeletionByTaintManager"),
                &json!("Taint manager: deleting due to NoExecute taint")
            )
        );
        assert_eq!(condition["observedGeneration"], 1);
        let event = site.until_event("p", "TaintManagerEviction").await;
        assert_eq!(
            event["message"],
            format!("Marking for deletion Pod {}/p", site.namespace())
        );
        assert_eq!(event["type"], "Normal");
    });
}

#[test]
fn a_pod_bound_to_a_tainted_node_is_evicted() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        taint(site, TAINT, "NoExecute").await;
        site.create(pod(json!({}))).await;
        site.until_it(POD, "is deleted", is_deleting).await;
    });
}

#[test]
fn a_pod_with_an_unlimited_toleration_stays() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(tolerating(None)).await;
        taint(site, TAINT, "NoExecute").await;
        let deleting = |pod: Option<&Value>| pod.is_none_or(is_deleting);
        site.never(POD, Duration::from_secs(3), "is deleted", deleting).await;
    });
}

#[test]
fn a_pod_is_evicted_after_its_toleration_seconds() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(tolerating(Some(3))).await;
        taint(site, TAINT, "NoExecute").await;
        let deleting = |pod: Option<&Value>| pod.is_none_or(is_deleting);
        site.never(POD, Duration::from_secs(2), "is deleted too early", deleting)
            .await;
        site.until_it(POD, "is deleted", is_deleting).await;
    });
}

#[test]
fn a_taint_removed_in_time_cancels_the_eviction() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(tolerating(Some(3))).await;
        taint(site, TAINT, "NoExecute").await;
        site.pass(Duration::from_secs(1)).await;
        site.merge(NODE, json!({ "spec": { "taints": null } })).await;
        let event = site.until_event("p", "TaintManagerEviction").await;
        assert_eq!(
            event["message"],
            format!("Cancelling deletion of Pod {}/p", site.namespace())
        );
        let deleting = |pod: Option<&Value>| pod.is_none_or(is_deleting);
        site.never(POD, Duration::from_secs(4), "is deleted", deleting).await;
    });
}

#[test]
fn a_toleration_added_in_time_cancels_the_eviction() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(tolerating(Some(4))).await;
        taint(site, TAINT, "NoExecute").await;
        site.pass(Duration::from_secs(1)).await;
        let pod = site.get(POD).await;
        let mut tolerations = pod["spec"]["tolerations"].as_array().unwrap().clone();
        tolerations.push(json!({ "operator": "Exists", "effect": "NoExecute" }));
        let added = site.merge(POD, json!({ "spec": { "tolerations": tolerations } })).await;
        assert!(!is_deleting(&added));
        // The first matching toleration counts, and it still ends.
        site.until_it(POD, "is deleted", is_deleting).await;
    });
}

#[test]
fn other_effects_evict_no_pods() {
    contract!(async |site: &Site| {
        node(site, "True").await;
        site.create(pod(json!({}))).await;
        taint(site, TAINT, "NoSchedule").await;
        let deleting = |pod: Option<&Value>| pod.is_none_or(is_deleting);
        site.never(POD, Duration::from_secs(2), "is deleted", deleting).await;
    });
}

#[test]
fn a_pod_deleted_before_it_was_scheduled_is_removed() {
    contract!(async |site: &Site| {
        let gate = json!({ "spec": { "nodeName": null, "schedulingGates": [{ "name": "example.com/wait" }] } });
        site.create(pod(gate)).await;
        site.merge(POD, json!({ "metadata": { "finalizers": ["example.com/hold"] } }))
            .await;
        site.delete(POD, Value::Null).await;
        let pod = site
            .until_it(POD, "has failed", |pod| pod["status"]["phase"] == "Failed")
            .await;
        assert!(disruption(&pod).is_none(), "{pod:#}");
        site.merge(POD, json!({ "metadata": { "finalizers": null } })).await;
        site.until_gone(POD).await;
    });
}

#[test]
fn a_terminating_pod_on_an_out_of_service_node_is_removed_immediately() {
    contract!(async |site: &Site| {
        node(site, "False").await;
        site.create(pod(json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } })))
            .await;
        site.delete(POD, Value::Null).await;
        let taints =
            json!([{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }]);
        site.merge(NODE, json!({ "spec": { "taints": taints } })).await;
        site.until_gone(POD).await;
    });
}

#[test]
fn a_pod_of_a_nonexistent_node_is_removed_after_the_quarantine() {
    contract!(async |site: &Site| {
        site.create(pod(json!({ "metadata": { "finalizers": ["example.com/hold"] } })))
            .await;
        let begun = site.now();
        let gone = |pod: Option<&Value>| pod.is_none_or(|pod| pod["status"]["phase"] == "Failed");
        site.never(POD, Duration::from_secs(38), "is deleted too early", gone)
            .await;
        let pod = site
            .until_it(POD, "has failed", |pod| pod["status"]["phase"] == "Failed")
            .await;
        assert!(site.now().duration_since(begun).as_secs() <= 85);
        let condition = disruption(&pod).unwrap();
        assert_eq!(
            (&condition["reason"], &condition["message"]),
            (&json!("DeletionByPodGC"), &json!("PodGC: node no longer exists"))
        );
        assert_eq!(condition["observedGeneration"], 1);
        assert_eq!(pod["status"]["observedGeneration"], 1);
        site.merge(POD, json!({ "metadata": { "finalizers": null } })).await;
        site.until_gone(POD).await;
    });
}
