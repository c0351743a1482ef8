//! The status of disruption budgets.

use std::time::Duration;

use serde_json::{Value, json};

use super::garbage_collector::widget;
use super::{Site, contract};

const BUDGET: &str = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/b";

async fn budget(site: &Site, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("selector").is_none() {
        spec["selector"] = json!({ "matchLabels": { "app": "x" } });
    }
    let budget =
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" }, "spec": spec });
    site.create(budget).await
}

/// A pod on a node that does not need to exist.
async fn pod(site: &Site, name: &str, ready: bool, owner: Option<&Value>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "x" } },
        "spec": { "nodeName": "{ns}", "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
    });
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": true,
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        }]);
    }
    site.create(pod).await
}

async fn node(site: &Site) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "{ns}", "labels": { "topology.kubernetes.io/zone": "{ns}" } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    site.create(node).await;
}

/// A controller with a scale that creates no pods itself.
async fn scaled(site: &Site, replicas: i32) -> Value {
    widget(site, "scaled", json!({ "spec": { "replicas": replicas } })).await
}

/// Waits for `current/desired/expected/allowed`. kube-controller-manager does not notice when changed labels
/// remove a pod from a budget, nor when a resource gets a scale; it re-evaluates when the budget changes.
async fn until(site: &Site, wanted: &str) -> Value {
    site.until_noticed(BUDGET, wanted, |budget| {
        let status = &budget["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(-1);
        let actual = format!(
            "{}/{}/{}/{}",
            number("currentHealthy"),
            number("desiredHealthy"),
            number("expectedPods"),
            number("disruptionsAllowed")
        );
        actual == wanted && status["observedGeneration"] == budget["metadata"]["generation"]
    })
    .await
}

fn condition(budget: &Value) -> String {
    let condition = &budget["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("type"), text("status"), text("reason"))
}

#[test]
fn min_available_protects_that_many_pods() {
    contract!(async |site: &Site| {
        node(site).await;
        for name in ["p1", "p2", "p3"] {
            pod(site, name, true, None).await;
        }
        budget(site, json!({ "minAvailable": 2 })).await;
        let budget = until(site, "3/2/3/1").await;
        assert_eq!(condition(&budget), "DisruptionAllowed True SufficientPods");
    });
}

#[test]
fn pods_that_are_not_ready_do_not_count() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        pod(site, "p2", false, None).await;
        budget(site, json!({ "minAvailable": 1 })).await;
        let budget = until(site, "1/1/2/0").await;
        assert_eq!(condition(&budget), "DisruptionAllowed False InsufficientPods");
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        site.set_status("/api/v1/namespaces/{ns}/pods/p2", ready).await;
        until(site, "2/1/2/1").await;
    });
}

#[test]
fn a_budget_that_selects_no_pods_allows_no_disruptions() {
    contract!(async |site: &Site| {
        budget(site, json!({ "minAvailable": 1 })).await;
        let budget = until(site, "0/1/0/0").await;
        assert_eq!(condition(&budget), "DisruptionAllowed False InsufficientPods");
        site.until_event("b", "NoPods").await;
    });
}

#[test]
fn an_empty_selector_selects_every_pod() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        budget(site, json!({ "minAvailable": 0, "selector": {} })).await;
        until(site, "1/0/1/1").await;
    });
}

#[test]
fn a_percentage_of_a_scale_rounds_up() {
    contract!(async |site: &Site| {
        node(site).await;
        let owner = scaled(site, 3).await;
        for name in ["p1", "p2", "p3"] {
            pod(site, name, true, Some(&owner)).await;
        }
        budget(site, json!({ "minAvailable": "50%" })).await;
        until(site, "3/2/3/1").await;
    });
}

#[test]
fn a_max_unavailable_percentage_rounds_up_too() {
    contract!(async |site: &Site| {
        node(site).await;
        let owner = scaled(site, 3).await;
        for name in ["p1", "p2", "p3"] {
            pod(site, name, true, Some(&owner)).await;
        }
        budget(site, json!({ "maxUnavailable": "50%" })).await;
        until(site, "3/1/3/2").await;
    });
}

#[test]
fn missing_pods_consume_the_budget() {
    contract!(async |site: &Site| {
        node(site).await;
        let owner = scaled(site, 3).await;
        pod(site, "p1", true, Some(&owner)).await;
        pod(site, "p2", true, Some(&owner)).await;
        budget(site, json!({ "maxUnavailable": 1 })).await;
        until(site, "2/2/3/0").await;
        pod(site, "p3", true, Some(&owner)).await;
        until(site, "3/2/3/1").await;
    });
}

#[test]
fn pods_without_a_controller_count_as_zero_and_are_reported() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        budget(site, json!({ "maxUnavailable": 1 })).await;
        until(site, "1/0/0/0").await;
        site.until_event("b", "UnmanagedPods").await;
    });
}

#[test]
fn a_budget_fails_for_a_controller_without_a_scale() {
    contract!(async |site: &Site| {
        node(site).await;
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" } });
        let owner = site.create(map).await;
        pod(site, "p1", true, Some(&owner)).await;
        budget(site, json!({ "maxUnavailable": 1 })).await;
        let failed = |budget: &Value| condition(budget) == "DisruptionAllowed False SyncFailed";
        let budget = site.until_it(BUDGET, "fails", failed).await;
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        site.until_event("b", "CalculateExpectedPodCountFailed").await;
    });
}

#[test]
fn a_change_of_the_budget_is_observed() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        pod(site, "p2", true, None).await;
        budget(site, json!({ "minAvailable": 2 })).await;
        until(site, "2/2/2/0").await;
        site.merge(BUDGET, json!({ "spec": { "minAvailable": 1 } })).await;
        let budget = until(site, "2/1/2/1").await;
        assert_eq!(budget["status"]["observedGeneration"], 2);
    });
}

#[test]
fn an_eviction_consumes_the_budget_until_the_pod_is_gone() {
    contract!(async |site: &Site| {
        node(site).await;
        for name in ["p1", "p2", "p3"] {
            pod(site, name, true, None).await;
        }
        budget(site, json!({ "minAvailable": 2 })).await;
        until(site, "3/2/3/1").await;
        let eviction =
            |name: &str| json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        site.post("/api/v1/namespaces/{ns}/pods/p1/eviction", eviction("p1"))
            .await
            .unwrap();
        let refusal = site
            .post("/api/v1/namespaces/{ns}/pods/p2/eviction", eviction("p2"))
            .await
            .unwrap_err();
        assert_eq!(refusal.code, 429, "{refusal:?}");
        until(site, "2/2/3/0").await;
        site.delete("/api/v1/namespaces/{ns}/pods/p1", json!({ "gracePeriodSeconds": 0 }))
            .await;
        let budget = until(site, "2/2/2/0").await;
        assert!(budget["status"]["disruptedPods"].is_null(), "{budget:#}");
    });
}

#[test]
fn a_terminating_pod_is_not_healthy() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        pod(site, "p2", true, None).await;
        budget(site, json!({ "minAvailable": 1 })).await;
        until(site, "2/1/2/1").await;
        site.delete("/api/v1/namespaces/{ns}/pods/p1", Value::Null).await;
        until(site, "1/1/2/0").await;
    });
}

#[test]
fn a_pod_whose_labels_change_leaves_the_budget() {
    contract!(async |site: &Site| {
        node(site).await;
        pod(site, "p1", true, None).await;
        pod(site, "p2", true, None).await;
        budget(site, json!({ "minAvailable": 1 })).await;
        until(site, "2/1/2/1").await;
        site.merge(
            "/api/v1/namespaces/{ns}/pods/p2",
            json!({ "metadata": { "labels": { "app": "y" } } }),
        )
        .await;
        until(site, "1/1/1/0").await;
    });
}

#[test]
fn an_eviction_without_a_deletion_expires_after_two_minutes() {
    contract!(async |site: &Site| {
        if !site.is_simulated() {
            return;
        }
        // On a node the silence of its kubelet would make it not ready first.
        let waiting = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p1", "labels": { "app": "x" } },
            "spec": { "schedulingGates": [{ "name": "example.com/wait" }], "containers": [{ "name": "c", "image": "i" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        site.create(waiting).await;
        budget(site, json!({ "minAvailable": 0 })).await;
        until(site, "1/0/1/1").await;
        let now = site.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        site.set_status(BUDGET, json!({ "disruptedPods": { "p1": now } })).await;
        until(site, "0/0/1/0").await;
        site.pass(Duration::from_secs(118)).await;
        until(site, "0/0/1/0").await;
        until(site, "1/0/1/1").await;
        site.until_event("p1", "NotDeleted").await;
    });
}
