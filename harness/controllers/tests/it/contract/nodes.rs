//! The taints that follow from a node's conditions.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::{Site, contract};

const NODE: &str = "/api/v1/nodes/{ns}";

async fn node(site: &Site, name: &str, conditions: &[(&str, &str)]) {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({ "type": kind, "status": status, "reason": "Said" }))
        .collect();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "{ns}" } },
        "status": { "conditions": conditions },
    });
    site.create(node).await;
}

/// Another node of the zone, so that the zone is not fully disrupted.
async fn neighbour(site: &Site) {
    node(site, "{ns}-neighbour", &[("Ready", "True")]).await;
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let mut taints: Vec<String> = taints
        .iter()
        .map(|taint| {
            format!(
                "{}:{}",
                text(taint, "key").trim_start_matches("node.kubernetes.io/"),
                text(taint, "effect")
            )
        })
        .collect();
    taints.sort();
    taints
}

async fn until(site: &Site, wanted: &[&str]) -> Value {
    site.until_it(NODE, &format!("tainted {wanted:?}"), |node| taints(node) == wanted)
        .await
}

#[rstest]
#[case::healthy("True", &[])]
#[case::not_ready("False", &["not-ready:NoExecute", "not-ready:NoSchedule"])]
#[case::unknown("Unknown", &["unreachable:NoExecute", "unreachable:NoSchedule"])]
fn readiness_determines_taints(#[case] ready: &str, #[case] wanted: &[&str]) {
    contract!(async |site: &Site| {
        neighbour(site).await;
        node(site, "{ns}", &[("Ready", ready)]).await;
        let node = until(site, wanted).await;
        for taint in node["spec"]["taints"].as_array().into_iter().flatten() {
            // The API server sets this taint on every new node, without a time; it may still be that taint.
            let by_admission = taint["key"] == "node.kubernetes.io/not-ready" && taint["effect"] == "NoSchedule";
            assert!(by_admission || taint["timeAdded"].is_string(), "{node:#}");
        }
    });
}

#[rstest]
#[case::memory("MemoryPressure", "memory-pressure:NoSchedule")]
#[case::disk("DiskPressure", "disk-pressure:NoSchedule")]
#[case::processes("PIDPressure", "pid-pressure:NoSchedule")]
#[case::network("NetworkUnavailable", "network-unavailable:NoSchedule")]
fn node_problems_add_and_remove_taints(#[case] kind: &str, #[case] taint: &str) {
    contract!(async |site: &Site| {
        node(site, "{ns}", &[("Ready", "True"), (kind, "True")]).await;
        until(site, &[taint]).await;
        let fine = json!([{ "type": "Ready", "status": "True" }, { "type": kind, "status": "False" }]);
        site.set_status(NODE, json!({ "conditions": fine })).await;
        until(site, &[]).await;
    });
}

#[test]
fn a_cordon_adds_and_removes_a_taint() {
    contract!(async |site: &Site| {
        node(site, "{ns}", &[("Ready", "True")]).await;
        until(site, &[]).await;
        site.merge(NODE, json!({ "spec": { "unschedulable": true } })).await;
        until(site, &["unschedulable:NoSchedule"]).await;
        site.merge(NODE, json!({ "spec": { "unschedulable": null } })).await;
        until(site, &[]).await;
    });
}

#[test]
fn a_recovered_node_has_no_taints() {
    contract!(async |site: &Site| {
        neighbour(site).await;
        node(site, "{ns}", &[("Ready", "False")]).await;
        until(site, &["not-ready:NoExecute", "not-ready:NoSchedule"]).await;
        site.set_status(NODE, json!({ "conditions": [{ "type": "Ready", "status": "True" }] }))
            .await;
        until(site, &[]).await;
    });
}

#[test]
fn a_node_that_turns_from_not_ready_to_unknown_changes_its_taints() {
    contract!(async |site: &Site| {
        neighbour(site).await;
        node(site, "{ns}", &[("Ready", "False")]).await;
        until(site, &["not-ready:NoExecute", "not-ready:NoSchedule"]).await;
        site.set_status(
            NODE,
            json!({ "conditions": [{ "type": "Ready", "status": "Unknown" }] }),
        )
        .await;
        until(site, &["unreachable:NoExecute", "unreachable:NoSchedule"]).await;
    });
}

#[test]
fn foreign_taints_stay() {
    contract!(async |site: &Site| {
        node(site, "{ns}", &[("Ready", "True")]).await;
        until(site, &[]).await;
        let other = json!([{ "key": "example.com/mine", "effect": "NoSchedule" }]);
        site.merge(NODE, json!({ "spec": { "taints": other, "unschedulable": true } }))
            .await;
        until(site, &["example.com/mine:NoSchedule", "unschedulable:NoSchedule"]).await;
        site.merge(NODE, json!({ "spec": { "unschedulable": false } })).await;
        until(site, &["example.com/mine:NoSchedule"]).await;
    });
}

#[test]
fn a_node_that_never_posts_a_status_is_tainted() {
    contract!(async |site: &Site| {
        if !site.is_simulated() {
            return;
        }
        neighbour(site).await;
        let silent = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "{ns}", "labels": { "topology.kubernetes.io/zone": "{ns}" } } });
        site.create(silent).await;
        site.pass(Duration::from_secs(58)).await;
        assert!(site.get(NODE).await["status"]["conditions"].is_null());
        site.pass(Duration::from_secs(8)).await;
        let node = site.get(NODE).await;
        let conditions = node["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions
                .iter()
                .all(|condition| condition["reason"] == "NodeStatusNeverUpdated"),
            "{node:#}"
        );
    });
}
