//! OpenAPI. Of v3 there is one document per group and version, and their index. The documents contain what kubectl and generic
//! clients need: schemas, the kind of each path, the parameters of writes.

mod descriptions;
mod paths;
mod schemas;
#[cfg(test)]
mod tests;
pub mod v2;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::discovery::etag;
use crate::resource::Resource;

/// `GET /openapi/v3`: the URL of each document, with a hash that changes with the document.
pub fn index(resources: &[Arc<Resource>]) -> Value {
    let names: BTreeSet<String> = resources.iter().map(|resource| document_name(resource)).collect();
    let mut paths = Map::new();
    for name in names {
        if let Some(document) = document(resources, &name) {
            let url = format!("/openapi/v3/{name}?hash={}", etag(&document));
            paths.insert(name, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// `GET /openapi/v3/{group_version}`, where `group_version` is for instance `api/v1` or `apis/apps/v1`; `None` if it
/// is not served.
pub fn document(resources: &[Arc<Resource>], group_version: &str) -> Option<Value> {
    let resources: Vec<&Resource> = resources
        .iter()
        .map(Arc::as_ref)
        .filter(|resource| resource.is_stored() && document_name(resource) == group_version)
        .collect();
    if resources.is_empty() {
        return None;
    }
    let mut paths = Map::new();
    for resource in &resources {
        paths.extend(paths::of(resource));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths,
        "components": { "schemas": schemas::of(&resources) },
    }))
}

/// The document name, for instance `api/v1` or `apis/apps/v1`.
fn document_name(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", resource.api_version())
}
