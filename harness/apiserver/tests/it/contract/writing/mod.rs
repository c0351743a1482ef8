//! What clients write: dry runs, patches, strict bodies, names, deletions.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, TestResponse};

mod conflicts;
mod deletions;
mod directives;
mod dry_runs;
mod json_patches;
mod names;
mod strictness;
mod values;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } })
}

/// A workload with that pod template.
fn workload(name: &str, pod: Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": "x" } },
            "template": { "metadata": { "labels": { "app": "x" } }, "spec": pod },
        },
    })
}

fn deployment(name: &str) -> Value {
    workload(name, json!({ "containers": [{ "name": "c", "image": "i:1" }] }))
}

/// Patches an object and records a part of it, or the error.
async fn patched(site: &Site, path: &str, kind: &str, patch: Value, part: &str) -> TestResponse {
    let media_type = format!("application/{kind}+json");
    let answer = site
        .quietly("PATCH", path, &[("content-type", &media_type)], patch.clone())
        .await;
    let result = match answer.body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => answer.body.pointer(part).unwrap_or(&Value::Null).to_string(),
    };
    site.note(&format!("{patch} -> {} {result}", answer.code));
    answer
}
