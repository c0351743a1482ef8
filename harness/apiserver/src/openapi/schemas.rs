//! The schemas of a document: the types of its resources and all referenced types.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::descriptions;
use crate::resource::{Resource, Shape, Subresource};
use crate::schema::StructuralSchema;
use crate::types;

pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
pub(super) const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
pub(super) const EVICTION: &str = "io.k8s.api.policy.v1.Eviction";
pub(super) const BINDING: &str = "io.k8s.api.core.v1.Binding";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const PREFIX: &str = "#/components/schemas/";

/// The schema name of a resource's objects: `io.k8s.api.core.v1.Pod`,
/// `io.sapcloud.machine.v1alpha1.Machine`.
pub(super) fn name(resource: &Resource) -> String {
    match resource.shape {
        Shape::BuiltIn(name) => name.to_owned(),
        Shape::Custom(_) => custom_name(resource, &resource.kind),
    }
}

/// The schema name of a resource's lists.
pub(super) fn list_name(resource: &Resource) -> String {
    match resource.shape {
        Shape::BuiltIn(name) => format!("{name}List"),
        Shape::Custom(_) => custom_name(resource, &resource.list_kind),
    }
}

fn custom_name(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

/// A reference to a schema in the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{PREFIX}{name}") })
}

/// `components.schemas`.
pub(super) fn of(resources: &[&Resource]) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted: BTreeSet<String> = [DELETE_OPTIONS, STATUS].map(str::to_owned).into();
    schemas.insert(PATCH.to_owned(), json!({ "type": "object" }));
    for resource in resources {
        match &resource.shape {
            Shape::BuiltIn(_) => wanted.extend([name(resource), list_name(resource)]),
            Shape::Custom(schema) => {
                for (name, schema) in [
                    (name(resource), custom(resource, schema)),
                    (list_name(resource), custom_list(resource)),
                ] {
                    references(&schema, &mut wanted);
                    schemas.insert(name, schema);
                }
            }
        }
        wanted.extend(
            resource
                .subresources
                .iter()
                .filter_map(|subresource| match subresource {
                    Subresource::Scale { .. } => Some(SCALE.to_owned()),
                    Subresource::Eviction => Some(EVICTION.to_owned()),
                    Subresource::Token => Some(TOKEN_REQUEST.to_owned()),
                    Subresource::Binding => Some(BINDING.to_owned()),
                    Subresource::Status | Subresource::Finalize | Subresource::Approval => None,
                    Subresource::EphemeralContainers | Subresource::Resize => None,
                    Subresource::Log | Subresource::Connect { .. } => None,
                }),
        );
    }
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(mut schema) = types::definition(&name) else {
            continue;
        };
        descriptions::add(&name, &mut schema);
        references(&schema, &mut wanted);
        schemas.insert(name, schema);
    }
    schemas
}

/// Collects the names of the referenced schemas.
fn references(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|text| text.strip_prefix(PREFIX))
            {
                names.insert(name.to_owned());
            }
            members.values().for_each(|member| references(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}

fn custom(resource: &Resource, schema: &StructuralSchema) -> Value {
    let mut schema = schema.raw().clone();
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({ "type": "string", "description": "The version of the schema." });
    schema["properties"]["kind"] = json!({ "type": "string", "description": "The kind of the object." });
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata.", "allOf": [reference(OBJECT_META)],
    });
    schema["x-kubernetes-group-version-kind"] =
        json!([{ "group": resource.group, "version": resource.version, "kind": resource.kind }]);
    schema
}

fn custom_list(resource: &Resource) -> Value {
    json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "allOf": [reference(LIST_META)] },
            "items": { "type": "array", "items": reference(&name(resource)) },
        },
        "x-kubernetes-group-version-kind": [
            { "group": resource.group, "version": resource.version, "kind": resource.list_kind },
        ],
    })
}
