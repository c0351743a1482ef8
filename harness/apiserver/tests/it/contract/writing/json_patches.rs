//! JSON patches: operations, paths, what they may change. And what merge patches do with lists and nulls.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{DEPLOYMENTS, MAPS, contract, deployment, patched};

const JSON: &str = "json-patch";

/// Records code and reason: the messages are those of a library.
async fn refused(site: &Site, path: &str, patch: Value) {
    let headers = [("content-type", "application/json-patch+json")];
    let answer = site.quietly("PATCH", path, &headers, patch.clone()).await;
    site.note(&format!("{patch}: {} {}", answer.code, answer.body["reason"]));
}

async fn map(site: &Site) -> String {
    let map =
        json!({ "metadata": { "name": "a", "finalizers": ["x.io/a", "x.io/b"] }, "data": { "k/1": "1", "k~2": "2" } });
    site.quietly("POST", MAPS, &[], map).await;
    format!("{MAPS}/a?dryRun=All")
}

#[test]
fn items_of_a_list_have_numbers() {
    contract!(async |site: &Site| {
        let path = map(site).await;
        let item = "x.io/c";
        for patch in [
            json!([{ "op": "add", "path": "/metadata/finalizers/0", "value": item }]),
            json!([{ "op": "add", "path": "/metadata/finalizers/2", "value": item }]),
            json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": item }]),
            json!([{ "op": "replace", "path": "/metadata/finalizers/1", "value": item }]),
            json!([{ "op": "remove", "path": "/metadata/finalizers/0" }]),
            json!([{ "op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/1" }]),
            json!([{ "op": "add", "path": "/metadata/finalizers", "value": [item] }]),
        ] {
            patched(site, &path, JSON, patch, "/metadata/finalizers").await;
        }
        for patch in [
            json!([{ "op": "add", "path": "/metadata/finalizers/9", "value": item }]),
            json!([{ "op": "remove", "path": "/metadata/finalizers/9" }]),
            json!([{ "op": "remove", "path": "/metadata/finalizers/-" }]),
            json!([{ "op": "add", "path": "/metadata/finalizers/x", "value": item }]),
        ] {
            refused(site, &path, patch).await;
        }
    });
}

#[test]
fn keys_are_escaped() {
    contract!(async |site: &Site| {
        let patches = [
            json!([{ "op": "add", "path": "/metadata/annotations", "value": { "a/b": "1", "c~d": "2" } }]),
            json!([
                { "op": "add", "path": "/metadata/annotations", "value": { "a.io/b": "1" } },
                { "op": "replace", "path": "/metadata/annotations/a.io~1b", "value": "3" },
            ]),
            json!([
                { "op": "add", "path": "/metadata/annotations", "value": {} },
                { "op": "add", "path": "/metadata/annotations/a.io~1b", "value": "1" },
                { "op": "copy", "from": "/metadata/annotations/a.io~1b", "path": "/metadata/annotations/a.io~1c" },
                { "op": "move", "from": "/metadata/annotations/a.io~1b", "path": "/metadata/annotations/a.io~1d" },
            ]),
        ];
        site.config_map("a", "1").await;
        for patch in patches {
            patched(
                site,
                &format!("{MAPS}/a?dryRun=All"),
                JSON,
                patch,
                "/metadata/annotations",
            )
            .await;
        }
    });
}

#[test]
fn tests_compare_values() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a?dryRun=All");
        let check = |path: &str, value: Value| json!([{ "op": "test", "path": path, "value": value }]);
        for patch in [
            check("/spec/replicas", json!(1)),
            check("/spec/selector", json!({ "matchLabels": { "app": "x" } })),
            check("/spec/selector/matchLabels/app", json!("x")),
            check("/metadata/labels", Value::Null),
            check("/spec/template/spec/containers/0/name", json!("c")),
        ] {
            patched(site, &path, JSON, patch, "/metadata/name").await;
        }
        for patch in [
            check("/spec/replicas", json!("1")),
            check("/spec/replicas", json!(2)),
            check("/spec/selector", json!({})),
            check("/spec/template/spec/containers", json!([])),
            check("/spec/absent", json!(1)),
        ] {
            refused(site, &path, patch).await;
        }
    });
}

#[test]
fn a_failed_operation_undoes_the_others() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        let patch = json!([
            { "op": "replace", "path": "/data/key", "value": "2" },
            { "op": "test", "path": "/data/key", "value": "1" },
        ]);
        refused(site, &path, patch).await;
        let patch = json!([
            { "op": "replace", "path": "/data/key", "value": "2" },
            { "op": "test", "path": "/data/key", "value": "2" },
        ]);
        patched(site, &path, JSON, patch, "/data").await;
        patched(site, &path, JSON, json!([]), "/data").await;
    });
}

#[test]
fn a_revision_is_tested() {
    contract!(async |site: &Site| {
        let created = site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        let patch = |revision: &str| {
            json!([
                { "op": "test", "path": "/metadata/resourceVersion", "value": revision },
                { "op": "add", "path": "/data/k", "value": "2" },
            ])
        };
        let headers = [("content-type", "application/json-patch+json")];
        for attempt in ["first", "second"] {
            let answer = site.quietly("PATCH", &path, &headers, patch(&created.revision())).await;
            site.note(&format!("{attempt}: {} {}", answer.code, answer.body["reason"]));
        }
        let stale = json!([{ "op": "replace", "path": "/metadata/resourceVersion", "value": created.revision() }]);
        let answer = site.quietly("PATCH", &path, &headers, stale).await;
        site.note(&format!("replaced: {} {}", answer.code, answer.body["message"]));
    });
}

#[test]
fn identity_cannot_be_changed() {
    contract!(async |site: &Site| {
        let path = map(site).await;
        for patch in [
            json!([{ "op": "replace", "path": "/metadata/name", "value": "b" }]),
            json!([{ "op": "replace", "path": "/metadata/namespace", "value": "default" }]),
            json!([{ "op": "replace", "path": "/metadata/uid", "value": "b" }]),
            json!([{ "op": "remove", "path": "/metadata/name" }]),
            json!([{ "op": "remove", "path": "/metadata/uid" }]),
            json!([{ "op": "remove", "path": "/metadata/resourceVersion" }]),
            json!([{ "op": "remove", "path": "/metadata/creationTimestamp" }]),
            json!([{ "op": "replace", "path": "/kind", "value": "Secret" }]),
            json!([{ "op": "replace", "path": "/apiVersion", "value": "v2" }]),
        ] {
            patched(site, &path, JSON, patch, "/metadata/name").await;
        }
    });
}

#[test]
fn a_merge_patch_replaces_lists_and_drops_nulls() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a?dryRun=All");
        let containers = "/spec/template/spec/containers";
        let template = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
        for (patch, part) in [
            (
                template(json!({ "containers": [{ "name": "d", "image": "j:1" }] })),
                "/spec/template/spec/containers/0/name",
            ),
            (template(json!({ "containers": [{ "name": "c" }] })), containers),
            (template(json!({ "containers": [] })), containers),
            (template(json!({ "containers": null })), containers),
            (
                template(json!({ "nodeSelector": { "a": null, "b": "1" } })),
                "/spec/template/spec/nodeSelector",
            ),
            (json!({ "spec": { "replicas": null } }), "/spec/replicas"),
            (json!({ "spec": { "absent": null } }), "/spec/replicas"),
            (
                json!({ "metadata": { "labels": { "a": "1", "b": null } } }),
                "/metadata/labels",
            ),
            (json!({ "metadata": { "labels": {} } }), "/metadata/labels"),
        ] {
            let headers = [("content-type", "application/merge-patch+json")];
            let answer = site.quietly("PATCH", &path, &headers, patch.clone()).await;
            let message = answer.body["message"].as_str().map(str::to_owned);
            let part = answer.body.pointer(part).unwrap_or(&Value::Null).to_string();
            site.note(&format!("{patch} -> {} {}", answer.code, message.unwrap_or(part)));
        }
    });
}

#[test]
fn a_media_type_can_have_parameters() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        for media_type in [
            "application/merge-patch+json; charset=utf-8",
            "application/merge-patch+json;",
            "APPLICATION/merge-patch+json",
            " application/merge-patch+json",
            "application/merge-patch+json,application/json-patch+json",
            "application/merge-patch+yaml",
        ] {
            let headers = [("content-type", media_type)];
            let answer = site
                .quietly("PATCH", &format!("{MAPS}/a"), &headers, json!({ "data": { "k": "2" } }))
                .await;
            site.note(&format!("{media_type}: {} {}", answer.code, answer.body["reason"]));
        }
    });
}

#[test]
fn a_patch_without_changes_creates_no_revision() {
    contract!(async |site: &Site| {
        let created = site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a");
        let replicas = json!([{ "op": "replace", "path": "/spec/replicas", "value": 1 }]);
        let container =
            json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } } });
        for (kind, patch) in [
            ("json-patch", replicas),
            ("strategic-merge-patch", container),
            ("merge-patch", json!({ "spec": { "replicas": 1 } })),
            ("merge-patch", json!({ "spec": { "replicas": null } })),
            ("merge-patch", json!({ "metadata": { "labels": {} } })),
            ("merge-patch", json!({})),
        ] {
            let media_type = format!("application/{kind}+json");
            let answer = site
                .quietly("PATCH", &path, &[("content-type", &media_type)], patch.clone())
                .await;
            site.note(&format!(
                "{patch}: {} {}",
                answer.code,
                answer.revision() == created.revision()
            ));
        }
    });
}
