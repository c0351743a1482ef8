//! Deletion: preconditions, finalizers, grace, collections, namespaces.

use serde_json::{Value, json};

use super::contract;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

#[test]
fn a_finalizer_keeps_an_object_until_it_is_removed() {
    contract!(async |site: &super::Site| {
        let path = format!("{MAPS}/a");
        site.step(
            "POST",
            MAPS,
            json!({ "metadata": { "name": "a", "finalizers": ["x.io/a", "x.io/b"] } }),
        )
        .await;
        let deleted = site.delete(&path, Value::Null).await;
        let mut watch = site
            .watch(&format!(
                "{MAPS}?watch=true&resourceVersion={}&fieldSelector=metadata.name%3Da",
                deleted.revision()
            ))
            .await;
        site.delete(&path, Value::Null).await;
        site.merge(
            &path,
            json!({ "metadata": { "finalizers": ["x.io/a", "x.io/b", "x.io/c"] } }),
        )
        .await;
        site.merge(&path, json!({ "metadata": { "finalizers": ["x.io/b"] } }))
            .await;
        site.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
        site.get(&path).await;
        watch.expect(2).await;
    });
}

#[test]
fn preconditions_are_checked() {
    contract!(async |site: &super::Site| {
        let created = site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.delete(
            &path,
            json!({ "preconditions": { "uid": "00000000-0000-4000-8000-000000000000" } }),
        )
        .await;
        site.delete(&path, json!({ "preconditions": { "resourceVersion": "1" } }))
            .await;
        site.delete(
            &path,
            json!({ "preconditions": { "uid": created.body["metadata"]["uid"] } }),
        )
        .await;
    });
}

#[test]
fn options_of_a_deletion_are_checked() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.delete(&path, json!({ "propagationPolicy": "Other" })).await;
        site.delete(
            &path,
            json!({ "propagationPolicy": "Orphan", "orphanDependents": true }),
        )
        .await;
        site.delete(&path, json!({ "kind": "Pod", "apiVersion": "v1" })).await;
        site.delete(&path, json!({ "dryRun": ["x"] })).await;
        site.delete(
            &path,
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background" }),
        )
        .await;
    });
}

#[test]
fn a_missing_object_cannot_be_deleted() {
    contract!(async |site: &super::Site| {
        site.delete(&format!("{MAPS}/missing"), Value::Null).await;
    });
}

#[test]
fn a_collection_is_deleted_by_selector() {
    contract!(async |site: &super::Site| {
        for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
            site.config_map(name, value).await;
        }
        site.delete(&format!("{MAPS}?labelSelector=value%3D1"), Value::Null)
            .await;
        site.get(&format!("{MAPS}?labelSelector=value")).await;
    });
}

#[test]
fn a_pod_on_a_node_gets_a_grace_period() {
    contract!(async |site: &super::Site| {
        let pods = "/api/v1/namespaces/{ns}/pods";
        let body = json!({
            "metadata": { "name": "p" },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
        });
        let created = site.step("POST", pods, body).await;
        let mut watch = site
            .watch(&format!("{pods}?watch=true&resourceVersion={}", created.revision()))
            .await;
        site.delete(&format!("{pods}/p"), Value::Null).await;
        site.step("DELETE", &format!("{pods}/p"), json!({ "gracePeriodSeconds": 60 }))
            .await;
        site.step("DELETE", &format!("{pods}/p"), json!({ "gracePeriodSeconds": 5 }))
            .await;
        site.delete(&format!("{pods}/p"), json!({ "gracePeriodSeconds": 0 }))
            .await;
        watch.expect_brief(3).await;
    });
}

#[test]
fn a_pod_without_a_node_is_deleted_immediately() {
    contract!(async |site: &super::Site| {
        let pods = "/api/v1/namespaces/{ns}/pods";
        let body = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        site.step("POST", pods, body).await;
        site.delete(&format!("{pods}/p"), Value::Null).await;
        site.get(&format!("{pods}/p")).await;
    });
}

#[test]
fn removing_the_last_finalizer_deletes_a_terminating_object() {
    contract!(async |site: &super::Site| {
        let path = format!("{MAPS}/a");
        site.step(
            "POST",
            MAPS,
            json!({ "metadata": { "name": "a", "finalizers": ["x.io/a"] } }),
        )
        .await;
        site.step("DELETE", &path, Value::Null).await;
        let mut body = site.quietly("GET", &path, &[], Value::Null).await.body;
        body["metadata"]["finalizers"] = Value::Null;
        site.put(&path, body).await;
        site.get(&path).await;
    });
}

#[test]
fn creation_in_a_terminating_or_missing_namespace_is_rejected() {
    contract!(async |site: &super::Site| {
        site.step(
            "POST",
            MAPS,
            json!({ "metadata": { "name": "a", "finalizers": ["x.io/a"] } }),
        )
        .await;
        let ended = site
            .quietly("DELETE", "/api/v1/namespaces/{ns}", &[], Value::Null)
            .await;
        site.note(&format!("{} {}", ended.code, ended.body["status"]["phase"]));
        site.post(MAPS, json!({ "metadata": { "name": "b" } })).await;
        site.post(
            "/api/v1/namespaces/nowhere/configmaps",
            json!({ "metadata": { "name": "b" } }),
        )
        .await;
        site.step("PATCH", &format!("{MAPS}/a"), Value::Null).await;
        let patch = json!({ "metadata": { "finalizers": null } });
        site.quietly(
            "PATCH",
            &format!("{MAPS}/a"),
            &[("content-type", "application/merge-patch+json")],
            patch,
        )
        .await;
    });
}

#[test]
fn system_namespaces_cannot_be_deleted() {
    contract!(async |site: &super::Site| {
        for name in ["default", "kube-system", "kube-public"] {
            site.delete(&format!("/api/v1/namespaces/{name}"), Value::Null).await;
        }
    });
}
