//! Versions of custom resources: what each shows of the stored objects, and conversion webhooks.

mod answers;
mod questions;
mod settings;
mod versions;
mod webhook;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::program::{Answer, Program};
use super::site::{Site, WIDGETS, widgets, with};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = WIDGETS;
const V2: &str = "/apis/{group}/v2/namespaces/{ns}/widgets";

/// A version with these properties of `spec`.
fn version(name: &str, storage: bool, properties: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": properties },
        } } },
    })
}

/// The first version has host and port, the second one an address.
fn host_and_port(storage: bool) -> Value {
    version(
        "v1",
        storage,
        json!({ "host": { "type": "string" }, "port": { "type": "integer" } }),
    )
}

fn address(storage: bool) -> Value {
    version(
        "v2",
        storage,
        json!({ "address": { "type": "string", "pattern": ":" } }),
    )
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("{{group}}/{version}"), "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

fn first(name: &str) -> Value {
    widget("v1", name, json!({ "host": "example.com", "port": 80 }))
}

fn second(name: &str) -> Value {
    widget("v2", name, json!({ "address": "example.com:80" }))
}

/// The widget in the other version.
fn converted(object: &Value) -> Value {
    let mut object = object.clone();
    let spec = &object["spec"];
    let (version, spec) = match (spec.get("address"), spec.get("host")) {
        (Some(address), _) => {
            let (host, port) = address.as_str().unwrap().split_once(':').unwrap();
            ("v1", json!({ "host": host, "port": port.parse::<u16>().unwrap_or(0) }))
        }
        (None, Some(host)) => (
            "v2",
            json!({ "address": format!("{}:{}", host.as_str().unwrap(), spec["port"]) }),
        ),
        (None, None) => match object["apiVersion"].as_str().unwrap().ends_with("/v1") {
            true => ("v2", json!({})),
            false => ("v1", json!({})),
        },
    };
    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    object["apiVersion"] = format!("{group}/{version}").into();
    object["spec"] = spec;
    object
}

/// The successful review with these objects.
fn review(asked: &Value, objects: Vec<Value>) -> Value {
    json!({
        "kind": "ConversionReview", "apiVersion": asked["apiVersion"],
        "response": {
            "uid": asked["request"]["uid"], "result": { "status": "Success" }, "convertedObjects": objects,
        },
    })
}

fn objects(asked: &Value) -> Vec<Value> {
    asked["request"]["objects"].as_array().unwrap().clone()
}

/// A program that converts widgets.
async fn converter() -> Program {
    Program::start(Arc::new(|_, asked| {
        Answer::Body(review(asked, objects(asked).iter().map(converted).collect()))
    }))
    .await
}

fn by_webhook(program: &Program) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": { "url": format!("{}/convert", program.url), "caBundle": program.authority },
        },
    })
}

/// The definition of widgets, which can change during a case.
struct Definition<'a> {
    site: &'a Site,
    /// The length of a text that the current schemas just accept: it shows which ones apply.
    length: Cell<usize>,
}

impl<'a> Definition<'a> {
    /// Creates the definition and waits until widgets are served.
    async fn create(site: &'a Site, spec: Value) -> Self {
        let definition = Self {
            site,
            length: Cell::new(1),
        };
        site.define_as(widgets(definition.marked(spec))).await;
        definition
    }

    fn marked(&self, mut spec: Value) -> Value {
        for version in spec["versions"].as_array_mut().unwrap() {
            version["schema"]["openAPIV3Schema"]["properties"]["marker"] =
                json!({ "type": "string", "maxLength": self.length.get() });
        }
        spec
    }

    /// Changes members of the spec and waits until the change applies to that version of widgets.
    async fn change(&self, path: &str, spec: Value) {
        self.length.set(self.length.get() + 1);
        let current = self.site.quietly("GET", DEFINITION, &[], Value::Null).await.body;
        let mut changed = current.clone();
        changed["spec"] = self.marked(with(&current["spec"], spec));
        let changed = self.site.quietly("PUT", DEFINITION, &[], changed).await;
        assert_eq!(changed.code, 200, "{:#}", changed.body);
        let version = if path == V1 { "v1" } else { "v2" };
        let mut probe = widget(version, "probe", json!({}));
        probe["marker"] = "x".repeat(self.length.get()).into();
        for _ in 0..600 {
            let answer = self
                .site
                .quietly("POST", &format!("{path}?dryRun=All"), &[], probe.clone())
                .await;
            if answer.code == 201 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the changed definition does not apply");
    }
}
