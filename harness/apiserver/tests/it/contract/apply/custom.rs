//! Configurations of custom resources.

use super::super::definitions::version;
use super::super::site::WIDGETS;
use super::*;

/// A configuration of a widget.
fn widget(fields: Value) -> Value {
    let mut widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" } });
    for (field, value) in fields.as_object().unwrap() {
        widget[field] = value.clone();
    }
    widget
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn spec(properties: Value) -> Value {
    object(
        json!({ "spec": object(properties), "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }),
    )
}

#[test]
fn a_custom_resource_has_managers() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let text = json!({ "type": "string" });
        site.define(version(spec(
            json!({ "a": text, "b": text, "size": { "type": "integer", "default": 3 } }),
        )))
        .await;
        site.post(
            &format!("{WIDGETS}?fieldManager=creator"),
            widget(json!({ "spec": { "a": "1" } })),
        )
        .await;
        let path = format!("{WIDGETS}/a");
        site.apply(&path, "one", widget(json!({ "spec": { "b": "1" } }))).await;
        site.apply(&path, "one", widget(json!({ "spec": { "a": "2" } }))).await;
        site.force(&path, "one", widget(json!({ "spec": { "a": "2" } }))).await;
        site.apply(&path, "one", widget(json!({}))).await;
    });
}

#[test]
fn a_configuration_creates_a_custom_resource() {
    contract!(async |site: &Site| {
        site.keep_managers();
        site.define(version(spec(
            json!({ "a": { "type": "string" }, "size": { "type": "integer", "default": 3 } }),
        )))
        .await;
        let path = format!("{WIDGETS}/a");
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "a": "1" }, "status": { "x": 1 } })),
        )
        .await;
        site.apply(&path, "one", widget(json!({ "spec": { "a": "1", "unknown": "1" } })))
            .await;
        site.apply(&path, "one", widget(json!({ "spec": { "a": 5 } }))).await;
        site.apply(&path, "one", widget(json!({ "other": {} }))).await;
        site.apply(
            &path,
            "one",
            widget(json!({ "metadata": { "name": "a", "unknown": "x" } })),
        )
        .await;
    });
}

#[test]
fn lists_and_objects_merge_as_the_schema_says() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let item = object(json!({
            "host": { "type": "string" }, "port": { "type": "integer", "default": 80 }, "weight": { "type": "integer" },
        }));
        let mut keyed = json!({ "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"] });
        keyed["items"]["required"] = json!(["host"]);
        let texts = json!({ "type": "array", "items": { "type": "string" } });
        let mut set = texts.clone();
        set["x-kubernetes-list-type"] = "set".into();
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        let mut whole = map.clone();
        whole["x-kubernetes-map-type"] = "atomic".into();
        site.define(version(spec(
            json!({ "keyed": keyed, "set": set, "texts": texts, "map": map, "whole": whole }),
        )))
        .await;
        let path = format!("{WIDGETS}/a");
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": {
            "keyed": [{ "host": "a", "weight": 1 }, { "host": "a", "port": 81 }], "set": ["x", "y"], "texts": ["x"],
            "map": { "a": "1" }, "whole": { "a": "1" },
        } })),
        )
        .await;
        site.apply(&path, "two", widget(json!({ "spec": {
            "keyed": [{ "host": "b" }, { "host": "a", "port": 80, "weight": 1 }], "set": ["z", "x"], "map": { "b": "1" },
        } }))).await;
        site.apply(
            &path,
            "two",
            widget(json!({ "spec": { "texts": ["y"], "whole": { "b": "1" } } })),
        )
        .await;
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "keyed": [{ "host": "a", "port": 81 }], "set": ["y"] } })),
        )
        .await;
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "keyed": [{ "host": "a" }, { "host": "a", "port": 80 }] } })),
        )
        .await;
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "keyed": [{ "weight": 1 }], "set": ["y", "y"] } })),
        )
        .await;
    });
}

#[test]
fn unknown_fields_have_managers_where_they_are_kept() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
        let mut part = object(json!({ "known": object(json!({ "a": { "type": "string" } })) }));
        part["x-kubernetes-preserve-unknown-fields"] = true.into();
        site.define(version(spec(
            json!({ "open": open, "any": any, "part": part, "number": { "x-kubernetes-int-or-string": true } }),
        )))
        .await;
        let path = format!("{WIDGETS}/a");
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": {
            "open": { "a": { "b": 1, "c": [1, 2] }, "d": null }, "any": { "x": [{ "name": "n" }] },
            "part": { "known": { "a": "1", "z": { "y": 1 } }, "other": { "q": "1" } }, "number": 5,
        } })),
        )
        .await;
        site.apply(
            &path,
            "two",
            widget(json!({ "spec": { "open": { "a": { "c": [3] } }, "any": { "x": [] }, "number": "5" } })),
        )
        .await;
        site.apply(
            &path,
            "two",
            widget(json!({ "spec": { "any": "text", "open": { "e": {} } } })),
        )
        .await;
        site.force(
            &path,
            "two",
            widget(json!({ "spec": { "any": "text", "open": { "e": {} } } })),
        )
        .await;
    });
}

#[test]
fn an_embedded_object_has_the_fields_of_an_object() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let template = json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true });
        site.define(version(spec(json!({ "template": template })))).await;
        let path = format!("{WIDGETS}/a");
        let template = |labels: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "labels": labels }, "spec": { "a": 1 } });
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "template": template(json!({ "a": "1" })) } })),
        )
        .await;
        site.apply(
            &path,
            "two",
            widget(json!({ "spec": { "template": template(json!({ "b": "1" })) } })),
        )
        .await;
    });
}

#[test]
fn the_status_of_a_custom_resource_is_applied_on_its_own() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let mut of_status = version(spec(json!({ "a": { "type": "string" } })));
        of_status["subresources"] = json!({ "status": {} });
        site.define(of_status).await;
        let path = format!("{WIDGETS}/a");
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "a": "1" }, "status": { "x": 1 } })),
        )
        .await;
        let status = format!("{path}/status");
        site.apply(
            &status,
            "one",
            widget(json!({ "spec": { "a": "2" }, "status": { "x": 2 } })),
        )
        .await;
        let mut labelled = widget(json!({ "status": { "y": 2 } }));
        labelled["metadata"]["labels"] = json!({ "l": "m" });
        site.apply(&status, "two", labelled).await;
        site.merge(
            &format!("{status}?fieldManager=patcher"),
            json!({ "status": { "x": 5 } }),
        )
        .await;
        site.apply(&status, "one", widget(json!({ "status": {} }))).await;
    });
}

#[test]
fn managers_adapt_to_a_new_schema() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        site.define(version(spec(json!({ "map": map })))).await;
        let path = format!("{WIDGETS}/a");
        site.apply(
            &path,
            "one",
            widget(json!({ "spec": { "map": { "a": "1", "b": "1" } } })),
        )
        .await;
        let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}";
        let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/map/x-kubernetes-map-type", "value": "atomic" }]);
        let headers = [("content-type", "application/json-patch+json")];
        assert_eq!(site.quietly("PATCH", definition, &headers, patch).await.code, 200);
        // A real server takes a moment to serve the new schema.
        let apply = async || {
            let headers = [("content-type", "application/apply-patch+yaml")];
            let path = format!("{path}?fieldManager=two&force=true&dryRun=All");
            site.quietly(
                "PATCH",
                &path,
                &headers,
                widget(json!({ "spec": { "map": { "c": "1" } } })),
            )
            .await
            .body
        };
        while apply().await["spec"]["map"]["a"] == "1" {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        site.apply(&path, "two", widget(json!({ "spec": { "map": { "c": "1" } } })))
            .await;
        site.force(&path, "two", widget(json!({ "spec": { "map": { "c": "1" } } })))
            .await;
    });
}
