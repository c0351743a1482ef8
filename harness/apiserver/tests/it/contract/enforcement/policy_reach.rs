//! Which requests validating policies see: subresources, other versions, selections, kinds of parameters.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::policies::{binding, decide, enforce, map, maps, policy};
use super::super::site::{Site, WIDGETS, with};
use super::{MAPS, PODS, contract, pod};

fn rule(group: &str, version: &str, resource: &str, operations: &[&str]) -> Value {
    json!({ "operations": operations, "apiGroups": [group], "apiVersions": [version], "resources": [resource] })
}

/// A policy that refuses what its rules match, with a message about the request.
fn refusing(name: &str, constraints: Value, message: &str) -> (Value, Value) {
    let validation = json!({ "expression": "false", "messageExpression": message });
    let spec = json!({ "validations": [validation], "matchConstraints": constraints });
    (policy(name, spec), binding(name, &["Deny"], json!({})))
}

fn replica_set(name: &str) -> Value {
    let template =
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    json!({ "metadata": { "name": name }, "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template } })
}

#[test]
fn subresources() {
    contract!(async |site: &Site| {
        let sets = "/apis/apps/v1/namespaces/{ns}/replicasets";
        site.step("POST", sets, replica_set("a")).await;
        let message = "request.subResource + ' of ' + request.kind.kind + ' ' + request.resource.resource + ' as ' + string(object.kind)";
        let rules = json!({ "resourceRules": [
            rule("apps", "*", "replicasets/scale", &["UPDATE"]),
            rule("apps", "*", "replicasets/status", &["*"]),
        ] });
        enforce(site, [refusing("sub", rules, message)]).await;
        let path = format!("{sets}/a");
        decide(site, "object", "PATCH", &path, json!({ "spec": { "replicas": 2 } })).await;
        decide(
            site,
            "scale",
            "PATCH",
            &format!("{path}/scale"),
            json!({ "spec": { "replicas": 3 } }),
        )
        .await;
        decide(
            site,
            "status",
            "PATCH",
            &format!("{path}/status"),
            json!({ "status": { "replicas": 1 } }),
        )
        .await;
    });
}

#[test]
fn all_subresources() {
    contract!(async |site: &Site| {
        site.step("POST", PODS, pod("a", json!({}))).await;
        let rules = json!({ "resourceRules": [rule("", "*", "pods/*", &["*"])] });
        enforce(
            site,
            [refusing("sub", rules, "request.operation + ' ' + request.subResource")],
        )
        .await;
        let path = format!("{PODS}/a");
        decide(
            site,
            "object",
            "PATCH",
            &path,
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        let target = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "n" } });
        decide(site, "binding", "POST", &format!("{path}/binding"), target).await;
        decide(
            site,
            "eviction",
            "POST",
            &format!("{path}/eviction"),
            json!({ "metadata": { "name": "a" } }),
        )
        .await;
        decide(
            site,
            "status",
            "PATCH",
            &format!("{path}/status"),
            json!({ "status": { "phase": "Failed" } }),
        )
        .await;
    });
}

#[test]
fn excluded_rules_and_selected_objects() {
    contract!(async |site: &Site| {
        let excluding = json!({
            "resourceRules": [with(&maps(), json!({ "operations": ["CREATE"] }))],
            "excludeResourceRules": [with(&maps(), json!({ "operations": ["CREATE"], "resourceNames": ["spared"] }))],
        });
        let selecting = json!({
            "resourceRules": [with(&maps(), json!({ "operations": ["UPDATE", "DELETE"] }))],
            "objectSelector": { "matchLabels": { "kept": "yes" } },
        });
        enforce(
            site,
            [
                refusing("excluding", excluding, "'created'"),
                refusing("selecting", selecting, "request.operation"),
            ],
        )
        .await;
        for name in ["spared", "other"] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
        let path = format!("{MAPS}/spared");
        for (what, labels) in [
            ("not selected", json!({ "a": "b" })),
            ("selected", json!({ "kept": "yes" })),
        ] {
            decide(site, what, "PATCH", &path, json!({ "metadata": { "labels": labels } })).await;
        }
        decide(site, "deletion", "DELETE", &path, Value::Null).await;
    });
}

#[test]
fn an_object_that_leaves_a_selection() {
    contract!(async |site: &Site| {
        let kept = with(
            &map("a"),
            json!({ "metadata": { "name": "a", "labels": { "kept": "yes" } } }),
        );
        site.step("POST", MAPS, kept).await;
        let selecting = json!({
            "resourceRules": [with(&maps(), json!({ "operations": ["UPDATE", "DELETE"] }))],
            "objectSelector": { "matchLabels": { "kept": "yes" } },
        });
        enforce(site, [refusing("selecting", selecting, "request.operation")]).await;
        let path = format!("{MAPS}/a");
        decide(
            site,
            "leaves",
            "PATCH",
            &path,
            json!({ "metadata": { "labels": { "kept": "no" } } }),
        )
        .await;
        decide(site, "deletion", "DELETE", &path, Value::Null).await;
    });
}

#[test]
fn custom_resources_and_parameters() {
    contract!(async |site: &Site| {
        let spec = json!({ "type": "object", "properties": { "most": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } } } });
        site.define(version(json!({ "type": "object", "properties": { "spec": spec } })))
            .await;
        let widget = |name: &str, spec: Value| json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec });
        site.step("POST", WIDGETS, widget("limits", json!({ "most": 2 }))).await;
        let spec = json!({
            "paramKind": { "apiVersion": "{group}/v1", "kind": "Widget" },
            "validations": [{
                "expression": "object.data.size() <= params.spec.most",
                "messageExpression": "'at most ' + string(params.spec.most)",
            }],
        });
        let reference =
            json!({ "paramRef": { "name": "limits", "namespace": "{ns}", "parameterNotFoundAction": "Deny" } });
        enforce(
            site,
            [(policy("params", spec), binding("params", &["Deny"], reference))],
        )
        .await;
        let of_size = |name: &str, size: usize| {
            let data: serde_json::Map<String, Value> =
                (0..size).map(|index| (format!("k{index}"), json!("v"))).collect();
            json!({ "metadata": { "name": name }, "data": data })
        };
        decide(site, "two", "POST", MAPS, of_size("two", 2)).await;
        decide(site, "three", "POST", MAPS, of_size("three", 3)).await;
    });
}

#[test]
fn a_policy_about_custom_resources() {
    contract!(async |site: &Site| {
        let spec = json!({ "type": "object", "properties": { "most": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } } } });
        site.define(version(json!({ "type": "object", "properties": { "spec": spec } })))
            .await;
        let widget = |name: &str, spec: Value| json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec });
        let spec = json!({
            "matchConstraints": { "resourceRules": [rule("{group}", "v1", "widgets", &["CREATE", "UPDATE"])] },
            "validations": [
                { "expression": "!has(object.spec.most) || object.spec.most < 10", "reason": "Forbidden" },
                { "expression": "!has(object.spec.tags) || object.spec.tags.all(tag, tag.matches('^[a-z]+$'))", "message": "tags are lower case" },
                { "expression": "oldObject == null || object.spec == oldObject.spec", "message": "the spec is immutable" },
            ],
        });
        enforce(
            site,
            [(policy("widgets", spec), binding("widgets", &["Deny"], json!({})))],
        )
        .await;
        for (name, spec) in [
            ("good", json!({ "most": 3, "tags": ["a", "b"] })),
            ("most", json!({ "most": 30 })),
            ("tags", json!({ "tags": ["A"] })),
        ] {
            decide(site, name, "POST", WIDGETS, widget(name, spec)).await;
        }
        let path = format!("{WIDGETS}/good");
        decide(
            site,
            "label",
            "PATCH",
            &path,
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        decide(site, "spec", "PATCH", &path, json!({ "spec": { "most": 4 } })).await;
    });
}

#[test]
fn the_namespace_of_an_object() {
    contract!(async |site: &Site| {
        let labels = json!({ "metadata": { "labels": { "tier": "test" }, "annotations": { "owner": "me" } } });
        site.merge("/api/v1/namespaces/{ns}", labels).await;
        let message = "namespaceObject.metadata.labels['tier'] + ' ' + namespaceObject.metadata.annotations['owner'] + ' ' + namespaceObject.status.phase";
        let rules = json!({ "resourceRules": [with(&maps(), json!({ "resourceNames": ["a"] }))] });
        enforce(site, [refusing("space", rules, message)]).await;
        decide(site, "create", "POST", MAPS, map("a")).await;
    });
}

#[test]
fn deletions_of_collections() {
    contract!(async |site: &Site| {
        for name in ["a", "b"] {
            site.config_map(name, "1").await;
        }
        let rules = json!({ "resourceRules": [with(&maps(), json!({ "operations": ["DELETE"] }))] });
        let message =
            "'name ' + request.name + ' object ' + string(object == null) + ' old ' + oldObject.metadata.name";
        enforce(site, [refusing("deletion", rules, message)]).await;
        decide(site, "one", "DELETE", &format!("{MAPS}/a"), Value::Null).await;
        decide(site, "missing", "DELETE", &format!("{MAPS}/missing"), Value::Null).await;
        let selected = format!("{MAPS}?fieldSelector=metadata.name%3Da");
        decide(site, "collection", "DELETE", &selected, Value::Null).await;
        let left = site
            .quietly("GET", &format!("{MAPS}?labelSelector=value"), &[], Value::Null)
            .await;
        site.note(&format!("{} are left", left.body["items"].as_array().unwrap().len()));
    });
}
