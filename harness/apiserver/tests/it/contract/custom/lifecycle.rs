//! Custom resources through their life: names, patches, deletion, cluster scope.

use serde_json::{Value, json};

use super::{Site, WIDGETS, checked, contract, schema, version, widget, with};

fn any() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

#[test]
fn names_and_metadata_are_checked() {
    contract!(async |site: &Site| {
        site.define(version(any())).await;
        for name in ["a.b", "A", "a_b", "1a", "-a", "a:b", ""] {
            checked(site, name, "POST", WIDGETS, widget(name, json!({}))).await;
        }
        for metadata in [
            json!({ "labels": { "a": "b c" } }),
            json!({ "annotations": { "a b": "" } }),
            json!({ "ownerReferences": [{ "apiVersion": "v1", "kind": "", "name": "", "uid": "" }] }),
            json!({ "finalizers": ["x y"] }),
            json!({ "namespace": "other" }),
            json!({ "labels": { "a": 5 } }),
            json!({ "resourceVersion": "5" }),
        ] {
            let mut object = widget("a", json!({}));
            object["metadata"] = with(&json!({ "name": "a" }), metadata.clone());
            checked(site, &metadata.to_string(), "POST", WIDGETS, object).await;
        }
    });
}

#[test]
fn json_and_merge_patches() {
    contract!(async |site: &Site| {
        site.define(version(schema(json!({
            "n": { "type": "integer" }, "list": { "type": "array", "items": { "type": "string" } }, "map": { "type": "object", "additionalProperties": { "type": "string" } },
        })))).await;
        site.step(
            "POST",
            WIDGETS,
            widget("a", json!({ "n": 1, "list": ["a"], "map": { "k": "v" } })),
        )
        .await;
        let path = format!("{WIDGETS}/a?dryRun=All");
        for (kind, patch) in [
            (
                "json-patch",
                json!([{ "op": "add", "path": "/spec/list/-", "value": "b" }]),
            ),
            (
                "json-patch",
                json!([{ "op": "replace", "path": "/spec/n", "value": "x" }]),
            ),
            (
                "json-patch",
                json!([{ "op": "add", "path": "/spec/odd", "value": "x" }]),
            ),
            ("json-patch", json!([{ "op": "remove", "path": "/spec" }])),
            ("merge-patch", json!({ "spec": { "map": { "k": null, "l": "w" } } })),
            ("merge-patch", json!({ "spec": { "list": null, "n": null } })),
            ("merge-patch", json!({ "spec": null })),
            ("merge-patch", json!({ "spec": { "n": 1.5 } })),
            ("merge-patch", json!({ "spec": { "odd": 1 } })),
        ] {
            let media_type = format!("application/{kind}+json");
            let answer = site
                .quietly("PATCH", &path, &[("content-type", &media_type)], patch.clone())
                .await;
            let result = answer.body["message"]
                .as_str()
                .map_or(answer.body["spec"].to_string(), str::to_owned);
            site.note(&format!("{patch}: {} {result}", answer.code));
        }
    });
}

#[test]
fn deletion_with_finalizers_and_propagation() {
    contract!(async |site: &Site| {
        site.define(version(any())).await;
        for (name, options) in [
            ("a", json!({ "propagationPolicy": "Foreground" })),
            ("b", json!({ "propagationPolicy": "Orphan" })),
            ("c", Value::Null),
            ("d", json!({ "gracePeriodSeconds": 30 })),
        ] {
            let mut object = widget(name, json!({}));
            object["metadata"]["finalizers"] = json!(["x.io/a"]);
            site.step("POST", WIDGETS, object).await;
            let answer = site
                .quietly("DELETE", &format!("{WIDGETS}/{name}"), &[], options.clone())
                .await;
            let metadata = &answer.body["metadata"];
            site.note(&format!(
                "{options}: {} {} {} {}",
                answer.code, metadata["finalizers"], metadata["deletionGracePeriodSeconds"], metadata["generation"]
            ));
        }
        let path = format!("{WIDGETS}/c");
        site.merge(&path, json!({ "spec": { "n": 1 } })).await;
        site.merge(&path, json!({ "metadata": { "finalizers": [] } })).await;
        site.step("GET", &path, Value::Null).await;
    });
}

#[test]
fn a_replacement_needs_a_revision() {
    contract!(async |site: &Site| {
        site.define(version(any())).await;
        let created = site.step("POST", WIDGETS, widget("a", json!({ "n": 1 }))).await;
        let path = format!("{WIDGETS}/a");
        site.put(&path, widget("a", json!({ "n": 2 }))).await;
        let mut object = widget("a", json!({ "n": 2 }));
        object["metadata"]["resourceVersion"] = created.revision().into();
        site.put(&path, object.clone()).await;
        site.put(&path, object).await;
        let mut other = widget("b", json!({}));
        other["metadata"]["resourceVersion"] = created.revision().into();
        site.put(&path, other).await;
        site.put(&format!("{WIDGETS}/missing"), widget("missing", json!({})))
            .await;
    });
}

#[test]
fn an_owner_is_kept() {
    contract!(async |site: &Site| {
        site.define(version(any())).await;
        let owner = site.step("POST", WIDGETS, widget("owner", json!({}))).await.body;
        let reference = json!({
            "apiVersion": "{group}/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        let mut object = widget("a", json!({}));
        object["metadata"]["ownerReferences"] = json!([reference]);
        site.post(WIDGETS, object).await;
    });
}
