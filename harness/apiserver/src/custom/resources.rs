//! The resources of a definition: one per served version, the storage version first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{is_established, is_true, items, text, texts};
use crate::jsonpath::JsonPath;
use crate::resource::{Column, Endpoint, Generation, Printer, Resource, Selectable, Shape, Subresource};
use crate::schema::StructuralSchema;
use crate::status::FieldError;
use crate::syntax::compare_versions;

/// One resource per served version, if the definition is established.
///
/// # Errors
/// The errors of the schemas, with paths relative to the definition.
pub fn resources(crd: &Value) -> Result<Vec<Resource>, Vec<FieldError>> {
    if !is_established(crd) {
        return Ok(Vec::new());
    }
    let mut versions: Vec<(usize, &Value)> = items(crd, "/spec/versions").iter().enumerate().collect();
    versions.retain(|(_, version)| is_true(version, "/served"));
    versions.sort_by_key(|(_, version)| !is_true(version, "/storage"));
    versions
        .into_iter()
        .map(|(index, version)| resource(crd, index, version))
        .collect()
}

fn resource(crd: &Value, index: usize, version: &Value) -> Result<Resource, Vec<FieldError>> {
    let kind = text(crd, "/status/acceptedNames/kind").to_owned();
    let named = |field: &str, otherwise: String| match text(crd, &format!("/status/acceptedNames/{field}")) {
        "" => otherwise,
        name => name.to_owned(),
    };
    Ok(Resource {
        group: text(crd, "/spec/group").to_owned(),
        version: text(version, "/name").to_owned(),
        list_kind: named("listKind", format!("{kind}List")),
        plural: text(crd, "/spec/names/plural").to_owned(),
        singular: named("singular", kind.to_lowercase()),
        kind,
        short_names: texts(crd, "/status/acceptedNames/shortNames"),
        categories: texts(crd, "/status/acceptedNames/categories"),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
        subresources: subresources(version),
        generation: Generation::Content,
        unconditional_update: false,
        graceful_deletion: false,
        endpoint: Endpoint::Stored,
        returns_deleted: false,
        selectable: selectable(version),
        printer: printer(version),
        shape: Shape::Custom(compile(index, version)?),
        prepare: None,
        validate: None,
        conversion: None,
        deprecation: deprecation(crd, version),
        versions: None,
    })
}

/// The warning about a version, if it is deprecated: that of the definition, or one that names the newest other version.
fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    if !is_true(version, "/deprecated") {
        return None;
    }
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(warning.to_owned());
    }
    let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
    let name = text(version, "/name");
    let others = items(crd, "/spec/versions").iter();
    let others = others.filter(|other| is_true(other, "/served") && !is_true(other, "/deprecated"));
    let newer = others
        .map(|other| text(other, "/name"))
        .filter(|other| compare_versions(other, name).is_lt())
        .min_by(|one, other| compare_versions(one, other));
    let replacement = newer.map_or_else(String::new, |newer| format!("; use {group}/{newer} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{replacement}"))
}

/// Compiles a version's schema; errors have paths relative to the definition.
pub(super) fn compile(index: usize, version: &Value) -> Result<Arc<StructuralSchema>, Vec<FieldError>> {
    let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&open);
    StructuralSchema::compiled(schema).map_err(|errors| {
        let moved = |error: FieldError| {
            let dot = if error.field.is_empty() || error.field.starts_with('[') {
                ""
            } else {
                "."
            };
            FieldError {
                field: format!("{path}{dot}{}", error.field),
                ..error
            }
        };
        errors.into_iter().map(moved).collect()
    })
}

fn subresources(version: &Value) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if version.pointer("/subresources/status").is_some_and(Value::is_object) {
        subresources.push(Subresource::Status);
    }
    if let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) {
        let selector = text(scale, "/labelSelectorPath");
        subresources.push(Subresource::Scale {
            spec_replicas: text(scale, "/specReplicasPath").to_owned(),
            status_replicas: text(scale, "/statusReplicasPath").to_owned(),
            selector: (!selector.is_empty()).then(|| selector.to_owned()),
        });
    }
    subresources
}

/// For the JSONPath `.spec.replicas`, upstream compares `spec.replicas`.
fn selectable(version: &Value) -> Vec<Selectable> {
    let fields = items(version, "/selectableFields").iter();
    let paths = fields.filter_map(|field| JsonPath::parse(text(field, "/jsonPath")).ok());
    paths
        .map(|path| Selectable {
            label: path.members().collect::<Vec<_>>().join("."),
            pointer: path.pointer(),
            missing: String::new(),
            stored_label: None,
        })
        .collect()
}

fn printer(version: &Value) -> Printer {
    let columns = items(version, "/additionalPrinterColumns");
    if columns.is_empty() {
        return Printer::Paths(vec![Column {
            name: "Age".to_owned(),
            type_: "date".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        }]);
    }
    let column = |column: &Value| Column {
        name: text(column, "/name").to_owned(),
        type_: text(column, "/type").to_owned(),
        format: text(column, "/format").to_owned(),
        description: text(column, "/description").to_owned(),
        priority: column
            .get("priority")
            .and_then(Value::as_i64)
            .and_then(|it| i32::try_from(it).ok())
            .unwrap_or(0),
        json_path: text(column, "/jsonPath").to_owned(),
    };
    Printer::Paths(columns.iter().map(column).collect())
}
