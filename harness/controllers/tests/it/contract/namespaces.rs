//! Namespaces: their default content, and their termination.

use std::time::Duration;

use serde_json::{Value, json};

use super::garbage_collector::widget;
use super::{Site, contract};

const OWN: &str = "/api/v1/namespaces/{ns}";

async fn end(site: &Site) {
    site.delete(OWN, Value::Null).await;
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> Option<&'a Value> {
    namespace["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn map(name: &str, extra: Value) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    json_patch::merge(&mut object, &extra);
    object
}

#[test]
fn a_new_namespace_gets_an_account_and_a_certificate() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let map = site
            .until_it(path, "has a certificate", |map| map["data"]["ca.crt"].is_string())
            .await;
        assert!(map["metadata"]["annotations"]["kubernetes.io/description"].is_string());
    });
}

#[test]
fn a_deleted_account_is_created_again() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/serviceaccounts/default";
        let old = site.get(path).await;
        site.delete(path, Value::Null).await;
        let another = |account: &Value| account["metadata"]["uid"] != old["metadata"]["uid"];
        site.until_it(path, "is created again", another).await;
    });
}

#[test]
fn a_deleted_certificate_is_created_again() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let old = site.until_it(path, "exists", |_| true).await;
        site.delete(path, Value::Null).await;
        let another = |map: &Value| map["metadata"]["uid"] != old["metadata"]["uid"];
        site.until_it(path, "is created again", another).await;
    });
}

#[test]
fn a_changed_certificate_is_restored() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let old = site.until_it(path, "exists", |_| true).await;
        site.merge(path, json!({ "data": { "ca.crt": "changed", "more": "x" } }))
            .await;
        site.until_it(path, "is restored", |map| map["data"] == old["data"])
            .await;
    });
}

#[test]
fn an_empty_namespace_is_finalized() {
    contract!(async |site: &Site| {
        end(site).await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn the_content_is_deleted_first() {
    contract!(async |site: &Site| {
        site.create(map("a", json!({}))).await;
        widget(site, "w", json!({})).await;
        end(site).await;
        site.until_gone(OWN).await;
        assert!(site.list("/api/v1/namespaces/{ns}/configmaps").await.is_empty());
    });
}

#[test]
fn conditions_report_what_blocks_a_namespace() {
    contract!(async |site: &Site| {
        site.create(map(
            "held",
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        ))
        .await;
        end(site).await;
        let namespace = site
            .until_it(OWN, "reports remaining content", |namespace| {
                condition(namespace, "NamespaceFinalizersRemaining")
                    .is_some_and(|condition| condition["status"] == "True")
            })
            .await;
        let reason_and_message = |kind: &str| {
            let condition = condition(&namespace, kind).unwrap();
            format!(
                "{}: {}",
                condition["reason"].as_str().unwrap(),
                condition["message"].as_str().unwrap()
            )
        };
        assert_eq!(
            reason_and_message("NamespaceContentRemaining"),
            "SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"
        );
        assert_eq!(
            reason_and_message("NamespaceFinalizersRemaining"),
            "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        assert_eq!(
            reason_and_message("NamespaceDeletionContentFailure"),
            "ContentDeleted: All content successfully deleted, may be waiting on finalization"
        );
        assert_eq!(
            reason_and_message("NamespaceDeletionDiscoveryFailure"),
            "ResourcesDiscovered: All resources successfully discovered"
        );
        assert_eq!(namespace["status"]["phase"], "Terminating");
        site.merge(
            "/api/v1/namespaces/{ns}/configmaps/held",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn remaining_custom_resources_are_reported_with_their_group() {
    contract!(async |site: &Site| {
        widget(
            site,
            "held",
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        )
        .await;
        end(site).await;
        let wanted = format!("widgets.{}.example.com has 1 resource instances", site.namespace());
        site.until_it(OWN, "names the widgets", |namespace| {
            condition(namespace, "NamespaceContentRemaining")
                .is_some_and(|condition| condition["message"].as_str().unwrap().contains(&wanted))
        })
        .await;
        let path = site.path(&format!("{}.example.com/v1", site.namespace()), "Widget", "held");
        site.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn gracefully_terminating_pods_block_other_content() {
    contract!(async |site: &Site| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
            "spec": { "nodeName": "{ns}", "containers": [{ "name": "c", "image": "i" }] },
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "{ns}" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        site.create(node).await;
        site.create(pod).await;
        site.create(map("a", json!({}))).await;
        end(site).await;
        let path = "/api/v1/namespaces/{ns}/pods/p";
        site.until_it(path, "ends", |pod| pod["metadata"]["deletionTimestamp"].is_string())
            .await;
        // The messages differ: kube-controller-manager does not count pods that it waits for.
        site.until_it(OWN, "has been evaluated", |namespace| {
            condition(namespace, "NamespaceContentRemaining").is_some()
        })
        .await;
        assert!(site.find("/api/v1/namespaces/{ns}/configmaps/a").await.is_some());
        site.delete(path, json!({ "gracePeriodSeconds": 0 })).await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn nothing_is_created_in_a_terminating_namespace() {
    contract!(async |site: &Site| {
        site.create(map(
            "held",
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        ))
        .await;
        end(site).await;
        let path = "/api/v1/namespaces/{ns}/serviceaccounts/default";
        site.until_gone(path).await;
        let there = |account: Option<&Value>| account.is_some();
        site.never(path, Duration::from_secs(2), "is created again", there)
            .await;
        site.merge(
            "/api/v1/namespaces/{ns}/configmaps/held",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn a_namespace_waits_for_its_own_finalizers() {
    contract!(async |site: &Site| {
        site.merge(OWN, json!({ "metadata": { "finalizers": ["example.com/hold"] } }))
            .await;
        site.create(map("a", json!({}))).await;
        end(site).await;
        site.until_it(OWN, "is finalized", |namespace| {
            namespace["spec"]["finalizers"].is_null()
        })
        .await;
        assert!(site.find("/api/v1/namespaces/{ns}/configmaps/a").await.is_none());
        site.merge(OWN, json!({ "metadata": { "finalizers": null } })).await;
        site.until_gone(OWN).await;
    });
}
