use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret, Service};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Quotas;
use crate::{Action, Cache, Cached, Caches, Controller, Metadata, ObjectKey, Queue, ResourceType, View};

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

/// Of a Secret only the metadata is cached.
fn put_secret(caches: &mut Caches) {
    let secret = json!({ "metadata": { "name": "s", "namespace": "n", "uid": "s" } });
    let mut secrets = Cache::new(|_: &Metadata| None);
    secrets.apply(serde_json::from_value(secret).unwrap());
    caches.metadata.insert(ResourceType::of::<Secret>(), secrets);
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
fn objects_of_other_kinds_are_counted_by_both_names() {
    let mut caches = Caches::default();
    let hard = json!({ "secrets": "5", "count/secrets": "5", "configmaps": "5" });
    put::<ResourceQuota>(&mut caches, quota(hard));
    put_secret(&mut caches);
    let used = json!({ "secrets": "1", "count/secrets": "1" });
    assert_eq!(written(&caches).unwrap()["used"], used, "config maps are not watched");
}

#[test]
fn only_pods_in_the_scopes_of_the_quota_are_counted() {
    let mut caches = Caches::default();
    let mut scoped = quota(json!({ "pods": "5" }));
    scoped["spec"]["scopes"] = json!(["Terminating"]);
    scoped["spec"]["hard"]["count/secrets"] = "1".into();
    put::<ResourceQuota>(&mut caches, scoped);
    put::<Pod>(&mut caches, pod("a", "Running", "1"));
    let mut ends = pod("b", "Running", "1");
    ends["spec"]["activeDeadlineSeconds"] = 5.into();
    put::<Pod>(&mut caches, ends);
    put_secret(&mut caches);
    assert_eq!(
        written(&caches).unwrap()["used"],
        json!({ "pods": "1", "count/secrets": "0" })
    );
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

#[test]
fn a_written_status_does_not_count_the_other_quotas_again() {
    let mut caches = Caches::default();
    let mut other = quota(json!({ "pods": "1" }));
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "other".into();
    put::<ResourceQuota>(&mut caches, other);
    put::<ResourceQuota>(&mut caches, quota(json!({ "pods": "1" })));
    let mut counted = quota(json!({ "pods": "1" }));
    counted["metadata"]["resourceVersion"] = "3".into();
    counted["status"] = json!({ "hard": { "pods": "1" }, "used": { "pods": "0" } });
    let change = put::<ResourceQuota>(&mut caches, counted);
    let mut queue = Queue::default();
    Quotas.observe(&change, view(&caches), &mut queue);
    assert_eq!(queue.keys().collect::<Vec<_>>(), [&ObjectKey::new("n", "q")]);
}
