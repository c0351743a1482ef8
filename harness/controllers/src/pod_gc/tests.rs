use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::controller::Key;
use super::decide::{Host, end, verdict};
use super::*;
use crate::{Caches, Controller, ObjectKey, Queue, View};

fn pod(deleting: bool, phase: &str) -> Pod {
    let mut pod = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "1" }, "status": { "phase": phase } });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(pod).unwrap()
}

fn node(ready: &str, taint: &str) -> Node {
    let node = json!({
        "metadata": { "name": "a" },
        "spec": { "taints": [{ "key": taint, "effect": "NoExecute" }] },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    serde_json::from_value(node).unwrap()
}

const OUT: &str = "node.kubernetes.io/out-of-service";

#[rstest]
#[case::no_node(false, Host::None, None)]
#[case::deleted_without_a_node(true, Host::None, Some(Reason::NeverScheduled))]
#[case::node_missing(false, Host::Missing, None)]
#[case::node_gone(false, Host::Gone, Some(Reason::NodeGone))]
#[case::node_there(true, Host::Present(&node("False", "other")), None)]
#[case::out_of_service(true, Host::Present(&node("Unknown", OUT)), Some(Reason::OutOfService))]
#[case::out_of_service_but_ready(true, Host::Present(&node("True", OUT)), None)]
#[case::out_of_service_and_not_deleted(false, Host::Present(&node("False", OUT)), None)]
fn the_node_state_determines_which_pods_are_deleted(
    #[case] deleting: bool,
    #[case] host: Host<'_>,
    #[case] expected: Option<Reason>,
) {
    assert_eq!(verdict(&pod(deleting, "Running"), host), expected);
}

#[rstest]
#[case("Running", 2)]
#[case("Pending", 2)]
#[case("Succeeded", 1)]
fn unfinished_pods_are_marked_failed_first(#[case] phase: &str, #[case] actions: usize) {
    let plan = end(&pod(false, phase), Reason::NodeGone, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.actions.len(), actions);
}

#[test]
fn finished_pods_beyond_the_threshold_are_deleted_evicted_first_then_oldest() {
    let mut collector = PodGc::new(Settings {
        terminated_threshold: 1,
        ..Settings::default()
    });
    let mut caches = Caches::default();
    let finished = |name: &str, created: &str, reason: Value| {
        let pod = json!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "creationTimestamp": created },
            "status": { "phase": "Failed", "reason": reason },
        });
        serde_json::from_value::<Pod>(pod).unwrap()
    };
    let mut queue = Queue::default();
    for pod in [
        finished("old", "2026-01-01T00:00:00Z", Value::Null),
        finished("new", "2026-01-02T00:00:00Z", Value::Null),
        finished("evicted", "2026-01-03T00:00:00Z", json!("Evicted")),
    ] {
        let change = caches.put(pod).unwrap();
        let view = View {
            caches: &caches,
            now: Timestamp::UNIX_EPOCH,
        };
        collector.observe(&change, view, &mut queue);
    }
    let view = View {
        caches: &caches,
        now: Timestamp::UNIX_EPOCH,
    };
    let ended = ["evicted", "new", "old"].map(|name| {
        let key = Key::Pod(ObjectKey::new("n", name));
        !collector.decide(&key, view).actions.is_empty()
    });
    assert_eq!(ended, [true, false, true]);
}

#[test]
fn a_missing_node_is_forgotten_with_its_last_pod() {
    let mut collector = PodGc::new(Settings::default());
    let mut caches = Caches::default();
    let mut queue = Queue::default();
    let mut bound = pod(false, "Running");
    bound.spec = Some(k8s_openapi::api::core::v1::PodSpec {
        node_name: Some("a".to_owned()),
        ..Default::default()
    });
    let now = Timestamp::UNIX_EPOCH;
    let key = Key::Node("a".to_owned());
    let added = caches.put(bound.clone()).unwrap();
    collector.observe(&added, View { caches: &caches, now }, &mut queue);
    assert!(collector.decide(&key, View { caches: &caches, now }).deadline.is_some());
    let removed = caches.take(&bound).unwrap();
    let mut queue = Queue::default();
    collector.observe(&removed, View { caches: &caches, now }, &mut queue);
    assert!(queue.keys().any(|queued| *queued == key), "{queue:?}");
    collector.decide(&key, View { caches: &caches, now });
    assert!(collector.is_empty_state());
}
