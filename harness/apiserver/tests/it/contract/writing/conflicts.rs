//! Conflicts and bodies that do not belong to their path, for each way of writing.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{DEPLOYMENTS, MAPS, contract, deployment};

#[test]
fn of_each_kind_of_patch() {
    contract!(async |site: &Site| {
        let old = site.step("POST", DEPLOYMENTS, deployment("a")).await.revision();
        let path = format!("{DEPLOYMENTS}/a");
        site.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        let stale = json!({ "metadata": { "resourceVersion": old } });
        site.patch(&path, "merge-patch", stale.clone()).await;
        site.patch(&path, "strategic-merge-patch", stale.clone()).await;
        site.patch(&format!("{path}/status"), "merge-patch", stale.clone())
            .await;
        site.patch(&format!("{path}/scale"), "merge-patch", stale).await;
    });
}

#[test]
fn of_a_replaced_status_and_scale() {
    contract!(async |site: &Site| {
        let old = site.step("POST", DEPLOYMENTS, deployment("a")).await.body;
        let path = format!("{DEPLOYMENTS}/a");
        let scale = site
            .quietly("GET", &format!("{path}/scale"), &[], Value::Null)
            .await
            .body;
        site.step("PUT", &path, deployment("a")).await;
        site.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        site.put(&format!("{path}/status"), old).await;
        site.put(&format!("{path}/scale"), scale).await;
    });
}

#[test]
fn of_uids() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.body;
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        site.config_map("a", "1").await;
        let uid = first["metadata"]["uid"].clone();
        let path = format!("{MAPS}/a");
        site.put(&path, json!({ "metadata": { "name": "a", "uid": uid } }))
            .await;
        site.patch(&path, "merge-patch", json!({ "metadata": { "uid": uid } }))
            .await;
        site.delete(&path, json!({ "preconditions": { "uid": uid } })).await;
        let both = json!({ "uid": uid, "resourceVersion": "1" });
        site.delete(&path, json!({ "preconditions": both })).await;
    });
}

#[test]
fn of_a_deleted_object() {
    contract!(async |site: &Site| {
        let old = site.config_map("a", "1").await.body;
        let path = format!("{MAPS}/a");
        site.step("DELETE", &path, Value::Null).await;
        site.put(&path, old).await;
        site.put(&path, json!({ "metadata": { "name": "a" } })).await;
        for kind in ["merge-patch", "strategic-merge-patch"] {
            site.patch(&path, kind, json!({ "data": {} })).await;
        }
        site.patch(&path, "json-patch", json!([])).await;
    });
}

#[test]
fn a_replacement_can_omit_what_the_server_sets() {
    contract!(async |site: &Site| {
        let first = site.step("POST", DEPLOYMENTS, deployment("a")).await.body;
        let path = format!("{DEPLOYMENTS}/a");
        site.merge(&format!("{path}/status"), json!({ "status": { "replicas": 1 } }))
            .await;
        let replaced = site.quietly("PUT", &path, &[], deployment("a")).await.body;
        for field in ["uid", "creationTimestamp", "generation"] {
            site.note(&format!(
                "{field}: {}",
                first["metadata"][field] == replaced["metadata"][field]
            ));
        }
        site.note(&replaced["status"].to_string());
    });
}
