//! Tests of the view of pods for a drain.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::view::{ClusterState, EnabledControllers};

/// Claims bound to volumes; the volumes named `pv-there…` exist.
fn target(claims: &[(&str, Option<&str>)]) -> TargetState {
    let enabled = EnabledControllers {
        machines: true,
        sets: false,
        deployments: false,
        health_checks: false,
    };
    let target = ClusterState::new("garden", true, enabled, Timestamp::UNIX_EPOCH)
        .target
        .unwrap();
    for (claim, volume) in claims {
        let claim = json!({ "metadata": { "name": claim, "namespace": "shop" }, "spec": { "volumeName": volume } });
        target
            .claims
            .wrote(serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap());
        if let Some(volume) = volume.filter(|name| name.starts_with("pv-there")) {
            let volume = json!({ "metadata": { "name": volume }, "spec": { "storageClassName": "fast" } });
            target
                .volumes
                .wrote(serde_json::from_value::<PersistentVolume>(volume).unwrap());
        }
    }
    target
}

fn pod(more: Value) -> v1::Pod {
    let mut pod = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "labels": { "app": "web" } },
        "spec": { "nodeName": "n", "containers": [] },
    });
    for (key, value) in more.as_object().unwrap() {
        for (field, value) in value.as_object().unwrap() {
            pod[key][field] = value.clone();
        }
    }
    serde_json::from_value(pod).unwrap()
}

fn with_claims(claims: &[&str]) -> v1::Pod {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } }))
        .collect();
    pod(json!({ "spec": { "volumes": volumes } }))
}

#[rstest]
#[case::no_volumes(&[], false, &[], &[])]
#[case::one(&["a"], true, &["pv-there-1"], &["pv-there-1"])]
#[case::two(&["a", "b"], true, &["pv-there-1", "pv-there-2"], &["pv-there-1", "pv-there-2"])]
#[case::missing_claim(&["nowhere"], true, &[], &[])]
#[case::missing_volume(&["lost"], true, &["pv-lost"], &[])]
#[case::claim_without_volume(&["unbound"], true, &[], &[])]
fn the_volumes_of_a_pod_are_those_of_its_claims(
    #[case] claims: &[&str],
    #[case] has_claims: bool,
    #[case] volumes: &[&str],
    #[case] known: &[&str],
) {
    let target = target(&[
        ("a", Some("pv-there-1")),
        ("b", Some("pv-there-2")),
        ("lost", Some("pv-lost")),
        ("unbound", None),
    ]);
    let mut specs = BTreeMap::new();
    let pod = pod_view(&target, &with_claims(claims), &mut specs);
    assert_eq!(
        (pod.claims, pod.volumes),
        (has_claims, volumes.iter().map(ToString::to_string).collect())
    );
    assert_eq!(specs.keys().map(String::as_str).collect::<Vec<_>>(), known);
}

#[rstest]
#[case::selected(json!({ "matchLabels": { "app": "web" } }), true)]
#[case::expression(json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web", "db"] }] }), true)]
#[case::empty_selects_all(json!({}), true)]
#[case::absent_selects_none(Value::Null, false)]
#[case::another_label(json!({ "matchLabels": { "app": "db" } }), false)]
fn a_budget_covers_the_pods_that_it_selects(#[case] selector: Value, #[case] covered: bool) {
    for (namespace, covered) in [("shop", covered), ("elsewhere", false)] {
        let target = target(&[]);
        let budget = json!({ "metadata": { "name": "one", "namespace": namespace }, "spec": { "selector": selector } });
        target
            .budgets
            .wrote(serde_json::from_value::<PodDisruptionBudget>(budget).unwrap());
        let pod = pod_view(&target, &pod(json!({})), &mut BTreeMap::new());
        assert_eq!(pod.budgets.iter().any(|budget| budget.name == "shop/one"), covered);
    }
}

#[test]
fn the_fields_of_a_pod_are_copied_to_its_view() {
    let target = target(&[]);
    let filled = pod_view(
        &target,
        &pod(json!({
            "metadata": {
                "deletionTimestamp": "2027-01-15T08:00:00Z",
                "annotations": { "kubernetes.io/config.mirror": "x" },
                "ownerReferences": [{ "kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "uid": "d", "controller": true }],
            },
            "spec": { "priority": 7, "terminationGracePeriodSeconds": 300 },
            "status": { "phase": "Failed" },
        })),
        &mut BTreeMap::new(),
    );
    assert!(filled.daemon && filled.mirror && filled.finished && filled.ends.is_some());
    assert_eq!((filled.priority, filled.grace), (7, Duration::from_secs(300)));
    let empty = pod_view(&target, &pod(json!({})), &mut BTreeMap::new());
    assert!(!empty.daemon && !empty.mirror && !empty.finished && empty.ends.is_none());
    assert_eq!((empty.priority, empty.grace), (0, DEFAULT_GRACE));
}
