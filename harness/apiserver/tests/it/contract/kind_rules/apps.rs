//! Defaults and checks of workloads, autoscalers and budgets.

use serde_json::{Value, json};

use super::super::site::with;
use super::{Site, changed, contract, part, selector, template};

const APPS: &str = "/apis/apps/v1/namespaces/{ns}";

fn workload(change: Value) -> Value {
    let spec = with(
        &json!({ "selector": selector(), "template": template(json!({})) }),
        change,
    );
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn strategies_of_deployments() {
    contract!(async |site: &Site| {
        let path = format!("{APPS}/deployments");
        for (what, strategy) in [
            ("none", json!({})),
            ("a surge", json!({ "rollingUpdate": { "maxSurge": 2 } })),
            (
                "no surge and nothing unavailable",
                json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } }),
            ),
            (
                "percentages of zero",
                json!({ "rollingUpdate": { "maxSurge": "0%", "maxUnavailable": "0%" } }),
            ),
            (
                "too much unavailable",
                json!({ "rollingUpdate": { "maxUnavailable": "101%" } }),
            ),
            ("recreation", json!({ "type": "Recreate" })),
            (
                "recreation with a surge",
                json!({ "type": "Recreate", "rollingUpdate": { "maxSurge": 1 } }),
            ),
            ("another", json!({ "type": "Other" })),
        ] {
            part(
                site,
                what,
                &path,
                workload(json!({ "strategy": strategy })),
                "/spec/strategy",
            )
            .await;
        }
    });
}

#[test]
fn strategies_of_daemon_sets() {
    contract!(async |site: &Site| {
        let path = format!("{APPS}/daemonsets");
        for (what, strategy) in [
            ("none", json!({})),
            (
                "a surge",
                json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } }),
            ),
            (
                "both",
                json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } }),
            ),
            (
                "neither",
                json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } }),
            ),
            ("on deletion", json!({ "type": "OnDelete" })),
            ("another", json!({ "type": "Recreate" })),
        ] {
            part(
                site,
                what,
                &path,
                workload(json!({ "updateStrategy": strategy })),
                "/spec/updateStrategy",
            )
            .await;
        }
    });
}

#[test]
fn a_template_restarts_always() {
    contract!(async |site: &Site| {
        for plural in ["deployments", "daemonsets", "replicasets", "statefulsets"] {
            for policy in ["OnFailure", "Never"] {
                let object = workload(json!({ "template": template(json!({ "restartPolicy": policy })) }));
                part(
                    site,
                    &format!("{plural} {policy}"),
                    &format!("{APPS}/{plural}"),
                    object,
                    "/spec",
                )
                .await;
            }
            let object = workload(json!({ "template": template(json!({ "activeDeadlineSeconds": 5 })) }));
            part(
                site,
                &format!("{plural} deadline"),
                &format!("{APPS}/{plural}"),
                object,
                "/metadata/name",
            )
            .await;
        }
    });
}

#[test]
fn numbers_of_a_deployment() {
    contract!(async |site: &Site| {
        let path = format!("{APPS}/deployments");
        for change in [
            json!({ "replicas": -1 }),
            json!({ "minReadySeconds": -1 }),
            json!({ "revisionHistoryLimit": -1 }),
            json!({ "progressDeadlineSeconds": 0 }),
            json!({ "progressDeadlineSeconds": 5, "minReadySeconds": 5 }),
            json!({ "revisionHistoryLimit": 0, "replicas": 0, "paused": true }),
        ] {
            part(
                site,
                &change.to_string(),
                &path,
                workload(change.clone()),
                "/spec/replicas",
            )
            .await;
        }
    });
}

#[test]
fn behaviour_of_autoscalers() {
    contract!(async |site: &Site| {
        let path = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers";
        let scaler = |change: Value| {
            let spec = json!({ "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } });
            json!({ "metadata": { "name": "a" }, "spec": with(&spec, change) })
        };
        let policy = json!([{ "type": "Pods", "value": 2, "periodSeconds": 30 }]);
        for (what, change) in [
            ("none", json!({})),
            (
                "up",
                json!({ "behavior": { "scaleUp": { "stabilizationWindowSeconds": 5 } } }),
            ),
            (
                "down",
                json!({ "behavior": { "scaleDown": { "policies": policy, "selectPolicy": "Min" } } }),
            ),
            (
                "no policies",
                json!({ "behavior": { "scaleDown": { "policies": [] } } }),
            ),
            (
                "another policy",
                json!({ "behavior": { "scaleDown": { "policies": [{ "type": "Other", "value": 0, "periodSeconds": 0 }] } } }),
            ),
            (
                "a long window",
                json!({ "behavior": { "scaleUp": { "stabilizationWindowSeconds": 3601 } } }),
            ),
            (
                "another selection",
                json!({ "behavior": { "scaleUp": { "selectPolicy": "Other" } } }),
            ),
            ("numbers", json!({ "minReplicas": 5 })),
            ("zero", json!({ "minReplicas": 0 })),
            ("no maximum", json!({ "maxReplicas": 0 })),
            ("no target", json!({ "scaleTargetRef": { "kind": "", "name": "" } })),
        ] {
            part(site, what, path, scaler(change), "/spec/behavior").await;
        }
    });
}

#[test]
fn budgets() {
    contract!(async |site: &Site| {
        let path = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";
        for spec in [
            json!({}),
            json!({ "minAvailable": "50%" }),
            json!({ "maxUnavailable": -1 }),
            json!({ "minAvailable": "101%" }),
            json!({ "minAvailable": "x%" }),
            json!({ "unhealthyPodEvictionPolicy": "AlwaysAllow" }),
            json!({ "unhealthyPodEvictionPolicy": "Other" }),
            json!({ "selector": { "matchLabels": { "a": "b c" } } }),
        ] {
            part(
                site,
                &spec.to_string(),
                path,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec",
            )
            .await;
        }
        site.step(
            "POST",
            path,
            json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": 1 } }),
        )
        .await;
        let one = format!("{path}/a");
        changed(
            site,
            "another number",
            &one,
            json!({ "spec": { "minAvailable": 2 } }),
            "/spec",
        )
        .await;
        changed(
            site,
            "another field",
            &one,
            json!({ "spec": { "minAvailable": null, "maxUnavailable": 1 } }),
            "/spec",
        )
        .await;
        changed(
            site,
            "a selector",
            &one,
            json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } }),
            "/metadata/generation",
        )
        .await;
        let status = json!({ "status": { "disruptionsAllowed": -1, "currentHealthy": -1, "desiredHealthy": -1, "expectedPods": -1 } });
        changed(site, "a status", &format!("{one}/status"), status, "/status").await;
    });
}

#[test]
fn a_status_of_a_workload_is_checked() {
    contract!(async |site: &Site| {
        for (plural, statuses) in [
            (
                "deployments",
                vec![
                    json!({ "replicas": -1 }),
                    json!({ "replicas": 1, "readyReplicas": 2 }),
                    json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 2 }),
                    json!({ "replicas": 2, "observedGeneration": -1 }),
                    json!({ "replicas": 2, "updatedReplicas": 3 }),
                ],
            ),
            (
                "replicasets",
                vec![
                    json!({ "replicas": 1, "fullyLabeledReplicas": 2 }),
                    json!({ "replicas": 1, "readyReplicas": 2 }),
                    json!({ "replicas": 2, "availableReplicas": 2 }),
                ],
            ),
            (
                "statefulsets",
                vec![
                    json!({ "replicas": 1, "readyReplicas": 2 }),
                    json!({ "replicas": 1, "currentReplicas": 2 }),
                    json!({ "replicas": 1, "updatedReplicas": 2 }),
                ],
            ),
            (
                "daemonsets",
                vec![
                    json!({ "currentNumberScheduled": -1, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": -1 }),
                ],
            ),
        ] {
            site.step("POST", &format!("{APPS}/{plural}"), workload(json!({})))
                .await;
            for status in statuses {
                let what = format!("{plural} {status}");
                changed(
                    site,
                    &what,
                    &format!("{APPS}/{plural}/a/status"),
                    json!({ "status": status }),
                    "/status",
                )
                .await;
            }
        }
    });
}
