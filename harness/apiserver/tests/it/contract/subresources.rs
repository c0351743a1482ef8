//! Status and scale of built-in kinds.

use serde_json::{Value, json};

use super::contract;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";

fn deployment() -> Value {
    json!({
        "metadata": { "name": "d", "labels": { "l": "1" } },
        "spec": {
            "selector": { "matchLabels": { "app": "x" } },
            "template": {
                "metadata": { "labels": { "app": "x" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        },
        "status": { "replicas": 9 },
    })
}

#[test]
fn a_deployment_gets_its_defaults_and_no_status() {
    contract!(async |site: &super::Site| {
        site.post(DEPLOYMENTS, deployment()).await;
    });
}

#[test]
fn generation_counts_changes_of_the_spec() {
    contract!(async |site: &super::Site| {
        site.step("POST", DEPLOYMENTS, deployment()).await;
        let path = format!("{DEPLOYMENTS}/d");
        let generation = async |patch: Value, path: &str| {
            let answer = site
                .quietly(
                    "PATCH",
                    path,
                    &[("content-type", "application/merge-patch+json")],
                    patch.clone(),
                )
                .await;
            site.note(&format!(
                "{patch} -> {} generation {}",
                answer.code, answer.body["metadata"]["generation"]
            ));
        };
        generation(json!({ "metadata": { "labels": { "l": "2" } } }), &path).await;
        generation(json!({ "spec": { "replicas": 2 } }), &path).await;
        generation(json!({ "spec": { "replicas": 2 } }), &path).await;
        generation(json!({ "status": { "replicas": 2 } }), &path).await;
        generation(
            json!({ "status": { "replicas": 2, "observedGeneration": 2 } }),
            &format!("{path}/status"),
        )
        .await;
        generation(json!({ "spec": { "replicas": 7 } }), &format!("{path}/status")).await;
        generation(json!({ "metadata": { "finalizers": ["x.io/a"] } }), &path).await;
        let deleted = site.quietly("DELETE", &path, &[], Value::Null).await;
        site.note(&format!(
            "deleted: generation {}",
            deleted.body["metadata"]["generation"]
        ));
        generation(json!({ "metadata": { "finalizers": null } }), &path).await;
    });
}

#[test]
fn the_scale_of_a_deployment() {
    contract!(async |site: &super::Site| {
        site.step("POST", DEPLOYMENTS, deployment()).await;
        let path = format!("{DEPLOYMENTS}/d/scale");
        let scale = site.get(&path).await;
        site.merge(&path, json!({ "spec": { "replicas": 3 } })).await;
        site.put(&path, scale.body).await;
        site.put(
            &path,
            json!({ "metadata": { "name": "d", "namespace": "{ns}" }, "spec": { "replicas": 5 } }),
        )
        .await;
        site.merge(&path, json!({ "spec": { "replicas": -1 } })).await;
        site.get(&format!("{DEPLOYMENTS}/missing/scale")).await;
    });
}

#[test]
fn the_selector_of_a_deployment_is_immutable() {
    contract!(async |site: &super::Site| {
        site.step("POST", DEPLOYMENTS, deployment()).await;
        let path = format!("{DEPLOYMENTS}/d");
        site.merge(
            &path,
            json!({ "spec": { "selector": { "matchLabels": { "app": "y" } } } }),
        )
        .await;
        let mut other = deployment();
        other["metadata"]["name"] = "e".into();
        other["spec"]["selector"]["matchLabels"]["app"] = "y".into();
        site.post(DEPLOYMENTS, other).await;
        site.post(DEPLOYMENTS, json!({ "metadata": { "name": "f" } })).await;
    });
}

#[test]
fn the_status_of_a_node_has_its_own_endpoint() {
    contract!(async |site: &super::Site| {
        let node = json!({
            "metadata": { "name": "{ns}" }, "spec": { "providerID": "x://1" },
            "status": { "capacity": { "cpu": "1000m", "memory": "1024Ki", "pods": "110" } },
        });
        site.post("/api/v1/nodes", node).await;
        let path = "/api/v1/nodes/{ns}";
        site.merge(path, json!({ "status": { "phase": "Running" } })).await;
        let status = json!({ "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z" }] });
        site.merge(
            &format!("{path}/status"),
            json!({ "status": status, "spec": { "unschedulable": true }, "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        site.merge(path, json!({ "spec": { "providerID": "x://2" } })).await;
        site.merge(
            path,
            json!({ "spec": { "taints": [{ "key": "a b", "effect": "Other" }] } }),
        )
        .await;
        site.delete(path, Value::Null).await;
    });
}

#[test]
fn leases_events_and_budgets_are_checked() {
    contract!(async |site: &super::Site| {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        let spec = json!({ "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000001Z", "leaseTransitions": 1 });
        site.post(leases, json!({ "metadata": { "name": "a" }, "spec": spec }))
            .await;
        site.post(
            leases,
            json!({ "metadata": { "name": "b" }, "spec": { "leaseDurationSeconds": 0, "leaseTransitions": -1 } }),
        )
        .await;
        site.post(
            leases,
            json!({ "metadata": { "name": "b" }, "spec": { "renewTime": "yesterday" } }),
        )
        .await;
        let events = "/api/v1/namespaces/{ns}/events";
        let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "p", "namespace": "{ns}" }, "reason": "R", "message": "m", "type": "Normal", "count": 1 });
        site.post(events, event).await;
        site.post(
            events,
            json!({ "metadata": { "name": "f" }, "involvedObject": { "namespace": "other" } }),
        )
        .await;
        let budgets = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";
        site.post(
            budgets,
            json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": 1, "maxUnavailable": "20%" } }),
        )
        .await;
        site.post(
            budgets,
            json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": "x" } }),
        )
        .await;
        site.post(
            budgets,
            json!({ "metadata": { "name": "a" }, "spec": { "maxUnavailable": 1 } }),
        )
        .await;
    });
}

#[test]
fn volumes_and_attachments_are_checked() {
    contract!(async |site: &super::Site| {
        let attachment = json!({ "metadata": { "name": "{ns}" }, "spec": { "attacher": "a.io", "nodeName": "n", "source": { "persistentVolumeName": "v" } } });
        let path = "/apis/storage.k8s.io/v1/volumeattachments";
        site.post(path, attachment).await;
        site.merge(
            &format!("{path}/{{ns}}/status"),
            json!({ "status": { "attached": true } }),
        )
        .await;
        site.merge(&format!("{path}/{{ns}}"), json!({ "spec": { "nodeName": "m" } }))
            .await;
        site.delete(&format!("{path}/{{ns}}"), Value::Null).await;
        let claims = "/api/v1/namespaces/{ns}/persistentvolumeclaims";
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        site.post(claims, json!({ "metadata": { "name": "c" }, "spec": spec }))
            .await;
        site.merge(
            &format!("{claims}/c"),
            json!({ "spec": { "accessModes": ["ReadWriteMany"] } }),
        )
        .await;
        site.post(claims, json!({ "metadata": { "name": "d" }, "spec": {} }))
            .await;
    });
}
