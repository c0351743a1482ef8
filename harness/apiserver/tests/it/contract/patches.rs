//! Patches in the three formats.

use serde_json::json;

use super::contract;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

#[test]
fn a_json_patch_changes_adds_and_removes() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        let patch = json!([
            { "op": "test", "path": "/data/key", "value": "1" },
            { "op": "add", "path": "/data/x~1y", "value": "2" },
            { "op": "copy", "from": "/data/key", "path": "/data/z" },
            { "op": "remove", "path": "/metadata/labels" },
        ]);
        site.patch(&path, "json-patch", patch).await;
    });
}

#[test]
fn a_json_patch_that_does_not_apply_is_rejected() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        for patch in [
            json!([{ "op": "test", "path": "/data/key", "value": "2" }]),
            json!([{ "op": "remove", "path": "/data/missing" }]),
            json!([{ "op": "replace", "path": "/data/missing", "value": "2" }]),
            json!([{ "op": "add", "path": "/no/where", "value": "2" }]),
            json!([{ "op": "other", "path": "/data" }]),
            json!({ "op": "add" }),
        ] {
            site.patch(&path, "json-patch", patch).await;
        }
        site.patch(&path, "json-patch", "nonsense".into()).await;
    });
}

#[test]
fn a_merge_patch_merges_and_removes() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.merge(
            &path,
            json!({ "data": { "key": null, "other": "2" }, "metadata": { "annotations": { "n": "m" } } }),
        )
        .await;
        site.merge(&path, json!([])).await;
        site.merge(&path, "nonsense".into()).await;
        site.merge(&path, json!({ "data": 5 })).await;
        site.merge(&path, json!({ "data": { "k": 5 } })).await;
        site.merge(&format!("{MAPS}/missing"), json!({ "data": {} })).await;
    });
}

#[test]
fn a_revision_in_a_patch_is_a_precondition() {
    contract!(async |site: &super::Site| {
        let created = site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.merge(
            &path,
            json!({ "metadata": { "resourceVersion": created.revision() }, "data": { "k": "2" } }),
        )
        .await;
        site.merge(
            &path,
            json!({ "metadata": { "resourceVersion": created.revision() }, "data": { "k": "3" } }),
        )
        .await;
    });
}

#[test]
fn a_strategic_patch_merges_lists_by_their_keys() {
    contract!(async |site: &super::Site| {
        let pod = json!({
            "metadata": { "name": "p", "finalizers": ["x.io/a"] },
            "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "i" }, { "name": "b", "image": "i" }] },
        });
        site.step("POST", PODS, pod).await;
        let path = format!("{PODS}/p");
        let kind = "strategic-merge-patch";
        site.patch(
            &path,
            kind,
            json!({ "spec": { "containers": [{ "name": "b", "image": "j" }] } }),
        )
        .await;
        site.patch(&path, kind, json!({ "metadata": { "finalizers": ["x.io/b"] } }))
            .await;
        site.patch(
            &path,
            kind,
            json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["x.io/a"] } }),
        )
        .await;
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
        site.patch(&format!("{path}/status"), kind, status).await;
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "X", "status": "True" }] } });
        site.patch(&format!("{path}/status"), kind, status).await;
        let status = json!({ "status": { "conditions": [{ "$patch": "delete", "type": "X" }] } });
        site.patch(&format!("{path}/status"), kind, status).await;
        site.patch(
            &path,
            kind,
            json!({ "spec": { "containers": [{ "image": "no-name" }] } }),
        )
        .await;
        site.patch(&path, kind, json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}

#[test]
fn taints_are_replaced_as_a_whole_and_addresses_merged() {
    contract!(async |site: &super::Site| {
        site.step("POST", "/api/v1/nodes", json!({ "metadata": { "name": "{ns}" } }))
            .await;
        let path = "/api/v1/nodes/{ns}";
        let kind = "strategic-merge-patch";
        site.patch(
            path,
            kind,
            json!({ "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }], "unschedulable": true } }),
        )
        .await;
        site.patch(
            path,
            kind,
            json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }], "unschedulable": null } }),
        )
        .await;
        let addresses =
            json!([{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": "h" }]);
        site.patch(
            &format!("{path}/status"),
            kind,
            json!({ "status": { "addresses": addresses } }),
        )
        .await;
        let addresses = json!([{ "type": "InternalIP", "address": "10.0.0.2" }]);
        site.patch(
            &format!("{path}/status"),
            kind,
            json!({ "status": { "addresses": addresses } }),
        )
        .await;
    });
}

#[test]
fn a_patch_is_validated_like_an_update() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.merge(&path, json!({ "data": { "bad key": "1" } })).await;
        site.merge(&path, json!({ "metadata": { "labels": { "x": "a b" } } }))
            .await;
        site.merge(
            &format!("{path}?fieldValidation=Strict"),
            json!({ "extra": 1, "metadata": { "more": 2 } }),
        )
        .await;
        site.merge(&format!("{path}?fieldValidation=Warn"), json!({ "extra": 1 }))
            .await;
        site.merge(&path, json!({ "kind": "Secret" })).await;
        site.merge(&path, json!({ "apiVersion": "v2" })).await;
    });
}

#[test]
fn patches_with_unknown_media_types_are_rejected() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        for media_type in ["application/json", "text/plain", "application/merge-patch"] {
            let headers = [("content-type", media_type)];
            let answer = site.quietly("PATCH", &format!("{MAPS}/a"), &headers, json!({})).await;
            site.note(&format!("{media_type}: {} {}", answer.code, answer.body["reason"]));
        }
    });
}
