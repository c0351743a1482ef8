//! Pods: defaults, updates, eviction and binding.

use serde_json::{Value, json};

use super::contract;

const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";

async fn running(site: &super::Site, name: &str) {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": "x" } },
        "spec": { "nodeName": "n", "terminationGracePeriodSeconds": 0, "containers": [{ "name": "c", "image": "i" }] },
    });
    site.step("POST", PODS, pod).await;
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let headers = [("content-type", "application/merge-patch+json")];
    assert_eq!(
        site.quietly("PATCH", &format!("{PODS}/{name}/status"), &headers, status)
            .await
            .code,
        200
    );
}

async fn budget(site: &super::Site, name: &str, status: Value) {
    let budget = json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } },
    });
    site.step("POST", BUDGETS, budget).await;
    let headers = [("content-type", "application/merge-patch+json")];
    let answer = site
        .quietly(
            "PATCH",
            &format!("{BUDGETS}/{name}/status"),
            &headers,
            json!({ "status": status }),
        )
        .await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

fn eviction(name: &str) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": "{ns}" } })
}

#[test]
fn a_pod_gets_its_defaults() {
    contract!(async |site: &super::Site| {
        let container = json!({
            "name": "c", "image": "i:1",
            "ports": [{ "containerPort": 80 }],
            "resources": { "limits": { "cpu": "1.5", "memory": "1024Mi" } },
            "livenessProbe": { "httpGet": { "port": 80 } },
            "env": [{ "name": "E", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        });
        let volumes = json!([
            { "name": "e" },
            { "name": "s", "secret": { "secretName": "s" } },
            { "name": "h", "hostPath": { "path": "/x" } },
        ]);
        site.post(
            PODS,
            json!({ "metadata": { "name": "p" }, "spec": { "containers": [container], "volumes": volumes } }),
        )
        .await;
    });
}

#[test]
fn a_pod_is_checked() {
    contract!(async |site: &super::Site| {
        for spec in [
            json!({}),
            json!({ "containers": [{}] }),
            json!({ "containers": [{ "name": "c", "image": "i" }, { "name": "c", "image": "i" }] }),
            json!({ "containers": [{ "name": "C", "image": "i", "imagePullPolicy": "Other" }] }),
            json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } }] }),
            json!({ "containers": [{ "name": "c", "image": "i" }], "restartPolicy": "Other" }),
            json!({ "containers": [{ "name": "c", "image": "i", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }] }),
            json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "x" } } }] }),
        ] {
            site.post(PODS, json!({ "metadata": { "name": "p" }, "spec": spec }))
                .await;
        }
    });
}

#[test]
fn few_fields_of_a_pod_are_mutable() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        let path = format!("{PODS}/p");
        let kind = "strategic-merge-patch";
        site.patch(
            &path,
            kind,
            json!({ "spec": { "containers": [{ "name": "c", "image": "j" }] } }),
        )
        .await;
        site.patch(&path, kind, json!({ "spec": { "activeDeadlineSeconds": 50 } }))
            .await;
        let refused = site
            .quietly(
                "PATCH",
                &path,
                &[("content-type", "application/merge-patch+json")],
                json!({ "spec": { "nodeName": "m" } }),
            )
            .await;
        site.note(&format!(
            "{} {}",
            refused.code,
            refused.body["message"]
                .as_str()
                .unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default()
        ));
        site.merge(&path, json!({ "status": { "phase": "Failed" } })).await;
        site.merge(&format!("{path}/status"), json!({ "spec": { "activeDeadlineSeconds": 5 }, "metadata": { "labels": { "new": "1" } }, "status": { "phase": "Failed" } })).await;
    });
}

#[test]
fn a_budget_without_disruptions_blocks_an_eviction() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        budget(site, "b", json!({ "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 })).await;
        site.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    });
}

#[test]
fn a_budget_that_is_not_yet_observed_blocks_an_eviction() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        budget(site, "b", json!({ "observedGeneration": 0, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1 })).await;
        site.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    });
}

#[test]
fn an_eviction_decrements_the_budget() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        running(site, "q").await;
        budget(site, "b", json!({ "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 })).await;
        site.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await;
        site.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
        site.get(&format!("{BUDGETS}/b")).await;
        site.post(&format!("{PODS}/q/eviction"), eviction("q")).await;
        site.get(&format!("{PODS}/p")).await;
    });
}

#[test]
fn an_eviction_adds_a_condition_before_the_deletion() {
    contract!(async |site: &super::Site| {
        let pod = json!({
            "metadata": { "name": "p", "finalizers": ["example.com/hold"] },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
        });
        let created = site.step("POST", PODS, pod).await;
        site.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await;
        site.get(&format!("{PODS}/p")).await;
        let mut precise = eviction("p");
        let revision = created.body["metadata"]["resourceVersion"].clone();
        precise["deleteOptions"] = json!({ "preconditions": { "resourceVersion": revision } });
        let path = format!("{PODS}/p/eviction");
        site.post(&path, precise).await;
        site.get(&format!("{PODS}/p")).await;
        // The second eviction does not add the condition again.
        site.post(&path, eviction("p")).await;
        site.get(&format!("{PODS}/p")).await;
        site.quietly(
            "PATCH",
            &format!("{PODS}/p"),
            &[("content-type", "application/merge-patch+json")],
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    });
}

#[test]
fn a_pod_with_two_budgets_cannot_be_evicted() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        for name in ["b", "c"] {
            budget(site, name, json!({ "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1 })).await;
        }
        site.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    });
}

#[test]
fn an_empty_selector_of_a_budget_matches_all_pods_and_a_missing_one_none() {
    contract!(async |site: &super::Site| {
        running(site, "p").await;
        for spec in [
            json!({ "minAvailable": 1, "selector": {} }),
            json!({ "minAvailable": 1, "selector": { "matchLabels": {} } }),
            json!({ "minAvailable": 1 }),
        ] {
            let budget = json!({ "metadata": { "name": "b" }, "spec": spec });
            site.step("POST", BUDGETS, budget).await;
            site.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await;
            site.step("DELETE", &format!("{BUDGETS}/b"), Value::Null).await;
        }
    });
}

#[test]
fn an_eviction_without_a_budget_deletes_with_grace() {
    contract!(async |site: &super::Site| {
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] } });
        site.step("POST", PODS, pod).await;
        site.post(&format!("{PODS}/p/eviction"), eviction("q")).await;
        site.post(&format!("{PODS}/missing/eviction"), eviction("missing"))
            .await;
        site.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    });
}

#[test]
fn a_pod_is_bound_once() {
    contract!(async |site: &super::Site| {
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        site.step("POST", PODS, pod).await;
        let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } });
        site.post(&format!("{PODS}/p/binding"), binding.clone()).await;
        site.get(&format!("{PODS}/p")).await;
        site.post(&format!("{PODS}/p/binding"), binding).await;
        site.post(&format!("{PODS}/missing/binding"), json!({ "target": { "name": "n" } }))
            .await;
    });
}
