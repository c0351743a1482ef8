//! What webhooks are asked, and what their answers do. The webhooks run in the test.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::contract_with_network;
use super::policies::{ATTEMPTS, GROUP, MAPS, decide, map};
use super::program::{Answer, Program};
use super::site::{Site, with};

pub(super) const MUTATING: &str = "mutatingwebhookconfigurations";
pub(super) const VALIDATING: &str = "validatingwebhookconfigurations";

/// The answer to a request at a path: the member `response` of the review, without its uid.
pub(super) type Decisions = fn(path: &str, request: &Value) -> Value;

/// A program with webhooks of admission.
pub(super) struct Hooks(pub(super) Program);

impl Hooks {
    pub(super) async fn start(decisions: Decisions) -> Self {
        Self(Program::start(Arc::new(move |path, review| decide_about(path, review, decisions))).await)
    }

    /// A webhook of this program at a path, for config maps of the case.
    pub(super) fn hook(&self, name: &str, change: Value) -> Value {
        let whole = json!({
            "name": format!("{name}.example.com"),
            "clientConfig": { "url": format!("{}/{name}", self.0.url), "caBundle": self.0.authority },
            "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        with(&whole, change)
    }

    /// Installs webhooks and waits until they are in force.
    pub(super) async fn install(
        &self,
        site: &Site,
        configurations: impl IntoIterator<Item = (&str, &str, Vec<Value>)>,
    ) {
        let marker = |plural: &str| {
            let selector = json!({ "objectSelector": { "matchLabels": { "marker": plural } } });
            vec![self.hook("marker", selector)]
        };
        let mut configurations: Vec<_> = configurations.into_iter().collect();
        for plural in [MUTATING, VALIDATING] {
            configurations.push((plural, "zz-marker", marker(plural)));
        }
        for (plural, name, webhooks) in configurations {
            let configuration = json!({
                "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "webhooks": webhooks,
            });
            let created = site
                .quietly("POST", &format!("{GROUP}/{plural}"), &[], configuration)
                .await;
            assert_eq!(created.code, 201, "{:#}", created.body);
        }
        for plural in [MUTATING, VALIDATING] {
            let marked =
                json!({ "metadata": { "name": "marker", "labels": { "marker": plural } }, "data": { "key": "a" } });
            for attempt in 0.. {
                assert!(attempt < ATTEMPTS, "the server does not notice the webhooks");
                let path = format!("{MAPS}?dryRun=All");
                let answer = site.quietly("POST", &path, &[], marked.clone()).await;
                if answer.body["message"]
                    .as_str()
                    .is_some_and(|why| why.contains("marker.example.com"))
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self.0.calls.lock().clear();
    }

    /// The paths of the calls since the last time, without those for cluster-scoped objects: no selector of a namespace keeps
    /// them away from a webhook, and other cases write such objects at the same time.
    pub(super) fn paths(&self) -> Vec<String> {
        let of_namespace = |review: &Value| review["request"]["namespace"].is_string();
        let calls = std::mem::take(&mut *self.0.calls.lock());
        let own = calls.into_iter().filter(|(_, review)| of_namespace(review));
        own.map(|(path, _)| path).collect()
    }
}

fn decide_about(path: &str, review: &Value, decisions: Decisions) -> Answer {
    let mut response = match path {
        "marker" => json!({ "allowed": false }),
        _ => decisions(path, &review["request"]),
    };
    if let Some(code) = response["http"].as_u64() {
        let text = response["text"].as_str().unwrap_or_default().to_owned();
        return Answer::Text(u16::try_from(code).unwrap(), text);
    }
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    Answer::Body(json!({ "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response }))
}

pub(super) fn patch(operations: &Value) -> Value {
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string()) })
}

#[test]
fn a_webhook_refuses() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, request| match request["name"].as_str().unwrap() {
            "message" => json!({ "allowed": false, "status": { "message": "it is bad" } }),
            "reason" => json!({ "allowed": false, "status": { "reason": "NotAcceptable" } }),
            "code" => json!({ "allowed": false, "status": { "code": 418, "message": "a teapot" } }),
            "low-code" => json!({ "allowed": false, "status": { "code": 200, "message": "fine?" } }),
            "details" => json!({ "allowed": false, "status": {
                "code": 422, "reason": "Invalid", "message": "see the causes", "status": "Success",
                "details": { "name": "n", "causes": [{ "reason": "R", "message": "m", "field": "f" }] },
            } }),
            "nothing" => json!({ "allowed": false }),
            _ => json!({ "allowed": true, "warnings": ["one", "two"] }),
        })
        .await;
        program
            .install(site, [(VALIDATING, "a", vec![program.hook("validate", json!({}))])])
            .await;
        for name in ["message", "reason", "code", "low-code", "details", "nothing"] {
            site.post(MAPS, map(name)).await;
        }
        decide(site, "warnings", "POST", MAPS, map("allowed")).await;
    });
}

#[test]
fn what_a_webhook_is_asked() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, _| json!({ "allowed": true })).await;
        let deployments = json!({ "rules": [
            { "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments/*"] },
            { "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] },
        ] });
        program
            .install(
                site,
                [
                    (MUTATING, "a", vec![program.hook("mutate", deployments.clone())]),
                    (VALIDATING, "a", vec![program.hook("validate", deployments)]),
                ],
            )
            .await;
        let show = async |what: &str, method: &str, path: &str, body: Value| {
            decide(site, what, method, path, body).await;
            for (path, mut review) in program.0.calls.lock().drain(..) {
                let request = &mut review["request"];
                request["uid"] = (!request["uid"].as_str().unwrap().is_empty()).into();
                let user = request["userInfo"]["username"].take();
                request["userInfo"] = user.as_str().map(|user| !user.is_empty()).into();
                for object in ["object", "oldObject"] {
                    let Some(metadata) = request[object].get_mut("metadata").and_then(Value::as_object_mut) else {
                        continue;
                    };
                    metadata.remove("managedFields");
                    for own in ["uid", "resourceVersion", "creationTimestamp"] {
                        if let Some(value) = metadata.get_mut(own).filter(|value| !value.is_null()) {
                            *value = "SET".into();
                        }
                    }
                    if let Some(name) = metadata.get_mut("name").filter(|_| what == "generated") {
                        *name = "NAME".into();
                    }
                }
                if what == "generated" && request.get("name").is_some() {
                    request["name"] = "NAME".into();
                }
                site.note(&format!("  {path} {review:#}"));
            }
        };
        show("create", "POST", &format!("{MAPS}?fieldManager=me"), map("a")).await;
        show("dry run", "POST", &format!("{MAPS}?dryRun=All"), map("b")).await;
        let generated = json!({ "metadata": { "generateName": "g-" } });
        show("generated", "POST", MAPS, generated).await;
        let path = format!("{MAPS}/a");
        show("patch", "PATCH", &path, json!({ "data": { "key": "b" } })).await;
        show("delete", "DELETE", &path, json!({ "gracePeriodSeconds": 5 })).await;
        let labels = json!({ "app": "a" });
        let deployment = json!({ "metadata": { "name": "d" }, "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        } });
        let deployments = "/apis/apps/v1/namespaces/{ns}/deployments";
        site.quietly("POST", deployments, &[], deployment).await;
        let scale = json!({ "spec": { "replicas": 2 } });
        show("scale", "PATCH", &format!("{deployments}/d/scale"), scale).await;
    });
}

#[test]
fn webhooks_change_objects() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|path, request| {
            let data = &request["object"]["data"];
            match path {
                "first" => patch(&json!([{ "op": "add", "path": "/data/first", "value": "1" }])),
                "second" if data["first"] == "1" => patch(&json!([
                    { "op": "replace", "path": "/data/key", "value": "changed" },
                    { "op": "add", "path": "/metadata/annotations", "value": { "from": "second" } },
                ])),
                "validate" if data["key"] != "changed" && request["name"] != "marker" => json!({ "allowed": false }),
                _ => json!({ "allowed": true }),
            }
        })
        .await;
        program
            .install(
                site,
                [
                    (MUTATING, "b", vec![program.hook("second", json!({}))]),
                    (MUTATING, "a", vec![program.hook("first", json!({}))]),
                    (VALIDATING, "a", vec![program.hook("validate", json!({}))]),
                ],
            )
            .await;
        site.post(MAPS, map("a")).await;
        site.note(&format!("{:?}", program.paths()));
        let path = format!("{MAPS}/a");
        site.merge(&path, json!({ "data": { "key": "mine", "first": null } }))
            .await;
        site.note(&format!("{:?}", program.paths()));
        site.post(&format!("{MAPS}?dryRun=All"), map("b")).await;
        decide(site, "delete", "DELETE", &path, Value::Null).await;
    });
}

#[test]
fn webhooks_are_called_again() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|path, request| {
            let has = |key: &str| request["object"]["data"].get(key).is_some();
            match path {
                "third" if !has("third") => patch(&json!([{ "op": "add", "path": "/data/third", "value": "" }])),
                "first" if has("third") => patch(&json!([{ "op": "add", "path": "/data/again", "value": "" }])),
                _ => json!({ "allowed": true }),
            }
        })
        .await;
        let again = json!({ "reinvocationPolicy": "IfNeeded" });
        let hooks = vec![
            program.hook("first", again.clone()),
            program.hook("second", json!({})),
            program.hook("third", again.clone()),
            program.hook("fourth", again),
        ];
        program.install(site, [(MUTATING, "a", hooks)]).await;
        let stored = decide(site, "changed", "POST", MAPS, map("a")).await;
        site.note(&format!("{:?} {}", program.paths(), stored["data"]));
        let whole = json!({ "metadata": { "name": "b" }, "data": { "third": "" } });
        let stored = decide(site, "changed by the first", "POST", MAPS, whole).await;
        site.note(&format!("{:?} {}", program.paths(), stored["data"]));
        let whole = json!({ "metadata": { "name": "c" }, "data": { "third": "", "again": "" } });
        decide(site, "same", "POST", MAPS, whole).await;
        site.note(&format!("{:?}", program.paths()));
    });
}

#[test]
fn failures_of_webhooks() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|path, _| match path {
            "error" => json!({ "http": 500, "text": "broken" }),
            "text" => json!({ "http": 200, "text": "hello" }),
            "other" => json!({ "http": 200, "text": "{\"kind\": \"Pod\", \"apiVersion\": \"v1\"}" }),
            "silent" => json!({ "http": 200, "text": "{\"kind\": \"AdmissionReview\", \"apiVersion\": \"admission.k8s.io/v1\"}" }),
            "uid" => json!({ "uid": "other", "allowed": true }),
            "untyped" => json!({ "allowed": true, "patch": "W10=" }),
            "empty" => json!({ "allowed": true, "patch": "W10=", "patchType": "Merge" }),
            "merge" => with(&patch(&json!([{ "op": "remove", "path": "/data" }])), json!({ "patchType": "Merge" })),
            "failing" => patch(&json!([{ "op": "remove", "path": "/data/missing" }])),
            "wrong" => patch(&json!([{ "op": "add", "path": "/data", "value": 5 }])),
            "unknown" => patch(&json!([{ "op": "add", "path": "/unknown", "value": 5 }])),
            _ => json!({ "allowed": true }),
        })
        .await;
        let names = [
            "error", "text", "other", "silent", "uid", "untyped", "empty", "merge", "failing", "wrong", "unknown",
            "slow", "refused",
        ];
        let hook = |name: &str, policy: &str| {
            let selector = json!({ "matchLabels": { "hook": name, "policy": policy } });
            let change = json!({ "failurePolicy": policy, "objectSelector": selector, "timeoutSeconds": 1 });
            let mut hook = program.hook(name, change);
            if name == "refused" {
                hook["clientConfig"] = json!({ "url": "https://127.0.0.1:1/refused" });
            }
            hook["name"] = format!("{name}.{}.example.com", policy.to_lowercase()).into();
            hook
        };
        let hooks = names
            .iter()
            .flat_map(|name| ["Fail", "Ignore"].map(|policy| hook(name, policy)));
        program.install(site, [(MUTATING, "a", hooks.collect())]).await;
        for name in names {
            for policy in ["Fail", "Ignore"] {
                let labels = json!({ "hook": name, "policy": policy });
                let map = json!({
                    "metadata": { "name": format!("{name}-{}", policy.to_lowercase()), "labels": labels }, "data": { "a": "b" },
                });
                let answer = site.quietly("POST", MAPS, &[], map).await;
                let message = answer.body["message"].as_str().unwrap_or("fine");
                // What Go's libraries say about responses differs from what others say.
                let shown = match message.split_once("failed to call webhook") {
                    Some((before, _)) => format!("{before}failed to call webhook ..."),
                    None if matches!(name, "failing" | "wrong") => "...".to_owned(),
                    None => message.to_owned(),
                };
                site.note(&format!("{name} {policy}: {} {shown}", answer.code));
            }
        }
    });
}

#[test]
fn which_requests_webhooks_get() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, _| json!({ "allowed": true })).await;
        let operations = |operation: &str| {
            json!({ "rules": [
                { "operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] },
            ] })
        };
        let condition = |expression: &str, policy: &str| json!({ "matchConditions": [{ "name": "a", "expression": expression }], "failurePolicy": policy });
        let hooks = vec![
            program.hook("create", operations("CREATE")),
            program.hook("update", operations("UPDATE")),
            program.hook("delete", operations("DELETE")),
            program.hook("labels", json!({ "objectSelector": { "matchLabels": { "a": "b" } } })),
            program.hook(
                "elsewhere",
                json!({ "namespaceSelector": { "matchLabels": { "missing": "" } } }),
            ),
            program.hook("holds", condition("request.operation == 'CREATE'", "Fail")),
            program.hook("ignored", condition("object.data.missing == 'a'", "Ignore")),
            program.hook(
                "group",
                json!({ "rules": [
                { "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*/*"] },
            ] }),
            ),
        ];
        program.install(site, [(MUTATING, "a", hooks)]).await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        site.note(&format!("{:?}", program.paths()));
        let path = format!("{MAPS}/a");
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        decide(site, "label", "PATCH", &path, label).await;
        site.note(&format!("{:?}", program.paths()));
        decide(
            site,
            "delete all",
            "DELETE",
            &format!("{MAPS}?labelSelector=a"),
            Value::Null,
        )
        .await;
        site.note(&format!("{:?}", program.paths()));
    });
}

#[test]
fn a_condition_of_a_webhook_fails() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|_, _| json!({ "allowed": true })).await;
        let conditions = json!({ "matchConditions": [{ "name": "a", "expression": "object.data.missing == 'a'" }] });
        let selector = json!({ "objectSelector": { "matchLabels": { "a": "b" } } });
        let hook = program.hook("condition", with(&conditions, selector));
        program.install(site, [(VALIDATING, "a", vec![hook])]).await;
        site.post(
            MAPS,
            json!({ "metadata": { "name": "a", "labels": { "a": "b" } }, "data": { "key": "a" } }),
        )
        .await;
    });
}

/// The server processes large requests, and those that can expand, beside the others.
#[test]
fn a_webhook_decides_about_large_requests() {
    contract_with_network!(async |site: &Site| {
        let program = Hooks::start(|path, _| match path {
            "mutate" => patch(&json!([{ "op": "add", "path": "/data/mutated", "value": "yes" }])),
            _ => json!({ "allowed": true, "warnings": ["seen"] }),
        })
        .await;
        program
            .install(
                site,
                [
                    (MUTATING, "a", vec![program.hook("mutate", json!({}))]),
                    (VALIDATING, "a", vec![program.hook("validate", json!({}))]),
                ],
            )
            .await;
        let large = json!({ "metadata": { "name": "large" }, "data": { "key": "x".repeat(200_000) } });
        let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: yaml}, data: {key: a}}";
        for (what, media_type, body) in [
            ("large", "application/json", large),
            ("yaml", "application/yaml", yaml.into()),
        ] {
            let answer = site.quietly("POST", MAPS, &[("content-type", media_type)], body).await;
            let warnings = answer.headers.get_all("warning").iter().count();
            let mutated = &answer.body["data"]["mutated"];
            site.note(&format!("{what}: {} {mutated} {warnings}", answer.code));
        }
    });
}
