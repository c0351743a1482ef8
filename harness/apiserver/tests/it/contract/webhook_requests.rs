//! What webhooks see of requests for other kinds, subresources and operations.

use serde_json::{Value, json};

use super::contract_with_network;
use super::policies::{MAPS, decide, map};
use super::site::Site;
use super::webhooks::{Hooks, MUTATING, VALIDATING, patch};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

fn deployment() -> Value {
    json!({ "metadata": { "name": "d" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
        },
    } })
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } })
}

fn rules(group: &str, resources: &[&str]) -> Value {
    json!({ "rules": [
        { "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": resources },
    ] })
}

/// A program that allows everything, installed with validating webhooks.
async fn watching(site: &Site, hooks: &[(&str, Value)]) -> Hooks {
    let program = Hooks::start(|_, _| json!({ "allowed": true })).await;
    let hooks = hooks
        .iter()
        .map(|(name, change)| program.hook(name, change.clone()))
        .collect();
    program.install(site, [(VALIDATING, "a", hooks)]).await;
    program
}

/// Records the questions since the last time: the members of the request with these names.
fn record(site: &Site, program: &Hooks, what: &str, members: &[&str]) {
    let mut calls: Vec<_> = program.0.calls.lock().drain(..).collect();
    // Validating webhooks are called at the same time.
    calls.sort_by_key(|(path, _)| path.clone());
    for (path, review) in calls {
        let request = &review["request"];
        let shown: Vec<String> = members
            .iter()
            .map(|member| {
                let pointer = format!("/{}", member.replace('.', "/"));
                format!("{member}={}", request.pointer(&pointer).unwrap_or(&Value::Null))
            })
            .collect();
        site.note(&format!("{what}: {path}: {}", shown.join(" ")));
    }
}

#[test]
fn webhooks_of_status_and_scale() {
    contract_with_network!(async |site: &Site| {
        let hooks = [
            ("main", rules("apps", &["deployments"])),
            ("status", rules("apps", &["deployments/status"])),
            ("scale", rules("apps", &["*/scale"])),
            ("all", rules("apps", &["deployments/*"])),
        ];
        let program = watching(site, &hooks).await;
        let shown = [
            "operation",
            "kind.kind",
            "resource.resource",
            "subResource",
            "object.kind",
        ];
        decide(site, "create", "POST", DEPLOYMENTS, deployment()).await;
        record(site, &program, "create", &shown);
        for part in ["status", "scale"] {
            let path = format!("{DEPLOYMENTS}/d/{part}");
            let change = match part {
                "scale" => json!({ "spec": { "replicas": 3 } }),
                _ => json!({ "status": { "replicas": 1 } }),
            };
            decide(site, part, "PATCH", &path, change).await;
            record(site, &program, part, &shown);
        }
    });
}

#[test]
fn webhooks_of_evictions_and_bindings() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("pods", rules("", &["pods/eviction", "pods/binding"]))]).await;
        let shown = [
            "operation",
            "kind",
            "resource.resource",
            "subResource",
            "name",
            "object.kind",
            "oldObject",
        ];
        site.quietly("POST", PODS, &[], pod("p")).await;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" },
            "target": { "apiVersion": "v1", "kind": "Node", "name": "n" },
        });
        decide(site, "bind", "POST", &format!("{PODS}/p/binding"), binding).await;
        record(site, &program, "bind", &shown);
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
        decide(site, "evict", "POST", &format!("{PODS}/p/eviction"), eviction).await;
        record(site, &program, "evict", &shown);
    });
}

#[test]
fn webhooks_of_token_requests() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("tokens", rules("", &["serviceaccounts/token"]))]).await;
        let accounts = "/api/v1/namespaces/{ns}/serviceaccounts";
        site.quietly("POST", accounts, &[], json!({ "metadata": { "name": "a" } }))
            .await;
        let request = json!({ "spec": { "audiences": ["x"] } });
        let answer = site.quietly("POST", &format!("{accounts}/a/token"), &[], request).await;
        site.note(&answer.code.to_string());
        let shown = ["operation", "kind", "subResource", "name", "object.spec.audiences"];
        record(site, &program, "token", &shown);
    });
}

#[test]
fn webhooks_of_deletions() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("maps", json!({}))]).await;
        for name in ["a", "b", "c"] {
            site.quietly("POST", MAPS, &[], map(name)).await;
        }
        program.paths();
        let shown = ["operation", "name", "object", "oldObject.metadata.name", "options"];
        let options = json!({ "gracePeriodSeconds": 5, "propagationPolicy": "Background" });
        decide(site, "one", "DELETE", &format!("{MAPS}/a"), options).await;
        record(site, &program, "one", &shown);
        decide(site, "missing", "DELETE", &format!("{MAPS}/a"), Value::Null).await;
        record(site, &program, "missing", &shown);
        let selected = format!("{MAPS}?fieldSelector=metadata.name%3Db");
        decide(site, "collection", "DELETE", &selected, Value::Null).await;
        record(site, &program, "collection", &shown);
        decide(site, "dry", "DELETE", &format!("{MAPS}/c?dryRun=All"), Value::Null).await;
        record(site, &program, "dry", &["operation", "dryRun", "options"]);
    });
}

#[test]
fn options_that_webhooks_see() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("maps", json!({}))]).await;
        let shown = ["operation", "name", "dryRun", "options"];
        let create = format!("{MAPS}?fieldManager=m&fieldValidation=Strict");
        site.quietly("POST", &create, &[], map("a")).await;
        record(site, &program, "create", &shown);
        site.quietly("PUT", &format!("{MAPS}/a?fieldManager=m"), &[], map("a"))
            .await;
        record(site, &program, "update", &shown);
        let headers = [("content-type", "application/merge-patch+json")];
        let path = format!("{MAPS}/a?dryRun=All");
        site.quietly("PATCH", &path, &headers, json!({ "data": { "b": "c" } }))
            .await;
        record(site, &program, "patch", &shown);
        let mut applied = map("b");
        applied["apiVersion"] = "v1".into();
        applied["kind"] = "ConfigMap".into();
        let headers = [("content-type", "application/apply-patch+yaml")];
        for force in ["false", "true"] {
            let path = format!("{MAPS}/b?fieldManager=m&force={force}");
            applied["data"]["force"] = force.into();
            site.quietly("PATCH", &path, &headers, applied.clone()).await;
            record(site, &program, "apply", &shown);
        }
    });
}

#[test]
fn names_that_webhooks_see() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("maps", json!({}))]).await;
        let generated = json!({ "metadata": { "generateName": "some-" }, "data": {} });
        let answer = site.quietly("POST", MAPS, &[], generated).await;
        let calls: Vec<_> = program.0.calls.lock().drain(..).collect();
        let request = &calls[0].1["request"];
        let name = answer.body["metadata"]["name"].as_str().unwrap();
        site.note(&format!("in the request: {:?}", request.get("name").is_some()));
        site.note(&format!(
            "in the object: {}",
            request["object"]["metadata"]["name"] == name
        ));
        site.note(&format!("uid: {}", request["object"]["metadata"]["uid"].is_string()));
        site.note(&format!(
            "revision: {}",
            request["object"]["metadata"]["resourceVersion"]
        ));
    });
}

#[test]
fn users_that_webhooks_see() {
    contract_with_network!(async |site: &Site| {
        let program = watching(site, &[("maps", json!({}))]).await;
        let headers = [
            ("impersonate-user", "jane"),
            ("impersonate-group", "system:masters"),
            ("impersonate-uid", "u-1"),
            ("impersonate-extra-scopes", "a"),
        ];
        site.quietly("POST", MAPS, &headers, map("a")).await;
        record(site, &program, "user", &["userInfo"]);
    });
}

#[test]
fn an_object_selector_also_matches_the_old_object() {
    contract_with_network!(async |site: &Site| {
        let selector = json!({ "objectSelector": { "matchLabels": { "team": "a" } } });
        let program = watching(site, &[("maps", selector)]).await;
        let mut labelled = map("a");
        labelled["metadata"]["labels"] = json!({ "team": "a" });
        let shown = ["operation", "object.metadata.labels", "oldObject.metadata.labels"];
        site.quietly("POST", MAPS, &[], labelled).await;
        record(site, &program, "create", &shown);
        let headers = [("content-type", "application/merge-patch+json")];
        for team in ["b", "c"] {
            let change = json!({ "metadata": { "labels": { "team": team } } });
            // Waits until the cache of a real server has the last change, which it shows to webhooks.
            site.quietly("GET", MAPS, &[], Value::Null).await;
            let answer = site.quietly("PATCH", &format!("{MAPS}/a"), &headers, change).await;
            site.note(&format!("{team}: {} {}", answer.code, answer.body["message"]));
            record(site, &program, team, &shown);
        }
    });
}

#[test]
fn scopes_of_rules() {
    contract_with_network!(async |site: &Site| {
        let scoped = |scope: &str| {
            json!({ "rules": [{
                "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": scope,
            }] })
        };
        let hooks = [
            ("cluster", scoped("Cluster")),
            ("namespaced", scoped("Namespaced")),
            ("any", scoped("*")),
        ];
        let program = watching(site, &hooks).await;
        site.quietly("POST", MAPS, &[], map("a")).await;
        let mut paths = program.paths();
        paths.sort();
        site.note(&format!("config map: {paths:?}"));
        let headers = [("content-type", "application/merge-patch+json")];
        let change = json!({ "metadata": { "labels": { "x": "y" } } });
        site.quietly("PATCH", "/api/v1/namespaces/{ns}", &headers, change).await;
        let mut paths = program.paths();
        paths.sort();
        site.note(&format!("namespace: {paths:?}"));
    });
}

#[test]
fn rules_with_wildcards() {
    contract_with_network!(async |site: &Site| {
        let hooks = [
            ("everything", rules("*", &["*/*"])),
            ("resources", rules("*", &["*"])),
            ("parts", rules("", &["pods/*"])),
            ("exact", rules("", &["pods"])),
            ("other", rules("", &["secrets"])),
        ];
        let program = watching(site, &hooks).await;
        let note = |what: &str| {
            let mut paths = program.paths();
            paths.sort();
            site.note(&format!("{what}: {paths:?}"));
        };
        site.quietly("POST", PODS, &[], pod("p")).await;
        note("pod");
        let headers = [("content-type", "application/merge-patch+json")];
        let status = json!({ "status": { "phase": "Running" } });
        site.quietly("PATCH", &format!("{PODS}/p/status"), &headers, status)
            .await;
        note("status");
        site.quietly("POST", MAPS, &[], map("a")).await;
        note("config map");
    });
}

#[test]
fn an_object_that_a_webhook_makes_invalid() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, request| match request["name"].as_str() {
            Some("label") => patch(&json!([
                { "op": "add", "path": "/metadata/labels", "value": { "a b": "c" } },
            ])),
            Some("name") => patch(&json!([{ "op": "replace", "path": "/metadata/name", "value": "other" }])),
            Some("namespace") => {
                patch(&json!([{ "op": "replace", "path": "/metadata/namespace", "value": "default" }]))
            }
            Some("kind") => patch(&json!([{ "op": "replace", "path": "/kind", "value": "Secret" }])),
            Some("unknown") => patch(&json!([{ "op": "add", "path": "/unknown", "value": 1 }])),
            Some("type") => patch(&json!([{ "op": "add", "path": "/data", "value": 1 }])),
            _ => json!({ "allowed": true }),
        })
        .await;
        program
            .install(site, [(MUTATING, "a", vec![program.hook("mutate", json!({}))])])
            .await;
        for name in ["label", "unknown"] {
            let answer = site.quietly("POST", MAPS, &[], map(name)).await;
            site.note(&format!(
                "{name}: {} {} {}",
                answer.code, answer.body["message"], answer.body["data"]
            ));
        }
    });
}

#[test]
fn warnings_of_webhooks() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, request| match request["name"].as_str() {
            Some("long") => json!({ "allowed": true, "warnings": ["x".repeat(300)] }),
            Some("lines") => json!({ "allowed": true, "warnings": ["one\ntwo", "tab\tquote\""] }),
            Some("empty") => json!({ "allowed": true, "warnings": ["", "a"] }),
            Some("refused") => json!({ "allowed": false, "warnings": ["refused and warned"] }),
            _ => json!({ "allowed": true }),
        })
        .await;
        program
            .install(site, [(VALIDATING, "a", vec![program.hook("warn", json!({}))])])
            .await;
        for name in ["long", "lines", "empty"] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
    });
}

#[test]
fn webhooks_of_custom_resources() {
    contract_with_network!(async |site: &Site| {
        let version = json!({
            "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": { "type": "object", "properties": { "size": { "type": "integer", "default": 3 } } },
                    "status": { "type": "object", "properties": { "size": { "type": "integer" } } },
                },
            } },
        });
        site.define(version).await;
        let program = watching(site, &[("widgets", rules("{group}", &["widgets", "widgets/status"]))]).await;
        let shown = [
            "operation",
            "kind",
            "resource",
            "subResource",
            "object.spec",
            "object.status",
            "oldObject.spec",
        ];
        let widget = json!({
            "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": {}, "status": { "size": 1 },
        });
        let path = super::site::WIDGETS;
        site.quietly("POST", path, &[], widget).await;
        record(site, &program, "create", &shown);
        let headers = [("content-type", "application/merge-patch+json")];
        for (part, change) in [
            ("", json!({ "spec": { "size": 5 } })),
            ("/status", json!({ "status": { "size": 4 }, "spec": { "size": 7 } })),
        ] {
            site.quietly("PATCH", &format!("{path}/w{part}"), &headers, change)
                .await;
            record(site, &program, part, &shown);
        }
        site.quietly("DELETE", &format!("{path}/w"), &[], Value::Null).await;
        record(site, &program, "delete", &shown);
    });
}

#[test]
fn validating_webhooks_see_what_mutating_ones_changed() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|path, request| match path {
            "mutate" if request["name"] != "marker" => patch(&json!([
                { "op": "add", "path": "/metadata/labels", "value": { "by": "webhook" } },
                { "op": "add", "path": "/data/added", "value": "1" },
            ])),
            _ => json!({ "allowed": true }),
        })
        .await;
        let mutate = program.hook("mutate", json!({}));
        let validate = program.hook(
            "validate",
            json!({ "objectSelector": { "matchLabels": { "by": "webhook" } } }),
        );
        program
            .install(site, [(MUTATING, "a", vec![mutate]), (VALIDATING, "a", vec![validate])])
            .await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        record(
            site,
            &program,
            "create",
            &["operation", "object.data", "object.metadata.labels"],
        );
    });
}
