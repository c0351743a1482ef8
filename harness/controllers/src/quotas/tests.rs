use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Service};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Quotas;
use crate::{Action, Cached, Caches, Controller, ObjectKey, Queue, View};

fn quota(hard: Value) -> Value {
    json!({ "metadata": { "name": "q", "namespace": "n", "uid": "q", "resourceVersion": "1" }, "spec": { "hard": hard } })
}

fn pod(name: &str, phase: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "2" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
        "status": { "phase": phase },
    })
}

fn put<K: Cached + DeserializeOwned>(caches: &mut Caches, object: Value) -> crate::Change {
    caches.put(serde_json::from_value::<K>(object).unwrap()).unwrap()
}

fn view(caches: &Caches) -> View<'_> {
    View {
        caches,
        now: Timestamp::UNIX_EPOCH,
    }
}

/// The status that the controller writes; `None` if it writes nothing.
fn written(caches: &Caches) -> Option<Value> {
    let plan = Quotas.decide(&ObjectKey::new("n", "q"), view(caches));
    match plan.actions.as_slice() {
        [] => None,
        [Action::Replace { object, .. }] => Some(object["status"].clone()),
        others => panic!("{others:?}"),
    }
}

#[rstest]
#[case::pods(json!({ "pods": "5" }), json!({ "pods": "2" }))]
#[case::finished_pods_count_as_objects(json!({ "count/pods": "5" }), json!({ "count/pods": "3" }))]
#[case::requests(json!({ "requests.cpu": "1", "limits.cpu": "2" }), json!({ "requests.cpu": "300m", "limits.cpu": "0" }))]
#[case::services(json!({ "services": "1", "services.nodeports": "2" }), json!({ "services": "1", "services.nodeports": "1" }))]
#[case::what_is_not_served(json!({ "count/widgets.example.com": "5", "pods": "9" }), json!({ "pods": "2" }))]
fn objects_of_the_namespace_are_counted(#[case] hard: Value, #[case] used: Value) {
    let mut caches = Caches::default();
    put::<ResourceQuota>(&mut caches, quota(hard.clone()));
    put::<Pod>(&mut caches, pod("a", "Running", "100m"));
    put::<Pod>(&mut caches, pod("b", "Pending", "200m"));
    put::<Pod>(&mut caches, pod("c", "Succeeded", "400m"));
    let mut elsewhere = pod("d", "Running", "1");
    elsewhere["metadata"]["namespace"] = "other".into();
    put::<Pod>(&mut caches, elsewhere);
    let service = json!({
        "metadata": { "name": "s", "namespace": "n", "uid": "s" },
        "spec": { "type": "NodePort", "ports": [{ "port": 1 }] },
    });
    put::<Service>(&mut caches, service);
    assert_eq!(written(&caches), Some(json!({ "hard": hard, "used": used })));
}

#[test]
fn only_pods_in_the_scopes_of_the_quota_are_counted() {
    let mut caches = Caches::default();
    let mut scoped = quota(json!({ "pods": "5" }));
    scoped["spec"]["scopes"] = json!(["Terminating"]);
    put::<ResourceQuota>(&mut caches, scoped);
    put::<Pod>(&mut caches, pod("a", "Running", "1"));
    let mut ends = pod("b", "Running", "1");
    ends["spec"]["activeDeadlineSeconds"] = 5.into();
    put::<Pod>(&mut caches, ends);
    assert_eq!(written(&caches).unwrap()["used"], json!({ "pods": "1" }));
}

#[test]
fn a_right_status_is_not_written_again() {
    let mut caches = Caches::default();
    let mut right = quota(json!({ "requests.cpu": "1" }));
    right["status"] = json!({ "hard": { "requests.cpu": "1000m" }, "used": { "requests.cpu": "0.1" } });
    put::<ResourceQuota>(&mut caches, right.clone());
    put::<Pod>(&mut caches, pod("a", "Running", "100m"));
    assert_eq!(written(&caches), None);
    right["spec"]["hard"]["requests.cpu"] = "2".into();
    right["metadata"]["resourceVersion"] = "3".into();
    put::<ResourceQuota>(&mut caches, right);
    assert_eq!(written(&caches).unwrap()["hard"], json!({ "requests.cpu": "2" }));
}

#[rstest]
#[case::phase("/status/phase", json!("Failed"), true)]
#[case::deadline("/spec/activeDeadlineSeconds", json!(5), true)]
#[case::message("/status/message", json!("m"), false)]
fn a_quota_is_counted_again_after_changes_that_can_change_its_use(
    #[case] field: &str,
    #[case] value: Value,
    #[case] expected: bool,
) {
    let mut caches = Caches::default();
    put::<Pod>(&mut caches, pod("a", "Running", "1"));
    put::<ResourceQuota>(&mut caches, quota(json!({ "pods": "1" })));
    let mut changed = pod("a", "Running", "1");
    let (parent, name) = field.rsplit_once('/').unwrap();
    changed.pointer_mut(parent).unwrap()[name] = value;
    changed["metadata"]["resourceVersion"] = "3".into();
    let change = put::<Pod>(&mut caches, changed);
    let mut queue = Queue::default();
    Quotas.observe(&change, view(&caches), &mut queue);
    assert_eq!(queue.keys().count() == 1, expected);
}
