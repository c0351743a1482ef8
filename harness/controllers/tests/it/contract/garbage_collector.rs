//! Owners and dependents.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, contract};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn map_path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

/// Creates a config map with these owners.
async fn map(site: &Site, name: &str, owners: &[Value]) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "ownerReferences": owners },
    });
    site.create(object).await
}

fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"], "uid": metadata["uid"] })
}

fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

fn foreign_reference(name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid })
}

const NOBODY: &str = "00000000-0000-0000-0000-000000000001";

fn propagate(policy: &str) -> Value {
    json!({ "propagationPolicy": policy })
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == name))
}

#[test]
fn dependents_are_deleted_after_their_owner() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        let middle = map(site, "middle", &[owner(&top)]).await;
        map(site, "bottom", &[owner(&middle)]).await;
        site.delete(&map_path("top"), propagate("Background")).await;
        site.until_gone(&map_path("middle")).await;
        site.until_gone(&map_path("bottom")).await;
    });
}

#[test]
fn a_foreground_deleted_owner_outlives_dependents_that_block_it() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        map(site, "held", &[blocking(&top)]).await;
        site.merge(
            &map_path("held"),
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        )
        .await;
        let deleted = site.delete(&map_path("top"), propagate("Foreground")).await;
        assert!(has_finalizer(&deleted, "foregroundDeletion"), "{deleted:#}");
        let deleting = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        site.until_it(&map_path("held"), "is being deleted", deleting).await;
        assert!(site.find(&map_path("top")).await.is_some());
        site.merge(&map_path("held"), json!({ "metadata": { "finalizers": null } }))
            .await;
        site.until_gone(&map_path("top")).await;
        assert!(site.find(&map_path("held")).await.is_none());
    });
}

#[test]
fn a_foreground_deletion_does_not_wait_for_dependents_that_do_not_block() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        map(site, "held", &[owner(&top)]).await;
        site.merge(
            &map_path("held"),
            json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
        )
        .await;
        site.delete(&map_path("top"), propagate("Foreground")).await;
        site.until_gone(&map_path("top")).await;
        assert!(site.find(&map_path("held")).await.is_some());
        site.merge(&map_path("held"), json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}

#[test]
fn a_foreground_deletion_deletes_the_whole_tree_bottom_up() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        let middle = map(site, "middle", &[blocking(&top)]).await;
        map(site, "bottom", &[blocking(&middle)]).await;
        site.delete(&map_path("top"), propagate("Foreground")).await;
        site.until_gone(&map_path("top")).await;
        assert!(site.find(&map_path("middle")).await.is_none());
        assert!(site.find(&map_path("bottom")).await.is_none());
    });
}

#[test]
fn orphaned_dependents_lose_the_reference_and_stay() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        map(site, "child", &[owner(&top)]).await;
        site.delete(&map_path("top"), propagate("Orphan")).await;
        site.until_gone(&map_path("top")).await;
        let child = site.get(&map_path("child")).await;
        assert_eq!(owners(&child), 0, "{child:#}");
    });
}

#[test]
fn deleting_one_of_two_owners_removes_only_its_reference() {
    contract!(async |site: &Site| {
        let (one, two) = (map(site, "one", &[]).await, map(site, "two", &[]).await);
        map(site, "child", &[owner(&one), owner(&two)]).await;
        site.delete(&map_path("one"), propagate("Background")).await;
        let child = site
            .until_it(&map_path("child"), "has one owner", |child| owners(child) == 1)
            .await;
        assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "two");
    });
}

#[test]
fn foreground_deletion_of_one_of_two_owners_removes_only_its_reference() {
    contract!(async |site: &Site| {
        let (one, two) = (map(site, "one", &[]).await, map(site, "two", &[]).await);
        map(site, "child", &[blocking(&one), owner(&two)]).await;
        site.delete(&map_path("one"), propagate("Foreground")).await;
        site.until_gone(&map_path("one")).await;
        let child = site.get(&map_path("child")).await;
        assert_eq!(owners(&child), 1, "{child:#}");
    });
}

#[test]
fn a_cycle_of_owners_does_not_block_deletion() {
    contract!(async |site: &Site| {
        let a = map(site, "a", &[]).await;
        let b = map(site, "b", &[blocking(&a)]).await;
        let c = map(site, "c", &[blocking(&b)]).await;
        site.merge(
            &map_path("a"),
            json!({ "metadata": { "ownerReferences": [blocking(&c)] } }),
        )
        .await;
        site.delete(&map_path("a"), propagate("Foreground")).await;
        for name in ["a", "b", "c"] {
            site.until_gone(&map_path(name)).await;
        }
    });
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_no_owner() {
    contract!(async |site: &Site| {
        map(site, "owner", &[]).await;
        map(site, "child", &[foreign_reference("owner", NOBODY)]).await;
        site.until_gone(&map_path("child")).await;
        assert!(site.find(&map_path("owner")).await.is_some());
    });
}

#[test]
fn a_dependent_created_after_its_owner_was_deleted_is_deleted() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        site.delete(&map_path("top"), propagate("Background")).await;
        site.until_gone(&map_path("top")).await;
        map(site, "late", &[owner(&top)]).await;
        site.until_gone(&map_path("late")).await;
    });
}

#[test]
fn an_object_that_gets_a_reference_to_an_absent_owner_is_deleted() {
    contract!(async |site: &Site| {
        map(site, "free", &[]).await;
        let patch = json!({ "metadata": { "ownerReferences": [foreign_reference("nobody", NOBODY)] } });
        site.merge(&map_path("free"), patch).await;
        site.until_gone(&map_path("free")).await;
    });
}

#[test]
fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    contract!(async |site: &Site| {
        let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Unheard", "name": "x", "uid": NOBODY });
        map(site, "child", &[unknown]).await;
        let gone = |object: Option<&Value>| object.is_none();
        site.never(&map_path("child"), Duration::from_secs(3), "deleted", gone)
            .await;
    });
}

#[test]
fn owners_and_dependents_of_different_kinds() {
    contract!(async |site: &Site| {
        let top = map(site, "top", &[]).await;
        let object = |kind: &str| {
            let metadata = json!({ "name": "child", "ownerReferences": [owner(&top)] });
            json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })
        };
        for kind in ["Secret", "ServiceAccount"] {
            site.create(object(kind)).await;
        }
        site.delete(&map_path("top"), propagate("Background")).await;
        for kind in ["Secret", "ServiceAccount"] {
            site.until_gone(&site.path("v1", kind, "child")).await;
        }
    });
}

#[test]
fn a_dependent_of_a_cluster_scoped_owner_is_deleted_after_it() {
    contract!(async |site: &Site| {
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "{ns}" }, "value": 1 });
        let class = site.create(class).await;
        map(site, "child", &[owner(&class)]).await;
        site.delete(
            "/apis/scheduling.k8s.io/v1/priorityclasses/{ns}",
            propagate("Background"),
        )
        .await;
        site.until_gone(&map_path("child")).await;
    });
}

#[test]
fn a_namespaced_owner_does_not_affect_a_cluster_scoped_object() {
    contract!(async |site: &Site| {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1,
            "metadata": { "name": "{ns}", "ownerReferences": [foreign_reference("nobody", NOBODY)] },
        });
        site.create(class).await;
        let gone = |object: Option<&Value>| object.is_none();
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses/{ns}";
        site.never(path, Duration::from_secs(3), "deleted", gone).await;
    });
}

#[test]
fn an_owner_in_another_namespace_is_absent_and_reported() {
    contract!(async |site: &Site| {
        let other = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "{ns}-other" } });
        site.create(other).await;
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "far", "namespace": format!("{}-other", site.namespace()) } });
        let far = site.create(object).await;
        let child = map(site, "child", &[owner(&far)]).await;
        assert_eq!(owners(&child), 1);
        site.until_gone(&map_path("child")).await;
        site.until_event("child", "OwnerRefInvalidNamespace").await;
    });
}

async fn widgets(site: &Site, definition: &str) {
    site.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{definition}") },
        "spec": {
            "group": definition, "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                "subresources": { "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } },
            }],
        },
    }))
    .await;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{definition}");
    site.until_it(&path, "established", |definition| {
        let conditions = definition["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Established" && one["status"] == "True")
        })
    })
    .await;
}

/// Creates a widget as soon as its kind is served, which may be shortly after its definition is established.
pub(super) async fn widget(site: &Site, name: &str, extra: Value) -> Value {
    let group = format!("{}.example.com", site.namespace());
    if site
        .find(&format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}"
        ))
        .await
        .is_none()
    {
        widgets(site, &group).await;
    }
    let mut object = json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": { "name": name } });
    json_patch::merge(&mut object, &extra);
    for _ in 0..50 {
        match site.try_create(object.clone()).await {
            Ok(created) => return created,
            Err(refusal) if refusal.code == 404 => site.pass(Duration::from_millis(100)).await,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    panic!("widgets are never served");
}

#[test]
fn custom_resources_own_and_are_owned() {
    contract!(async |site: &Site| {
        let top = widget(site, "top", json!({})).await;
        widget(
            site,
            "below",
            json!({ "metadata": { "ownerReferences": [owner(&top)] } }),
        )
        .await;
        map(site, "child", &[owner(&top)]).await;
        let group = format!("{}.example.com", site.namespace());
        let path = |name: &str| site.path(&format!("{group}/v1"), "Widget", name);
        site.delete(&path("top"), propagate("Background")).await;
        site.until_gone(&path("below")).await;
        site.until_gone(&map_path("child")).await;
    });
}

#[test]
fn a_custom_resource_waits_for_dependents_that_block_it() {
    contract!(async |site: &Site| {
        let top = widget(site, "top", json!({})).await;
        map(site, "child", &[blocking(&top)]).await;
        let group = format!("{}.example.com", site.namespace());
        let path = site.path(&format!("{group}/v1"), "Widget", "top");
        site.delete(&path, propagate("Foreground")).await;
        site.until_gone(&path).await;
        assert!(site.find(&map_path("child")).await.is_none());
    });
}
