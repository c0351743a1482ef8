//! Volumes, claims, nodes and namespaces: status, sources, defaults.

use serde_json::{Value, json};

use super::super::site::with;
use super::{Site, changed, contract, part};

const CLAIMS: &str = "/api/v1/namespaces/{ns}/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

fn claim(change: Value) -> Value {
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    json!({ "metadata": { "name": "a" }, "spec": with(&spec, change) })
}

#[test]
fn access_modes_and_sources_of_claims() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "accessModes": ["ReadWriteOncePod"] }),
            json!({ "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"] }),
            json!({ "accessModes": ["Other"] }),
            json!({ "accessModes": [] }),
            json!({ "volumeMode": "Block" }),
            json!({ "volumeMode": "Other" }),
            json!({ "resources": { "requests": { "storage": "0" } } }),
            json!({ "resources": { "requests": { "storage": "-1" } } }),
            json!({ "resources": {} }),
            json!({ "storageClassName": "A" }),
            json!({ "storageClassName": "" }),
            json!({ "selector": { "matchLabels": { "a": "b c" } } }),
            json!({ "volumeAttributesClassName": "x" }),
            json!({ "resources": { "requests": { "storage": "1.5Gi" } } }),
            json!({ "resources": { "requests": { "storage": "1Gi", "x.io/a": "1" } } }),
        ] {
            part(
                site,
                &change.to_string(),
                CLAIMS,
                claim(change.clone()),
                "/spec/volumeMode",
            )
            .await;
        }
    });
}

#[test]
fn the_status_of_a_volume() {
    contract!(async |site: &Site| {
        let spec =
            json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/a" } });
        let created = site
            .quietly(
                "POST",
                VOLUMES,
                &[],
                json!({ "metadata": { "name": "{ns}" }, "spec": spec, "status": { "phase": "Bound" } }),
            )
            .await;
        site.note(&format!("{} {}", created.code, created.body["status"]["phase"]));
        let path = format!("{VOLUMES}/{{ns}}");
        let merge = [("content-type", "application/merge-patch+json")];
        for phase in ["Available", "Bound", "Released", "Other"] {
            let answer = site
                .quietly(
                    "PATCH",
                    &format!("{path}/status"),
                    &merge,
                    json!({ "status": { "phase": phase, "message": phase } }),
                )
                .await;
            let status = &answer.body["status"];
            site.note(&format!(
                "{phase}: {} {} {} {}",
                answer.code,
                status["phase"],
                status["message"],
                status["lastPhaseTransitionTime"].is_string()
            ));
        }
        changed(
            site,
            "not here",
            &path,
            json!({ "status": { "message": "x" } }),
            "/status/message",
        )
        .await;
        site.quietly("DELETE", &path, &[], Value::Null).await;
        site.quietly("PATCH", &path, &merge, json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}

#[test]
fn labels_of_a_namespace() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces";
        for labels in [
            json!({}),
            json!({ "a": "b" }),
            json!({ "kubernetes.io/metadata.name": "other" }),
        ] {
            part(
                site,
                &labels.to_string(),
                path,
                json!({ "metadata": { "name": "a-{ns}", "labels": labels } }),
                "/metadata/labels",
            )
            .await;
        }
        let one = "/api/v1/namespaces/{ns}";
        changed(
            site,
            "removed",
            one,
            json!({ "metadata": { "labels": null } }),
            "/metadata/labels",
        )
        .await;
        changed(
            site,
            "another",
            one,
            json!({ "metadata": { "labels": { "kubernetes.io/metadata.name": "x" } } }),
            "/metadata/labels",
        )
        .await;
    });
}
