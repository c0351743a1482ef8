//! The schemas of a document: the types of its resources and all referenced types.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

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
pub(super) fn name(row: &Resource) -> String {
    match row.shape {
        Shape::BuiltIn(name) => name.to_owned(),
        Shape::Custom(_) => custom_name(row, &row.kind),
    }
}

/// The schema name of a resource's lists.
pub(super) fn list_name(row: &Resource) -> String {
    match row.shape {
        Shape::BuiltIn(name) => format!("{name}List"),
        Shape::Custom(_) => custom_name(row, &row.list_kind),
    }
}

fn custom_name(row: &Resource, kind: &str) -> String {
    let group: Vec<&str> = row.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), row.version)
}

/// A reference to a schema in the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{PREFIX}{name}") })
}

/// `components.schemas`.
pub(super) fn of(rows: &[&Resource]) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted: BTreeSet<String> = [DELETE_OPTIONS, STATUS].map(str::to_owned).into();
    schemas.insert(PATCH.to_owned(), json!({ "type": "object" }));
    for row in rows {
        match &row.shape {
            Shape::BuiltIn(_) => wanted.extend([name(row), list_name(row)]),
            Shape::Custom(schema) => {
                for (name, schema) in [(name(row), custom(row, schema)), (list_name(row), custom_list(row))] {
                    references(&schema, &mut wanted);
                    schemas.insert(name, schema);
                }
            }
        }
        wanted.extend(row.subresources.iter().filter_map(|subresource| match subresource {
            Subresource::Scale { .. } => Some(SCALE.to_owned()),
            Subresource::Eviction => Some(EVICTION.to_owned()),
            Subresource::Token => Some(TOKEN_REQUEST.to_owned()),
            Subresource::Binding => Some(BINDING.to_owned()),
            Subresource::Status | Subresource::Finalize => None,
        }));
    }
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(schema) = types::definition(&name) else {
            continue;
        };
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

fn custom(row: &Resource, schema: &StructuralSchema) -> Value {
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
        json!([{ "group": row.group, "version": row.version, "kind": row.kind }]);
    schema
}

fn custom_list(row: &Resource) -> Value {
    json!({
        "type": "object",
        "description": format!("{} is a list of {}", row.list_kind, row.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "allOf": [reference(LIST_META)] },
            "items": { "type": "array", "items": reference(&name(row)) },
        },
        "x-kubernetes-group-version-kind": [
            { "group": row.group, "version": row.version, "kind": row.list_kind },
        ],
    })
}
