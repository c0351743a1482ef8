//! Namespaces: what each has, and how one ends.

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
fn a_new_namespace_has_an_account_and_a_certificate() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let map = site
            .until_it(path, "has a certificate", |map| map["data"]["ca.crt"].is_string())
            .await;
        assert!(map["metadata"]["annotations"]["kubernetes.io/description"].is_string());
    });
}

#[test]
fn a_deleted_account_comes_back() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/serviceaccounts/default";
        let old = site.get(path).await;
        site.delete(path, Value::Null).await;
        let another = |account: &Value| account["metadata"]["uid"] != old["metadata"]["uid"];
        site.until_it(path, "comes back", another).await;
    });
}

#[test]
fn a_deleted_certificate_comes_back() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let old = site.until_it(path, "is there", |_| true).await;
        site.delete(path, Value::Null).await;
        let another = |map: &Value| map["metadata"]["uid"] != old["metadata"]["uid"];
        site.until_it(path, "comes back", another).await;
    });
}

#[test]
fn a_changed_certificate_is_put_right() {
    contract!(async |site: &Site| {
        let path = "/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt";
        let old = site.until_it(path, "is there", |_| true).await;
        site.merge(path, json!({ "data": { "ca.crt": "changed", "more": "x" } }))
            .await;
        site.until_it(path, "is right again", |map| map["data"] == old["data"])
            .await;
    });
}

#[test]
fn an_empty_namespace_ends() {
    contract!(async |site: &Site| {
        end(site).await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn everything_in_it_ends_first() {
    contract!(async |site: &Site| {
        site.create(map("a", json!({}))).await;
        widget(site, "w", json!({})).await;
        end(site).await;
        site.until_gone(OWN).await;
        assert!(site.list("/api/v1/namespaces/{ns}/configmaps").await.is_empty());
    });
}

#[test]
fn what_holds_a_namespace_up_is_in_its_conditions() {
    contract!(async |site: &Site| {
        site.create(map(
            "held",
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        ))
        .await;
        end(site).await;
        let namespace = site
            .until_it(OWN, "says what is left", |namespace| {
                condition(namespace, "NamespaceFinalizersRemaining")
                    .is_some_and(|condition| condition["status"] == "True")
            })
            .await;
        let said = |kind: &str| {
            let condition = condition(&namespace, kind).unwrap();
            format!(
                "{}: {}",
                condition["reason"].as_str().unwrap(),
                condition["message"].as_str().unwrap()
            )
        };
        assert_eq!(
            said("NamespaceContentRemaining"),
            "SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"
        );
        assert_eq!(
            said("NamespaceFinalizersRemaining"),
            "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        assert_eq!(
            said("NamespaceDeletionContentFailure"),
            "ContentDeleted: All content successfully deleted, may be waiting on finalization"
        );
        assert_eq!(
            said("NamespaceDeletionDiscoveryFailure"),
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
fn what_custom_resources_are_left_is_said_with_their_group() {
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
fn pods_that_end_in_peace_hold_the_rest_up() {
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
        // What it says then differs: kube-controller-manager does not count pods that it waits for.
        site.until_it(OWN, "has been looked at", |namespace| {
            condition(namespace, "NamespaceContentRemaining").is_some()
        })
        .await;
        assert!(site.find("/api/v1/namespaces/{ns}/configmaps/a").await.is_some());
        site.delete(path, json!({ "gracePeriodSeconds": 0 })).await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn nothing_is_made_again_in_a_namespace_that_ends() {
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
        site.never(path, Duration::from_secs(2), "is made again", there).await;
        site.merge(
            "/api/v1/namespaces/{ns}/configmaps/held",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        site.until_gone(OWN).await;
    });
}

#[test]
fn a_namespace_with_a_finalizer_of_its_own_waits_for_it() {
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
