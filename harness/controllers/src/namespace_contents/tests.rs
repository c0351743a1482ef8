use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{Action, Caches, Controller, Plan, View};

fn caches(namespace: serde_json::Value) -> Caches {
    let mut caches = Caches::default();
    caches.put::<Namespace>(serde_json::from_value(namespace).unwrap());
    caches
}

fn look<C: Controller<Key = String>>(mut controller: C, caches: &Caches) -> Plan<C::Reason> {
    let view = View {
        caches,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    controller.decide(&"n".to_owned(), view)
}

#[rstest]
#[case::a_new_namespace(json!({ "metadata": { "name": "n" } }), 1)]
#[case::a_deleted_namespace(json!({ "metadata": { "name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z" } }), 0)]
#[case::a_terminating_namespace(json!({ "metadata": { "name": "n" }, "status": { "phase": "Terminating" } }), 0)]
#[case::another(json!({ "metadata": { "name": "m" } }), 0)]
fn content_is_created_in_active_namespaces(#[case] namespace: serde_json::Value, #[case] actions: usize) {
    let caches = caches(namespace);
    assert_eq!(look(ServiceAccounts, &caches).actions.len(), actions);
    assert_eq!(
        look(RootCertificates::new("pem".to_owned()), &caches).actions.len(),
        actions
    );
}

#[test]
fn a_changed_certificate_is_restored_once() {
    let mut caches = caches(json!({ "metadata": { "name": "n" } }));
    let map =
        json!({ "metadata": { "name": "kube-root-ca.crt", "namespace": "n", "resourceVersion": "1" }, "data": {} });
    caches.put::<ConfigMap>(serde_json::from_value(map).unwrap());
    let plan = look(RootCertificates::new("pem".to_owned()), &caches);
    let [Action::Replace { object, .. }] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    let mut object: ConfigMap = serde_json::from_value(object.clone()).unwrap();
    object.metadata.resource_version = Some("2".to_owned());
    caches.put(object);
    assert!(
        look(RootCertificates::new("pem".to_owned()), &caches)
            .actions
            .is_empty()
    );
}
