//! Classes that pods and other objects name: priorities and runtimes; defaults of new pods, claims and nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::site::Site;
use super::{PODS, contract, created, pod};

const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RUNTIMES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

/// Waits until a pod of that class can be created: a real server notices classes later.
async fn known(site: &Site, field: &str, name: &str) {
    let mut object = pod("marker", json!({}));
    object["spec"][field] = name.into();
    for _ in 0..300 {
        let answer = site
            .quietly("POST", &format!("{PODS}?dryRun=All"), &[], object.clone())
            .await;
        if answer.code == 201 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice {name}");
}

#[test]
fn a_pod_gets_the_priority_of_its_class() {
    contract!(async |site: &Site| {
        let class = json!({ "metadata": { "name": "{ns}-a" }, "value": 1000, "preemptionPolicy": "Never" });
        site.step("POST", PRIORITIES, class).await;
        known(site, "priorityClassName", "{ns}-a").await;
        for (name, spec) in [
            ("named", json!({ "priorityClassName": "{ns}-a" })),
            ("missing", json!({ "priorityClassName": "{ns}-b" })),
            ("same", json!({ "priorityClassName": "{ns}-a", "priority": 1000 })),
            ("other", json!({ "priorityClassName": "{ns}-a", "priority": 5 })),
            (
                "policy",
                json!({ "priorityClassName": "{ns}-a", "preemptionPolicy": "PreemptLowerPriority" }),
            ),
            ("zero", json!({ "priority": 0 })),
            ("number", json!({ "priority": 7 })),
        ] {
            let mut object = pod(name, json!({}));
            object["spec"]
                .as_object_mut()
                .unwrap()
                .extend(spec.as_object().unwrap().clone());
            created(site, name, PODS, object, "/spec/priority").await;
        }
        let path = format!("{PODS}/named");
        site.step("DELETE", &format!("{PRIORITIES}/{{ns}}-a"), Value::Null)
            .await;
        let answer = site.quietly("GET", &path, &[], Value::Null).await;
        site.note(&format!(
            "{} {}",
            answer.body["spec"]["priority"], answer.body["spec"]["preemptionPolicy"]
        ));
    });
}

#[test]
fn pods_of_the_system_can_be_anywhere() {
    contract!(async |site: &Site| {
        for class in ["system-node-critical", "system-cluster-critical"] {
            let mut object = pod(class, json!({}));
            object["spec"]["priorityClassName"] = class.into();
            created(site, class, PODS, object, "/spec/priority").await;
        }
    });
}

#[test]
fn a_pod_gets_the_overhead_of_its_runtime() {
    contract!(async |site: &Site| {
        let scheduling =
            json!({ "nodeSelector": { "runtime": "x" }, "tolerations": [{ "key": "runtime", "operator": "Exists" }] });
        let overhead = json!({ "podFixed": { "cpu": "100m", "memory": "10Mi" } });
        let class =
            json!({ "metadata": { "name": "{ns}-a" }, "handler": "x", "overhead": overhead, "scheduling": scheduling });
        site.step("POST", RUNTIMES, class).await;
        known(site, "runtimeClassName", "{ns}-a").await;
        for (name, spec) in [
            ("named", json!({})),
            ("same", json!({ "overhead": { "cpu": "100m", "memory": "10Mi" } })),
            ("other", json!({ "overhead": { "cpu": "1" } })),
        ] {
            let mut object = pod(name, json!({}));
            object["spec"]["runtimeClassName"] = "{ns}-a".into();
            object["spec"]
                .as_object_mut()
                .unwrap()
                .extend(spec.as_object().unwrap().clone());
            created(site, name, PODS, object, "/spec/overhead").await;
        }
        site.step("DELETE", &format!("{RUNTIMES}/{{ns}}-a"), Value::Null).await;
    });
}

#[test]
fn a_runtime_selects_nodes() {
    contract!(async |site: &Site| {
        let scheduling =
            json!({ "nodeSelector": { "runtime": "x" }, "tolerations": [{ "key": "runtime", "operator": "Exists" }] });
        let class = json!({ "metadata": { "name": "{ns}-b" }, "handler": "x", "scheduling": scheduling });
        site.step("POST", RUNTIMES, class).await;
        known(site, "runtimeClassName", "{ns}-b").await;
        for (name, selector) in [
            ("none", Value::Null),
            ("more", json!({ "zone": "a" })),
            ("conflict", json!({ "runtime": "y" })),
        ] {
            let mut object = pod(name, json!({}));
            object["spec"]["runtimeClassName"] = "{ns}-b".into();
            object["spec"]["nodeSelector"] = selector;
            created(site, name, PODS, object, "/spec/nodeSelector").await;
        }
        let answer = site.quietly("GET", &format!("{PODS}/none"), &[], Value::Null).await;
        site.note(&answer.body["spec"]["tolerations"].to_string());
        site.step("DELETE", &format!("{RUNTIMES}/{{ns}}-b"), Value::Null).await;
    });
}

#[test]
fn a_missing_runtime_is_named() {
    contract!(async |site: &Site| {
        let mut object = pod("a", json!({}));
        object["spec"]["runtimeClassName"] = "{ns}-missing".into();
        site.post(PODS, object).await;
        let mut object = pod("b", json!({}));
        object["spec"]["overhead"] = json!({ "cpu": "1" });
        site.post(PODS, object).await;
    });
}

#[test]
fn default_tolerations_of_pods() {
    contract!(async |site: &Site| {
        for (name, tolerations) in [
            ("none", json!([])),
            ("all", json!([{ "operator": "Exists" }])),
            (
                "one",
                json!([{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }]),
            ),
            (
                "effect",
                json!([{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule" }]),
            ),
            (
                "any-effect",
                json!([{ "key": "node.kubernetes.io/unreachable", "operator": "Exists" }]),
            ),
        ] {
            let mut object = pod(name, json!({}));
            object["spec"]["tolerations"] = tolerations;
            created(site, name, PODS, object, "/spec/tolerations").await;
        }
    });
}

#[test]
fn a_token_needs_its_account_and_object() {
    contract!(async |site: &Site| {
        let claim = json!({ "spec": {} });
        let accounts = "/api/v1/namespaces/{ns}/serviceaccounts";
        site.step("POST", accounts, json!({ "metadata": { "name": "a" } }))
            .await;
        site.step("POST", &format!("{accounts}/missing/token"), claim.clone())
            .await;
        let bound = json!({ "spec": { "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "missing" } } });
        site.post(&format!("{accounts}/a/token"), bound).await;
        let odd = json!({ "spec": { "boundObjectRef": { "apiVersion": "v1", "kind": "ConfigMap", "name": "a" } } });
        site.post(&format!("{accounts}/a/token"), odd).await;
    });
}

#[test]
fn a_claim_in_use_has_a_finalizer() {
    contract!(async |site: &Site| {
        let claims = "/api/v1/namespaces/{ns}/persistentvolumeclaims";
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        for (name, finalizers) in [
            ("a", json!([])),
            ("b", json!(["x.io/a"])),
            ("c", json!(["kubernetes.io/pvc-protection"])),
        ] {
            let claim = json!({ "metadata": { "name": name, "finalizers": finalizers }, "spec": spec });
            created(site, name, claims, claim, "/metadata/finalizers").await;
        }
        site.merge(&format!("{claims}/a"), json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}

#[test]
fn a_new_node_has_a_taint() {
    contract!(async |site: &Site| {
        for (name, taints) in [
            ("a", json!([])),
            ("b", json!([{ "key": "x", "effect": "NoSchedule" }])),
            (
                "c",
                json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]),
            ),
            (
                "d",
                json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" }]),
            ),
        ] {
            let node = json!({ "metadata": { "name": format!("{name}.{{ns}}") }, "spec": { "taints": taints } });
            created(site, name, "/api/v1/nodes?dryRun=All", node, "/spec/taints").await;
        }
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        let node = json!({ "metadata": { "name": "e.{ns}" }, "status": ready });
        created(site, "ready", "/api/v1/nodes?dryRun=All", node, "/spec/taints").await;
    });
}
