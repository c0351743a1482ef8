//! Custom resources: definitions, pruning, defaults, validation, subresources, columns.

use serde_json::{Value, json};

use super::contract;
use super::site::WIDGETS;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A version without subresources.
pub fn version(schema: Value) -> Value {
    json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } })
}

/// A schema whose `spec` has these properties.
fn spec(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": { "type": "object", "properties": properties, "required": required },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

/// Posts specs and keeps only the errors.
async fn record_errors(site: &super::Site, specs: &[Value]) {
    for spec in specs {
        let answer = site
            .quietly("POST", &format!("{WIDGETS}?dryRun=All"), &[], widget("w", spec.clone()))
            .await;
        let mut causes: Vec<String> = answer.body["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::to_string)
            .collect();
        let message = match causes.len() {
            1 => answer.body["message"].as_str().unwrap_or_default(),
            _ => "",
        };
        site.note(&format!("{spec}: {} {message}", answer.code));
        // A real server checks the fields of an object in no fixed order.
        causes.sort();
        for cause in causes {
            site.note(&format!("    {cause}"));
        }
    }
}

#[test]
fn a_definition_gets_defaults_and_is_established() {
    contract!(async |site: &super::Site| {
        site.define(version(json!({ "type": "object" }))).await;
        let path = format!("{DEFINITIONS}/widgets.{{group}}");
        let mut definition = site.quietly("GET", &path, &[], Value::Null).await.body;
        definition["metadata"]["generation"].take();
        site.note(&definition["spec"].to_string());
        site.note(&definition["status"]["acceptedNames"].to_string());
        site.note(&definition["status"]["storedVersions"].to_string());
        for condition in definition["status"]["conditions"].as_array().unwrap() {
            site.note(&format!(
                "{} {} {} {}",
                condition["type"], condition["status"], condition["reason"], condition["message"]
            ));
        }
    });
}

#[test]
fn definitions_are_checked() {
    contract!(async |site: &super::Site| {
        let names = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" });
        let good = json!({ "group": "{group}", "scope": "Namespaced", "names": names, "versions": [version(json!({ "type": "object" }))] });
        let mut cases = Vec::new();
        let mut case = |change: &dyn Fn(&mut Value)| {
            let mut spec = good.clone();
            change(&mut spec);
            cases.push(spec);
        };
        case(&|spec| spec["group"] = "other.io".into());
        case(&|spec| spec["scope"] = "Other".into());
        case(&|spec| spec["names"]["kind"] = "".into());
        case(&|spec| spec["names"]["kind"] = "Wid_get".into());
        case(&|spec| spec["versions"] = json!([]));
        case(&|spec| spec["versions"][0]["storage"] = false.into());
        case(&|spec| spec["versions"][0]["schema"] = Value::Null);
        case(&|spec| spec["versions"][0]["schema"]["openAPIV3Schema"] = json!({ "properties": { "a": {} } }));
        case(&|spec| {
            spec["versions"][0]["schema"]["openAPIV3Schema"] =
                json!({ "type": "object", "properties": { "a": { "type": "array" } } })
        });
        case(&|spec| {
            spec["versions"][0]["schema"]["openAPIV3Schema"] =
                json!({ "type": "object", "properties": { "a": { "type": "integer", "default": "x" } } })
        });
        case(&|spec| {
            spec["versions"][0]["additionalPrinterColumns"] =
                json!([{ "name": "", "type": "other", "jsonPath": "spec" }])
        });
        for spec in cases {
            let answer = site
                .quietly(
                    "POST",
                    &format!("{DEFINITIONS}?dryRun=All"),
                    &[],
                    json!({ "metadata": { "name": "widgets.{group}" }, "spec": spec }),
                )
                .await;
            site.note(&format!(
                "{} {}",
                answer.code,
                answer.body["message"].as_str().unwrap_or_default()
            ));
        }
    });
}

#[test]
fn unknown_fields_are_pruned() {
    contract!(async |site: &super::Site| {
        let properties = json!({
            "a": { "type": "string" },
            "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "closed": { "type": "object" } } },
            "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "template": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        });
        site.define(version(spec(properties, &[]))).await;
        let body = json!({
            "a": "b", "c": "d", "open": { "e": { "f": 1 }, "closed": { "g": 1 } }, "list": [{ "x": "1", "y": "2" }],
            "map": { "k": { "x": "1", "y": "2" } },
            "template": { "apiVersion": "v1", "kind": "X", "metadata": { "name": "t", "odd": 1 }, "spec": { "z": 1 } },
        });
        let mut object = widget("w", body);
        object["more"] = 1.into();
        object["metadata"]["odd"] = 1.into();
        site.post(WIDGETS, object.clone()).await;
        for mode in ["Strict", "Warn", "Ignore"] {
            site.send("POST", &format!("{WIDGETS}?dryRun=All&fieldValidation={mode}"), &[], {
                object["metadata"]["name"] = mode.to_lowercase().into();
                object.clone()
            })
            .await;
        }
    });
}

#[test]
fn defaults_are_set() {
    contract!(async |site: &super::Site| {
        let properties = json!({
            "color": { "type": "string", "default": "red" },
            "nested": { "type": "object", "default": { "y": 1 }, "properties": { "x": { "type": "integer", "default": 5 }, "y": { "type": "integer" } } },
            "absent": { "type": "object", "properties": { "x": { "type": "integer", "default": 5 } } },
            "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "integer", "default": 5 } } } },
            "nothing": { "type": "string", "nullable": true, "default": "x" },
        });
        site.define(version(spec(properties, &[]))).await;
        site.post(WIDGETS, widget("a", json!({ "list": [{}, { "x": 1 }] })))
            .await;
        site.post(
            WIDGETS,
            widget("b", json!({ "color": null, "nothing": null, "nested": {} })),
        )
        .await;
        site.merge(&format!("{WIDGETS}/a"), json!({ "spec": { "color": null } }))
            .await;
    });
}

#[test]
fn every_rule_has_its_message() {
    contract!(async |site: &super::Site| {
        let properties = json!({
            "integer": { "type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2 },
            "number": { "type": "number", "minimum": 0.5, "exclusiveMinimum": true, "maximum": 1.5, "exclusiveMaximum": true },
            "small": { "type": "integer", "format": "int32" },
            "text": { "type": "string", "minLength": 3, "maxLength": 5 },
            "pattern": { "type": "string", "pattern": "^[a-z]+$" },
            "enum": { "type": "string", "enum": ["red", "green"] },
            "time": { "type": "string", "format": "date-time" },
            "duration": { "type": "string", "format": "duration" },
            "ip": { "type": "string", "format": "ipv4" },
            "bytes": { "type": "string", "format": "byte" },
            "list": { "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string" } },
            "map": { "type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": { "type": "string" } },
            "either": { "x-kubernetes-int-or-string": true },
            "flag": { "type": "boolean" },
            "object": { "type": "object", "required": ["a", "b"], "properties": { "a": { "type": "string" }, "b": { "type": "string" } } },
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "keyed": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" }, "v": { "type": "string" } } } },
        });
        site.define(version(spec(properties, &[]))).await;
        record_errors(
            site,
            &[
                json!({ "integer": 0 }),
                json!({ "integer": 12 }),
                json!({ "integer": 3 }),
                json!({ "integer": "x" }),
                json!({ "integer": 1.5 }),
                json!({ "number": 0.5 }),
                json!({ "number": 1.5 }),
                json!({ "small": 3_000_000_000_u64 }),
                json!({ "text": "x" }),
                json!({ "text": "xxxxxx" }),
                json!({ "text": 5 }),
                json!({ "text": null }),
                json!({ "pattern": "A" }),
                json!({ "enum": "blue" }),
                json!({ "enum": 5 }),
                json!({ "time": "yesterday" }),
                json!({ "duration": "long" }),
                json!({ "ip": "x" }),
                json!({ "bytes": "!" }),
                json!({ "list": [] }),
                json!({ "list": ["a", "b", "c"] }),
                json!({ "list": [1] }),
                json!({ "list": "x" }),
                json!({ "map": {} }),
                json!({ "map": { "a": "", "b": "", "c": "" } }),
                json!({ "map": { "a": 1 } }),
                json!({ "either": true }),
                json!({ "either": 5 }),
                json!({ "flag": "true" }),
                json!({ "object": {} }),
                json!({ "object": { "a": "x" } }),
                json!({ "object": [] }),
                json!({ "set": ["a", "b", "a", "a"] }),
                json!({ "keyed": [{ "k": "a" }, { "k": "a" }] }),
                json!({ "keyed": [{ "v": "a" }] }),
                Value::Null,
                json!("x"),
            ],
        )
        .await;
    });
}

#[test]
fn every_error_of_an_object_is_reported() {
    contract!(async |site: &super::Site| {
        let properties = json!({
            "size": { "type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 7 },
            "color": { "type": "string", "enum": ["red", "green"] },
            "name": { "type": "string", "minLength": 3, "pattern": "^[a-z]+$" },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 1 }, "x-kubernetes-list-type": "set", "maxItems": 1 },
            "inner": { "type": "object", "required": ["y", "x"], "maxProperties": 1, "properties": { "x": { "type": "string" }, "y": { "type": "string" }, "z": { "type": "integer" } } },
            "word": { "type": "string", "enum": ["abc"], "minLength": 3, "maxLength": 1, "pattern": "^b", "format": "date-time" },
            "zone": { "type": "string" },
        });
        site.define(version(spec(properties, &["zone"]))).await;
        record_errors(
            site,
            &[
                json!({ "size": 30, "color": "blue", "name": "X", "tags": ["a", "a"] }),
                json!({ "zone": 5, "size": "x", "tags": ["aa", "aa"], "inner": { "z": "x", "q": 1 } }),
                json!({ "zone": "z", "name": "ab1", "word": "cd" }),
                json!({ "zone": "z", "inner": {}, "color": "blue", "size": 0 }),
                json!({ "zone": "z", "word": "c" }),
                json!({ "zone": "z", "word": "ccc" }),
            ],
        )
        .await;
    });
}

#[test]
fn alternatives_have_their_messages() {
    contract!(async |site: &super::Site| {
        let properties = json!({
            "any": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] },
            "one": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
            "not": { "type": "object", "properties": { "a": { "type": "string" } }, "not": { "required": ["a"] } },
            "all": { "type": "string", "allOf": [{ "minLength": 2 }, { "pattern": "^a" }] },
        });
        site.define(version(spec(properties, &[]))).await;
        record_errors(
            site,
            &[
                json!({ "any": {} }),
                json!({ "one": {} }),
                json!({ "one": { "a": "", "b": "" } }),
                json!({ "not": { "a": "" } }),
                json!({ "all": "b" }),
            ],
        )
        .await;
    });
}

#[test]
fn an_update_needs_a_revision() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({ "a": { "type": "string" } }), &[])))
            .await;
        site.step("POST", WIDGETS, widget("w", json!({}))).await;
        site.put(&format!("{WIDGETS}/w"), widget("w", json!({ "a": "b" })))
            .await;
    });
}

#[test]
fn unchanged_invalid_values_are_accepted() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(
            json!({ "a": { "type": "string" }, "b": { "type": "string" } }),
            &[],
        )))
        .await;
        site.step("POST", WIDGETS, widget("w", json!({ "a": "long" }))).await;
        let path = format!("{DEFINITIONS}/widgets.{{group}}");
        let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength", "value": 2 }]);
        let changed = site
            .quietly(
                "PATCH",
                &path,
                &[("content-type", "application/json-patch+json")],
                patch,
            )
            .await;
        assert_eq!(changed.code, 200, "{}", changed.body);
        // A real server uses the new schema after a delay.
        for _ in 0..600 {
            let probe = site
                .quietly(
                    "POST",
                    &format!("{WIDGETS}?dryRun=All"),
                    &[],
                    widget("x", json!({ "a": "long" })),
                )
                .await;
            if probe.code == 422 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        site.merge(&format!("{WIDGETS}/w"), json!({ "spec": { "b": "new" } }))
            .await;
        site.merge(&format!("{WIDGETS}/w"), json!({ "spec": { "a": "other" } }))
            .await;
    });
}

#[test]
fn status_and_scale_of_a_custom_resource() {
    contract!(async |site: &super::Site| {
        let mut version = version(spec(json!({ "replicas": { "type": "integer" } }), &[]));
        version["subresources"] = json!({
            "status": {},
            "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" },
        });
        site.define(version).await;
        let mut object = widget("w", json!({ "replicas": 1 }));
        object["status"] = json!({ "replicas": 5 });
        site.post(WIDGETS, object).await;
        let path = format!("{WIDGETS}/w");
        site.merge(&path, json!({ "status": { "replicas": 6 } })).await;
        site.merge(&format!("{path}/status"), json!({ "status": { "replicas": 2, "selector": "a=b" }, "spec": { "replicas": 9 }, "metadata": { "labels": { "x": "y" } } })).await;
        site.get(&format!("{path}/scale")).await;
        site.merge(&format!("{path}/scale"), json!({ "spec": { "replicas": 4 } }))
            .await;
        site.get(&path).await;
        site.merge(&path, json!({ "metadata": { "annotations": { "a": "b" } } }))
            .await;
    });
}

#[test]
fn without_the_subresource_status_is_an_ordinary_field() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({}), &[]))).await;
        let mut object = widget("w", json!({}));
        object["status"] = json!({ "a": 1 });
        site.post(WIDGETS, object).await;
        site.merge(&format!("{WIDGETS}/w"), json!({ "status": { "a": 2 } }))
            .await;
        site.merge(
            &format!("{WIDGETS}/w"),
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        site.merge(&format!("{WIDGETS}/w/status"), json!({ "status": { "a": 3 } }))
            .await;
        site.get(&format!("{WIDGETS}/w/scale")).await;
    });
}

#[test]
fn columns_of_a_custom_resource() {
    contract!(async |site: &super::Site| {
        let mut version = version(spec(
            json!({ "size": { "type": "integer" }, "when": { "type": "string" }, "on": { "type": "boolean" } }),
            &[],
        ));
        version["additionalPrinterColumns"] = json!([
            { "name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large" },
            { "name": "When", "type": "date", "jsonPath": ".spec.when" },
            { "name": "On", "type": "boolean", "jsonPath": ".spec.on", "priority": 1 },
            { "name": "Text", "type": "string", "jsonPath": ".spec.size" },
        ]);
        site.define(version).await;
        site.step("POST", WIDGETS, widget("a", json!({ "size": 5, "on": true })))
            .await;
        site.step("POST", WIDGETS, widget("b", json!({}))).await;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let answer = site.quietly("GET", WIDGETS, &[("accept", table)], Value::Null).await;
        for column in answer.body["columnDefinitions"].as_array().unwrap() {
            site.note(&format!(
                "{} {} {} {}",
                column["name"], column["type"], column["format"], column["priority"]
            ));
        }
        for row in answer.body["rows"].as_array().unwrap() {
            site.note(&row["cells"].to_string());
        }
    });
}

#[test]
fn custom_resources_reject_strategic_patches_and_protobuf() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({}), &[]))).await;
        site.step("POST", WIDGETS, widget("w", json!({}))).await;
        let answer = site
            .quietly(
                "PATCH",
                &format!("{WIDGETS}/w"),
                &[("content-type", "application/strategic-merge-patch+json")],
                json!({}),
            )
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["reason"]));
    });
}

#[test]
fn the_body_of_a_custom_resource_must_match_the_path() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({}), &[]))).await;
        site.post(WIDGETS, json!({ "metadata": { "name": "w" } })).await;
        site.post(
            WIDGETS,
            json!({ "apiVersion": "{group}/v1", "kind": "Gadget", "metadata": { "name": "w" } }),
        )
        .await;
        site.post(
            WIDGETS,
            json!({ "apiVersion": "{group}/v2", "kind": "Widget", "metadata": { "name": "w" } }),
        )
        .await;
        site.post(
            WIDGETS,
            json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "W" } }),
        )
        .await;
        site.delete(&format!("{WIDGETS}/missing"), Value::Null).await;
    });
}

#[test]
fn a_custom_resource_is_created_and_deleted() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({ "a": { "type": "string" } }), &[])))
            .await;
        let created = site.post(WIDGETS, widget("w", json!({ "a": "1" }))).await;
        let mut watch = site
            .watch(&format!("{WIDGETS}?watch=true&resourceVersion={}", created.revision()))
            .await;
        site.merge(
            &format!("{WIDGETS}/w"),
            json!({ "metadata": { "finalizers": ["x.io/a"] } }),
        )
        .await;
        site.delete(&format!("{WIDGETS}/w"), Value::Null).await;
        site.merge(&format!("{WIDGETS}/w"), json!({ "spec": { "a": "2" } }))
            .await;
        site.merge(&format!("{WIDGETS}/w"), json!({ "metadata": { "finalizers": null } }))
            .await;
        site.get(WIDGETS).await;
        watch.expect_brief(4).await;
    });
}

#[test]
fn the_removal_of_a_definition_removes_its_objects() {
    contract!(async |site: &super::Site| {
        site.define(version(spec(json!({}), &[]))).await;
        let created = site.step("POST", WIDGETS, widget("w", json!({}))).await;
        let mut watch = site
            .watch(&format!("{WIDGETS}?watch=true&resourceVersion={}", created.revision()))
            .await;
        let path = format!("{DEFINITIONS}/widgets.{{group}}");
        let answer = site.quietly("DELETE", &path, &[], Value::Null).await;
        site.note(&answer.code.to_string());
        watch.expect_brief(1).await;
        site.wait_until_gone(&path).await;
        site.wait_until_gone(WIDGETS).await;
        site.get(&path).await;
        site.get(WIDGETS).await;
    });
}

/// A definition of `widgets` in a group.
fn in_group(group: &str, annotation: Option<&str>) -> Value {
    let mut definition = json!({
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    if let Some(annotation) = annotation {
        definition["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": annotation });
    }
    definition
}

#[test]
fn protected_groups_need_an_approval() {
    contract!(async |site: &super::Site| {
        let dry = format!("{DEFINITIONS}?dryRun=All");
        for group in [
            "{ns}.k8s.io",
            "coordination.k8s.io",
            "{ns}.kubernetes.io",
            "k8s.io",
            "kubernetes.io",
            "x{ns}k8s.io",
            "a.x-k8s.io",
        ] {
            for annotation in [
                None,
                Some("https://example.com/approved"),
                Some("unapproved, a test"),
                Some("foo"),
                Some(""),
            ] {
                site.note(&format!("{group} {annotation:?}"));
                site.brief("", "POST", &dry, &[], in_group(group, annotation)).await;
            }
        }
    });
}

#[test]
fn an_approval_is_a_condition() {
    contract!(async |site: &super::Site| {
        let path = format!("{DEFINITIONS}/widgets.{{ns}}.k8s.io");
        for annotation in ["https://example.com/approved", "unapproved, a test"] {
            site.step("POST", DEFINITIONS, in_group("{ns}.k8s.io", Some(annotation)))
                .await;
            for _ in 0..600 {
                let conditions = site.quietly("GET", &path, &[], Value::Null).await.body["status"]["conditions"].take();
                let conditions = conditions.as_array().cloned().unwrap_or_default();
                // On a real server `Established` is False first, with the reason `Installing`.
                let is_established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
                if conditions.len() < 3 || !conditions.iter().any(is_established) {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
                // Upstream's controllers add them in any order.
                let lines = conditions.iter().map(|condition| {
                    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
                    ["type", "status", "reason", "message"].map(text).join(" | ")
                });
                let lines: std::collections::BTreeSet<String> = lines.collect();
                lines.iter().for_each(|line| site.note(line));
                break;
            }
            let patch = json!({ "metadata": { "annotations": { "api-approved.kubernetes.io": null } } });
            let headers = [("content-type", "application/merge-patch+json")];
            site.brief("", "PATCH", &path, &headers, patch).await;
            site.quietly("DELETE", &path, &[], Value::Null).await;
            site.wait_until_gone(&path).await;
        }
    });
}

#[test]
fn a_definition_does_not_replace_a_built_in_resource() {
    contract!(async |site: &super::Site| {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        site.step("POST", LEASES, json!({ "metadata": { "name": "before" } }))
            .await;
        let mut definition = in_group("coordination.k8s.io", Some("https://example.com/approved"));
        let path = format!("{DEFINITIONS}/leases.coordination.k8s.io");
        definition["metadata"]["name"] = "leases.coordination.k8s.io".into();
        definition["spec"]["names"] =
            json!({ "plural": "leases", "singular": "lease", "kind": "Lease", "listKind": "LeaseList" });
        site.step("POST", DEFINITIONS, definition).await;
        // A schema of the definition would reject this.
        site.step(
            "POST",
            LEASES,
            json!({ "metadata": { "name": "a" }, "spec": { "holderIdentity": "x" } }),
        )
        .await;
        site.brief("", "GET", &format!("{LEASES}/a"), &[], Value::Null).await;
        site.step(
            "POST",
            LEASES,
            json!({ "metadata": { "name": "b" }, "spec": { "leaseDurationSeconds": "x" } }),
        )
        .await;
        let answer = site.quietly("DELETE", &path, &[], Value::Null).await;
        site.note(&answer.code.to_string());
        site.wait_until_gone(&path).await;
        site.brief("", "GET", &path, &[], Value::Null).await;
        for name in ["before", "a"] {
            site.brief("", "GET", &format!("{LEASES}/{name}"), &[], Value::Null)
                .await;
        }
        site.step("POST", LEASES, json!({ "metadata": { "name": "after" } }))
            .await;
    });
}

#[test]
fn a_definition_does_not_add_to_a_built_in_version() {
    contract!(async |site: &super::Site| {
        let path = format!("{DEFINITIONS}/gadgets.coordination.k8s.io");
        let mut definition = in_group("coordination.k8s.io", Some("https://example.com/approved"));
        // Another test creates widgets in this group, on the same real server.
        definition["metadata"]["name"] = "gadgets.coordination.k8s.io".into();
        definition["spec"]["names"] =
            json!({ "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList" });
        site.step("POST", DEFINITIONS, definition).await;
        site.brief(
            "",
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/gadgets",
            &[],
            Value::Null,
        )
        .await;
        site.brief(
            "",
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            &[],
            Value::Null,
        )
        .await;
        let answer = site.quietly("DELETE", &path, &[], Value::Null).await;
        site.note(&answer.code.to_string());
        site.wait_until_gone(&path).await;
        site.brief("", "GET", &path, &[], Value::Null).await;
        site.brief(
            "",
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            &[],
            Value::Null,
        )
        .await;
    });
}
