//! Rules of built-in kinds: their defaults, and what can change after the creation.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, causes_of, with};

mod apps;
mod batch;
mod identity;
mod immutability;
mod networks;
mod pod_defaults;
mod pod_updates;
mod volumes;

const PODS: &str = "/api/v1/namespaces/{ns}/pods";

/// A pod whose spec and container have these members.
fn pod(name: &str, spec: Value, container: Value) -> Value {
    let container = with(&json!({ "name": "c", "image": "i:1" }), container);
    json!({ "metadata": { "name": name }, "spec": with(&json!({ "containers": [container] }), spec) })
}

/// A template with the label of [`selector`].
fn template(spec: Value) -> Value {
    let spec = with(&json!({ "containers": [{ "name": "c", "image": "i:1" }] }), spec);
    json!({ "metadata": { "labels": { "app": "x" } }, "spec": spec })
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "x" } })
}

/// Creates an object in a dry run, and records a part of it, or the error.
async fn part(site: &Site, what: &str, path: &str, object: Value, pointer: &str) {
    let answer = site.quietly("POST", &format!("{path}?dryRun=All"), &[], object).await;
    if answer.code == 201 {
        let part = answer.body.pointer(pointer).unwrap_or(&Value::Null);
        site.note(&format!("{what}: {part}"));
        return;
    }
    refused(site, what, &answer.body);
}

/// Merges a patch in a dry run, and records a part of the result, or the error.
async fn changed(site: &Site, what: &str, path: &str, patch: Value, pointer: &str) {
    let headers = [("content-type", "application/merge-patch+json")];
    let answer = site
        .quietly("PATCH", &format!("{path}?dryRun=All"), &headers, patch)
        .await;
    if answer.code == 200 {
        let part = answer.body.pointer(pointer).unwrap_or(&Value::Null);
        site.note(&format!("{what}: {part}"));
        return;
    }
    refused(site, what, &answer.body);
}

/// Records an error and its causes.
fn refused(site: &Site, what: &str, body: &Value) {
    site.note(&format!("{what}: {} {}", body["code"], body["reason"]));
    let causes = causes_of(body);
    if causes.is_empty() {
        site.note(&format!("  {}", body["message"]));
    }
    for cause in causes {
        site.note(&cause);
    }
}
