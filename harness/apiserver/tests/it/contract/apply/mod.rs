//! Server-side apply and field managers.

mod conflicts;
mod custom;
mod items;
mod kinds;
mod lists;
mod managers;
mod refusals;
mod removal;
mod subresources;

use serde_json::{Value, json};

use super::{Site, contract};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
const SERVICES: &str = "/api/v1/namespaces/{ns}/services";

/// A configuration of a config map.
fn map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

/// A configuration of a deployment with these fields in its spec.
fn deployment(spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" }, "spec": spec })
}

/// A complete deployment with these containers.
fn with_containers(containers: Value) -> Value {
    deployment(json!({
        "selector": { "matchLabels": { "app": "a" } },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": containers } },
    }))
}
