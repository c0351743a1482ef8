//! Dry runs of every verb: the response of the real request, and nothing stored.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{DEPLOYMENTS, MAPS, PODS, contract, deployment, pod};

#[test]
fn of_a_replacement() {
    contract!(async |site: &Site| {
        let before = site.config_map("a", "1").await;
        let map = json!({ "metadata": { "name": "a" }, "data": { "key": "2" } });
        site.put(&format!("{MAPS}/a?dryRun=All"), map.clone()).await;
        let stale = json!({ "metadata": { "name": "a", "resourceVersion": "1" } });
        site.put(&format!("{MAPS}/a?dryRun=All"), stale).await;
        let after = site.get(&format!("{MAPS}/a")).await;
        site.note(&format!("unchanged: {}", before.revision() == after.revision()));
    });
}

#[test]
fn of_a_status_and_a_scale() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a");
        let status = json!({ "status": { "replicas": 3, "observedGeneration": 1 } });
        let answer = site.merge(&format!("{path}/status?dryRun=All"), status).await;
        site.note(&answer.body["status"].to_string());
        site.merge(
            &format!("{path}/scale?dryRun=All"),
            json!({ "spec": { "replicas": 4 } }),
        )
        .await;
        let stored = site.quietly("GET", &path, &[], Value::Null).await.body;
        site.note(&format!("{} {}", stored["spec"]["replicas"], stored["status"]));
    });
}

#[test]
fn of_a_deleted_collection() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        site.config_map("b", "1").await;
        site.step("DELETE", &format!("{MAPS}?labelSelector=value&dryRun=All"), Value::Null)
            .await;
        site.step(
            "DELETE",
            &format!("{MAPS}?labelSelector=value"),
            json!({ "dryRun": ["All"] }),
        )
        .await;
        let left = site
            .quietly("GET", &format!("{MAPS}?labelSelector=value"), &[], Value::Null)
            .await;
        site.note(&format!("{} are left", left.body["items"].as_array().unwrap().len()));
    });
}

#[test]
fn of_a_deletion_with_options_in_the_body() {
    contract!(async |site: &Site| {
        let map = json!({ "metadata": { "name": "a", "finalizers": ["x.io/a"] } });
        site.step("POST", MAPS, map).await;
        let path = format!("{MAPS}/a");
        site.delete(&path, json!({ "dryRun": ["All"], "propagationPolicy": "Foreground" }))
            .await;
        site.get(&path).await;
    });
}

#[test]
fn of_a_graceful_deletion() {
    contract!(async |site: &Site| {
        let mut running = pod("a");
        running["spec"]["nodeName"] = "n".into();
        site.step("POST", PODS, running).await;
        let path = format!("{PODS}/a");
        for seconds in [json!(30), json!(5)] {
            let options = json!({ "dryRun": ["All"], "gracePeriodSeconds": seconds });
            let answer = site.quietly("DELETE", &path, &[], options).await;
            let metadata = &answer.body["metadata"];
            site.note(&format!(
                "{seconds}: {} {} {}",
                answer.code, answer.body["kind"], metadata["deletionGracePeriodSeconds"]
            ));
        }
        let stored = site.quietly("GET", &path, &[], Value::Null).await;
        site.note(&format!(
            "{} {}",
            stored.code, stored.body["metadata"]["deletionTimestamp"]
        ));
    });
}

#[test]
fn of_a_binding_and_an_eviction() {
    contract!(async |site: &Site| {
        site.step("POST", PODS, pod("a")).await;
        let binding = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "n" } });
        site.post(&format!("{PODS}/a/binding?dryRun=All"), binding).await;
        let eviction = json!({ "metadata": { "name": "a" } });
        site.post(&format!("{PODS}/a/eviction?dryRun=All"), eviction).await;
        let options = json!({ "metadata": { "name": "a" }, "deleteOptions": { "dryRun": ["All"] } });
        site.post(&format!("{PODS}/a/eviction"), options).await;
        let stored = site.quietly("GET", &format!("{PODS}/a"), &[], Value::Null).await;
        site.note(&format!("{} {}", stored.code, stored.body["spec"]["nodeName"]));
    });
}

#[test]
fn of_an_eviction_that_a_budget_forbids() {
    contract!(async |site: &Site| {
        let mut running = pod("a");
        running["metadata"]["labels"] = json!({ "app": "x" });
        running["spec"]["nodeName"] = "n".into();
        site.step("POST", PODS, running).await;
        site.merge(&format!("{PODS}/a/status"), json!({ "status": { "phase": "Running" } }))
            .await;
        let budgets = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";
        let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } });
        site.step("POST", budgets, json!({ "metadata": { "name": "b" }, "spec": spec }))
            .await;
        let status = |allowed: u32| {
            json!({ "status": {
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
            } })
        };
        for allowed in [0, 1] {
            site.quietly(
                "PATCH",
                &format!("{budgets}/b/status"),
                &[("content-type", "application/merge-patch+json")],
                status(allowed),
            )
            .await;
            let eviction = json!({ "metadata": { "name": "a" }, "deleteOptions": { "dryRun": ["All"] } });
            site.post(&format!("{PODS}/a/eviction"), eviction).await;
            let budget = site
                .quietly("GET", &format!("{budgets}/b"), &[], Value::Null)
                .await
                .body;
            site.note(&format!(
                "{allowed}: {} disruptions are left",
                budget["status"]["disruptionsAllowed"]
            ));
        }
    });
}

#[test]
fn of_generated_names_and_allocated_values() {
    contract!(async |site: &Site| {
        let generated = json!({ "metadata": { "generateName": "pre-" } });
        let answer = site
            .quietly("POST", &format!("{MAPS}?dryRun=All"), &[], generated)
            .await;
        let name = answer.body["metadata"]["name"].as_str().unwrap_or_default();
        site.note(&format!("{} length {}", answer.code, name.len()));
        let services = "/api/v1/namespaces/{ns}/services";
        let service = json!({ "metadata": { "name": "a" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
        let answer = site
            .quietly("POST", &format!("{services}?dryRun=All"), &[], service)
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["spec"]["type"]));
        site.step("GET", &format!("{services}/a"), Value::Null).await;
    });
}

#[test]
fn of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        ))
        .await;
        let widget = |value: u32| json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": value });
        site.post(&format!("{WIDGETS}?dryRun=All"), widget(1)).await;
        site.step("GET", &format!("{WIDGETS}/a"), Value::Null).await;
        site.step("POST", WIDGETS, widget(1)).await;
        site.merge(&format!("{WIDGETS}/a?dryRun=All"), json!({ "spec": 2 }))
            .await;
        site.delete(&format!("{WIDGETS}/a?dryRun=All"), Value::Null).await;
        site.get(&format!("{WIDGETS}/a")).await;
    });
}

#[test]
fn of_a_definition() {
    contract!(async |site: &Site| {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = super::super::site::widgets(json!({ "versions": [version(json!({ "type": "object" }))] }));
        let answer = site
            .quietly("POST", &format!("{definitions}?dryRun=All"), &[], definition)
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["spec"]["names"]["kind"]));
        site.step("GET", &format!("{definitions}/widgets.{{group}}"), Value::Null)
            .await;
        site.step("GET", WIDGETS, Value::Null).await;
    });
}

#[test]
fn of_a_namespace() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let answer = site
            .quietly("DELETE", "/api/v1/namespaces/{ns}?dryRun=All", &[], Value::Null)
            .await;
        site.note(&format!(
            "{} {} {}",
            answer.code, answer.body["kind"], answer.body["status"]
        ));
        site.get("/api/v1/namespaces/{ns}").await;
        site.step("GET", &format!("{MAPS}/a"), Value::Null).await;
        let other = json!({ "metadata": { "name": "{ns}-b" } });
        site.step("POST", "/api/v1/namespaces?dryRun=All", other).await;
        site.step(
            "POST",
            "/api/v1/namespaces/{ns}-b/configmaps",
            json!({ "metadata": { "name": "a" } }),
        )
        .await;
    });
}

#[test]
fn of_the_last_finalizer() {
    contract!(async |site: &Site| {
        site.step(
            "POST",
            MAPS,
            json!({ "metadata": { "name": "a", "finalizers": ["x.io/a"] } }),
        )
        .await;
        let path = format!("{MAPS}/a");
        site.step("DELETE", &path, Value::Null).await;
        site.merge(
            &format!("{path}?dryRun=All"),
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        site.get(&path).await;
    });
}

#[test]
fn of_a_token_and_a_review() {
    contract!(async |site: &Site| {
        let accounts = "/api/v1/namespaces/{ns}/serviceaccounts";
        site.step("POST", accounts, json!({ "metadata": { "name": "a" } }))
            .await;
        let answer = site
            .quietly(
                "POST",
                &format!("{accounts}/a/token?dryRun=All"),
                &[],
                json!({ "spec": {} }),
            )
            .await;
        site.note(&format!(
            "{} {}",
            answer.code,
            answer.body["status"]["token"].is_string()
        ));
        let review = json!({ "spec": { "nonResourceAttributes": { "path": "/a", "verb": "get" } } });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?dryRun=All";
        let answer = site.quietly("POST", path, &[], review).await;
        site.note(&format!("{} {}", answer.code, answer.body["status"]["allowed"]));
    });
}
