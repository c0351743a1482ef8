use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::json;

use super::{View, decide};
use crate::workloads::plan::{Action, Attempt, Failure, Object, Plan};

fn set(replicas: i32) -> Arc<ReplicaSet> {
    let set = json!({
        "metadata": { "name": "r", "namespace": "n", "uid": "r", "generation": 2 },
        "spec": {
            "replicas": replicas, "minReadySeconds": 10,
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [] } },
        },
    });
    Arc::new(serde_json::from_value(set).unwrap())
}

fn pod(name: &str, phase: &str, ready_at: Option<&str>, deleting: bool) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name, "labels": { "app": "a" },
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true }
            ],
        },
        "status": { "phase": phase },
    });
    if let Some(at) = ready_at {
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": at }]);
    }
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn plan(replicas: i32, pods: Vec<Arc<Pod>>, failure: Option<Failure>) -> Plan {
    let view = View {
        set: set(replicas),
        pods,
        related: Vec::new(),
        failure,
    };
    decide(&view, "2026-01-01T00:01:00Z".parse().unwrap())
}

fn counts(plan: &Plan) -> (usize, usize) {
    let creations = plan
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Create { .. }));
    let deletions = plan
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Delete { .. }));
    (creations.count(), deletions.count())
}

#[rstest]
#[case::none_yet(3, vec![], (3, 0))]
#[case::a_failed_one_does_not_count(1, vec![pod("a", "Failed", None, false)], (1, 0))]
#[case::a_terminating_one_does_not_count(1, vec![pod("a", "Running", None, true)], (1, 0))]
#[case::just_enough(1, vec![pod("a", "Pending", None, false)], (0, 0))]
#[case::too_many(0, vec![pod("a", "Pending", None, false), pod("b", "Running", None, false)], (0, 2))]
#[case::never_too_many_at_once(900, vec![], (500, 0))]
fn missing_pods_are_created_and_surplus_pods_deleted(
    #[case] replicas: i32,
    #[case] pods: Vec<Arc<Pod>>,
    #[case] expected: (usize, usize),
) {
    assert_eq!(counts(&plan(replicas, pods, None)), expected);
}

fn status_of(plan: &Plan) -> k8s_openapi::api::apps::v1::ReplicaSetStatus {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::UpdateStatus {
            object: Object::ReplicaSet(set),
        } => set.status.clone(),
        _ => None,
    });
    written.expect("a status")
}

#[test]
fn a_pod_is_available_once_it_has_been_ready_for_long_enough() {
    let pods = vec![
        pod("a", "Running", Some("2026-01-01T00:00:50Z"), false),
        pod("b", "Running", Some("2026-01-01T00:00:55Z"), false),
        pod("c", "Running", None, true),
    ];
    let plan = plan(2, pods, None);
    let status = status_of(&plan);
    assert_eq!(status.ready_replicas, Some(2));
    assert_eq!(status.available_replicas, Some(1));
    assert_eq!(status.terminating_replicas, Some(1));
    assert_eq!(plan.deadline, Some("2026-01-01T00:01:05Z".parse().unwrap()));
}

#[test]
fn a_failure_is_reported_before_a_retry() {
    let failure = Failure {
        what: Attempt::Create,
        message: "quota".to_owned(),
    };
    let plan = plan(1, vec![], Some(failure));
    let conditions = status_of(&plan).conditions.unwrap();
    assert_eq!(conditions[0].reason.as_deref(), Some("FailedCreate"));
    assert_eq!(conditions[0].message.as_deref(), Some("quota"));
    assert!(matches!(plan.actions[0], Action::UpdateStatus { .. }));
    assert_eq!(counts(&plan), (1, 0));
}
