use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rstest::rstest;
use serde_json::{Value, json};

use super::count::{Expected, evictions, expected, healthy, status};
use super::expected::{Scales, scales};
use super::stale::stale_at;
use crate::Caches;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn budget(spec: Value) -> PodDisruptionBudget {
    let budget = json!({ "metadata": { "name": "b", "namespace": "n", "generation": 3 }, "spec": spec });
    serde_json::from_value(budget).unwrap()
}

fn pod(name: &str, extra: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "n" },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    json_patch::merge(&mut pod, &extra);
    Arc::new(serde_json::from_value(pod).unwrap())
}

#[rstest]
#[case::a_number(json!({ "minAvailable": 2 }), 5, 0, 5, 2)]
#[case::a_percentage_rounds_up(json!({ "minAvailable": "50%" }), 5, 5, 5, 3)]
#[case::all_of_them(json!({ "minAvailable": "100%" }), 3, 4, 4, 4)]
#[case::unavailable(json!({ "maxUnavailable": 1 }), 5, 4, 4, 3)]
#[case::more_than_there_are(json!({ "maxUnavailable": 9 }), 5, 4, 4, 0)]
#[case::unavailable_percentage_rounds_up(json!({ "maxUnavailable": "30%" }), 5, 5, 5, 3)]
#[case::neither(json!({}), 5, 5, 0, 0)]
fn a_budget_has_expected_numbers(
    #[case] spec: Value,
    #[case] pods: usize,
    #[case] scaled: i32,
    #[case] expected_pods: i32,
    #[case] expected_healthy: i32,
) {
    let wanted = Expected {
        pods: expected_pods,
        healthy: expected_healthy,
    };
    assert_eq!(expected(&budget(spec), pods, scaled), wanted);
}

#[test]
fn only_ready_pods_without_deletion_are_healthy() {
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let pods = [
        pod("a", json!({})),
        pod("b", deleting),
        pod("c", unready),
        pod("d", json!({})),
    ];
    let pods: Vec<_> = pods.iter().collect();
    let evicted = serde_json::from_value(json!({ "d": "2026-01-01T00:00:00Z" })).unwrap();
    assert_eq!(healthy(&pods, &evicted), 1);
}

#[test]
fn an_eviction_is_pending_until_its_pod_is_deleted_or_for_two_minutes() {
    let mut budget = budget(json!({}));
    let remembered = json!({ "gone": at(1000), "going": at(1000), "late": at(800), "fresh": at(1000) });
    budget.status = serde_json::from_value(json!({ "disruptedPods": remembered })).unwrap();
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let pods = [pod("going", deleting), pod("late", json!({})), pod("fresh", json!({}))];
    let pods: Vec<_> = pods.iter().collect();
    let evictions = evictions(&budget, &pods, at(1010));
    assert_eq!(evictions.under_way.keys().collect::<Vec<_>>(), ["fresh"]);
    assert_eq!(evictions.failed, ["late"]);
    assert_eq!(evictions.next, Some(at(1120)));
}

#[rstest]
#[case::room(5, 5, 3, 2, "True SufficientPods")]
#[case::no_room(5, 3, 3, 0, "False InsufficientPods")]
#[case::less_than_none(5, 2, 3, 0, "False InsufficientPods")]
#[case::nothing_expected(0, 2, 0, 0, "False InsufficientPods")]
fn the_status_reports_allowed_disruptions(
    #[case] pods: i32,
    #[case] ready: i32,
    #[case] desired: i32,
    #[case] allowed: i32,
    #[case] condition: &str,
) {
    let wanted = Expected { pods, healthy: desired };
    let mut budget = budget(json!({}));
    let new = status(&budget, wanted, ready, BTreeMap::new(), at(0)).unwrap();
    assert_eq!(
        (new.disruptions_allowed, new.observed_generation),
        (Some(allowed), Some(3))
    );
    let written = &new.conditions.as_ref().unwrap()[0];
    assert_eq!(format!("{} {}", written.status, written.reason), condition);
    budget.status = Some(new);
    assert_eq!(
        status(&budget, wanted, ready, BTreeMap::new(), at(9)),
        None,
        "an unchanged status is not written again"
    );
}

#[test]
fn pods_of_a_deployment_count_once_by_its_scale() {
    let mut caches = Caches::default();
    let owner = |kind: &str, name: &str| json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true }]);
    let meta = |name: &str| json!({ "name": name, "namespace": "n", "uid": name });
    let spec = json!({ "replicas": 7, "selector": {}, "template": {} });
    let deployment = json!({ "metadata": meta("d"), "spec": spec });
    caches.put::<k8s_openapi::api::apps::v1::Deployment>(serde_json::from_value(deployment).unwrap());
    for name in ["r1", "r2"] {
        let mut metadata = meta(name);
        metadata["ownerReferences"] = owner("Deployment", "d");
        let set = json!({ "metadata": metadata, "spec": { "replicas": 4, "selector": {} } });
        caches.put::<k8s_openapi::api::apps::v1::ReplicaSet>(serde_json::from_value(set).unwrap());
    }
    let pods = ["r1", "r2"].map(|set| {
        pod(
            set,
            json!({ "metadata": { "ownerReferences": owner("ReplicaSet", set) } }),
        )
    });
    let mut pods: Vec<_> = pods.iter().collect();
    let known = |sum, unmanaged| Scales::Known { sum, unmanaged };
    assert_eq!(scales(&pods, &caches, &BTreeMap::new()), known(7, 0));
    let bare = pod("bare", json!({}));
    pods.push(&bare);
    assert_eq!(scales(&pods, &caches, &BTreeMap::new()), known(7, 1));
    let lost = pod(
        "lost",
        json!({ "metadata": { "ownerReferences": owner("ReplicaSet", "none") } }),
    );
    pods.push(&lost);
    assert!(matches!(scales(&pods, &caches, &BTreeMap::new()), Scales::Failed(_)));
}

#[rstest]
#[case::condition_set(json!({}), Some(220))]
#[case::being_deleted(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), None)]
#[case::finished(json!({ "status": { "phase": "Failed" } }), None)]
fn a_pending_disruption_becomes_stale_after_two_minutes(#[case] extra: Value, #[case] expected: Option<i64>) {
    let condition = json!({ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(100) });
    let mut pod = json!({ "metadata": { "name": "p" }, "status": { "conditions": [condition] } });
    json_patch::merge(&mut pod, &extra);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    assert_eq!(stale_at(&pod), expected.map(at));
}
