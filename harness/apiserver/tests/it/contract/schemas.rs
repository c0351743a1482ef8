//! Parts of definitions that those of public projects use.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, WIDGETS, widgets, with};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

fn version(spec: Value, change: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    with(&version, change)
}

fn definition(spec: Value, change: Value) -> Value {
    widgets(json!({ "versions": [version(spec, change)] }))
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

/// Records whether a definition with a rule is accepted, and for which fields not.
async fn accepted(site: &Site, what: &str, definition: Value) {
    let answer = site.quietly("POST", DEFINITIONS, &[], definition).await;
    let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
    let mut fields: Vec<String> = causes
        .map(|cause| {
            let message = cause["message"].as_str().unwrap();
            let excess = message.split_once("by factor of ").map_or("", |(_, factor)| factor);
            format!("{} {}", cause["reason"], excess.split(" (").next().unwrap())
        })
        .collect();
    fields.dedup();
    site.note(&format!("{what}: {} {}", answer.code, fields.join(", ")));
}

#[test]
fn costs_of_the_keys_of_maps() {
    contract!(async |site: &Site| {
        let map = |rule: &str, most: Option<u64>| {
            let mut schema = json!({
                "type": "object", "additionalProperties": { "type": "string" },
                "x-kubernetes-validations": [{ "rule": rule }],
            });
            if let Some(most) = most {
                schema["maxProperties"] = most.into();
            }
            definition(schema, json!({}))
        };
        for (rule, most) in [
            ("self.all(key, !key.contains('*'))", Some(4096)),
            ("self.all(key, key.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))", Some(8)),
            ("self.all(key, key.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))", None),
            ("self.all(key, key.split('/')[0].size() < 253)", Some(100)),
            ("self.all(key, int(key) > 0)", None),
            ("self.all(key, self[key].contains('*'))", Some(4096)),
            ("self.exists(key, key.startsWith('a'))", None),
        ] {
            accepted(site, &format!("{rule} {most:?}"), map(rule, most)).await;
        }
    });
}

#[test]
fn costs_of_conversions() {
    contract!(async |site: &Site| {
        let many = |rule: &str, items: Value| {
            let list = json!({ "type": "array", "items": items, "x-kubernetes-validations": [{ "rule": rule }] });
            definition(list, json!({}))
        };
        let text = json!({ "type": "string" });
        for rule in [
            "self.all(x, duration(x) > duration('1s'))",
            "self.all(x, int(x) > 1)",
            "self.all(x, double(x) > 1.0)",
            "self.all(x, timestamp(x) > timestamp('2026-01-01T00:00:00Z'))",
            "self.all(x, string(x) != 'a')",
            "self.all(x, bool(x))",
            "self.all(x, x.lowerAscii() == x)",
        ] {
            accepted(site, rule, many(rule, text.clone())).await;
        }
    });
}

#[test]
fn costs_of_alternatives() {
    contract!(async |site: &Site| {
        let list = json!({ "type": "array", "maxItems": 256, "items": { "type": "string", "maxLength": 64 } });
        for rule in [
            "(has(self.list) ? self.list : []).exists(k, k.contains('/'))",
            "(has(self.list) ? self.list : ['a']).exists(k, k.contains('/'))",
            "(has(self.list) ? self.list : self.other).exists(k, k.contains('/'))",
            "(self.list + self.other).exists(k, k.contains('/'))",
        ] {
            let spec = json!({
                "type": "object", "properties": { "list": list, "other": list },
                "x-kubernetes-validations": [{ "rule": rule }],
            });
            accepted(site, rule, definition(spec, json!({}))).await;
        }
    });
}

#[test]
fn patterns_in_the_notation_of_go() {
    contract!(async |site: &Site| {
        let texts = ["abc", "a[b", "[", "]", "a&b", "a&&b", "a-b", "~", "\u{e9}"];
        let patterns = [
            r#"^[^()<>@,;:\\"/[\]?={} \t]+$"#,
            "^[[]$",
            "^[]a]+$",
            "^[^]a]+$",
            "^[[:alpha:]]+$",
            "^[a&&b]+$",
            "^[a~~b]+$",
            r"^\pL+$",
        ];
        let properties: Value = patterns
            .iter()
            .enumerate()
            .map(|(index, pattern)| (format!("p{index}"), json!({ "type": "string", "pattern": pattern })))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let spec = json!({ "type": "object", "properties": properties });
        site.define(version(spec, json!({}))).await;
        for text in texts {
            let spec: Value = (0..patterns.len())
                .map(|index| (format!("p{index}"), text.into()))
                .collect::<serde_json::Map<_, _>>()
                .into();
            let path = format!("{WIDGETS}?dryRun=All");
            site.causes(&format!("{text:?}"), "POST", &path, widget("a", spec))
                .await;
        }
    });
}

#[test]
fn columns_without_an_index() {
    contract!(async |site: &Site| {
        let spec = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let column = |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });
        let columns = json!([
            column("First", ".spec.list[].name"),
            column("All", ".spec.list[*].name")
        ]);
        site.define(version(spec, json!({ "additionalPrinterColumns": columns })))
            .await;
        let list = json!({ "list": [{ "name": "a" }, { "name": "b" }] });
        site.quietly("POST", WIDGETS, &[], widget("full", list)).await;
        site.quietly("POST", WIDGETS, &[], widget("empty", json!({ "list": [] })))
            .await;
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = site.quietly("GET", WIDGETS, &[("accept", accept)], Value::Null).await;
        for row in table.body["rows"].as_array().unwrap() {
            site.note(&row["cells"].to_string());
        }
    });
}

#[test]
fn versions_without_storage() {
    contract!(async |site: &Site| {
        let open = json!({ "type": "object" });
        for change in [
            json!({ "schema": null }),
            json!({ "schema": {} }),
            json!({ "name": "" }),
            json!({ "name": "V1" }),
        ] {
            let what = change.to_string();
            site.causes(&what, "POST", DEFINITIONS, definition(open.clone(), change))
                .await;
        }
        let mut preserving = definition(open, json!({}));
        preserving["spec"]["preserveUnknownFields"] = true.into();
        site.causes("preserveUnknownFields", "POST", DEFINITIONS, preserving)
            .await;
    });
}

#[test]
fn deprecated_versions() {
    contract!(async |site: &Site| {
        let open = json!({ "type": "object" });
        let named = |name: &str, storage: bool, change: Value| {
            with(
                &version(open.clone(), json!({ "name": name, "storage": storage })),
                change,
            )
        };
        let versions = json!([
            named("v1", true, json!({})),
            named("v1beta1", false, json!({ "deprecated": true })),
            named(
                "v1alpha1",
                false,
                json!({ "deprecated": true, "deprecationWarning": "use \"v1\"" })
            ),
            named("v2alpha1", false, json!({})),
            named("v2", false, json!({ "deprecated": true })),
        ]);
        site.define_as(widgets(json!({ "versions": versions }))).await;
        for name in ["v1", "v1beta1", "v1alpha1", "v2alpha1", "v2"] {
            let path = WIDGETS.replace("/v1/", &format!("/{name}/"));
            let object = json!({
                "apiVersion": format!("{{group}}/{name}"), "kind": "Widget", "metadata": { "name": "a" },
            });
            let post = site.quietly("POST", &format!("{path}?dryRun=All"), &[], object).await;
            let list = site.quietly("GET", &path, &[], Value::Null).await;
            for answer in [post, list] {
                let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
                site.note(&format!("{name}: {} {warnings:?}", answer.code));
            }
        }
    });
}

#[test]
fn numbers_of_a_scale() {
    contract!(async |site: &Site| {
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let mut version = version(open.clone(), json!({}));
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = open;
        version["subresources"] = json!({ "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        } });
        site.define(version).await;
        let path = format!("{WIDGETS}?dryRun=All");
        for replicas in [
            json!("${COUNT}"),
            json!(-1),
            json!(2147483648_i64),
            json!(1.5),
            json!(true),
            json!({}),
            json!([]),
            json!(3),
        ] {
            let what = replicas.to_string();
            site.causes(&what, "POST", &path, widget("a", json!({ "replicas": replicas })))
                .await;
        }
        for status in [
            json!({ "replicas": "a" }),
            json!({ "replicas": -1 }),
            json!({ "selector": 1 }),
        ] {
            let what = status.to_string();
            let object = with(&widget("a", json!({})), json!({ "status": status }));
            site.causes(&what, "POST", &path, object).await;
        }
    });
}

#[test]
fn rules_are_evaluated_beside_other_errors() {
    contract!(async |site: &Site| {
        let spec = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "pattern": "^a", "maxLength": 5 },
                "size": { "type": "integer", "maximum": 3 },
                "kind": { "type": "string", "enum": ["a", "b"] },
                "list": {
                    "type": "array", "maxItems": 5, "items": { "type": "string" }, "x-kubernetes-list-type": "set",
                },
            },
            "x-kubernetes-validations": [{ "rule": "!has(self.name) || self.name != 'b'", "message": "not b" }],
        });
        site.define(version(spec, json!({}))).await;
        let path = format!("{WIDGETS}?dryRun=All");
        for spec in [
            json!({ "name": "b" }),
            json!({ "name": "b", "size": 4 }),
            json!({ "name": "b", "list": ["a", "a"] }),
            json!({ "name": "b", "kind": "c" }),
            json!({ "name": "b", "size": "x" }),
            json!({ "name": "bbbbbbb" }),
        ] {
            let what = spec.to_string();
            site.causes(&what, "POST", &path, widget("a", spec)).await;
        }
    });
}
