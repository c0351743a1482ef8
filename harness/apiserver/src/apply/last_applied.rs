//! The annotation of client-side apply, with which `kubectl apply --server-side` takes over an object.

use serde_json::Value;

use super::compare::Comparison;
use super::kind::Kind;
use super::owned::fields_of;
use super::set::FieldSet;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that client-side apply set and that have not changed since: conflicts about them are none.
pub(super) fn unchanged_fields(kind: Kind<'_>, live: &Value, api_version: &str) -> FieldSet {
    let last: Option<Value> = annotation(live).and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last.filter(|last| last.get("apiVersion").and_then(Value::as_str) == Some(api_version)) else {
        return FieldSet::default();
    };
    let changes = Comparison::of(kind, &last, live);
    let mut fields = fields_of(kind, &last);
    for changed in [&changes.modified, &changes.added, &changes.removed] {
        fields.subtract(changed);
    }
    fields
}

/// Writes the configuration into the annotation, if there is one.
pub(super) fn update(object: &mut Value, configuration: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut configuration = configuration.clone();
    if let Some(annotations) = configuration
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.insert(ANNOTATION.to_owned(), format!("{configuration}\n").into());
    }
}
