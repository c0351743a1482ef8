//! Admission that is built into the server: limits, quotas, priorities, runtime classes, and the
//! reach of policies beyond single objects.

use serde_json::{Value, json};

use super::contract;
use super::site::Site;

mod classes;
mod limit_ranges;
mod mutating_reach;
mod policy_reach;
mod quotas;

const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

/// A pod with one container of these resources.
fn pod(name: &str, resources: Value) -> Value {
    let container = json!({ "name": "c", "image": "i:1", "resources": resources });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

/// Creates an object and records a part of it, or the code and the error.
async fn created(site: &Site, what: &str, path: &str, object: Value, part: &str) {
    let answer = site.quietly("POST", path, &[], object).await;
    let result = match answer.body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => answer.body.pointer(part).unwrap_or(&Value::Null).to_string(),
    };
    site.note(&format!("{what}: {} {result}", answer.code));
    for warning in answer.headers.get_all("warning") {
        site.note(&format!("  {}", warning.to_str().unwrap()));
    }
}
