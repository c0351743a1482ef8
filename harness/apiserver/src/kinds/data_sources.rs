//! What the volume of a claim is filled with. A claim has two fields for it, `dataSource` and the newer `dataSourceRef`.

use serde_json::Value;

use super::fields::{same, text};
use super::syntax;
use crate::status::FieldError;

/// The kind that a source without an API group must have.
const CLAIM: &str = "PersistentVolumeClaim";

/// Gives both fields of a claim the same source, as upstream does for older clients.
///
/// Drops what clients cannot use: references into other namespaces, which need a feature that is off by default, and
/// in the older field all kinds but claims and snapshots. Sources that the claim already has stay.
pub(super) fn align(new: &mut Value, old: Option<&Value>) {
    let had_source = old.and_then(|old| old.get("spec")).is_some_and(|spec| {
        let [source, reference] = sources(spec);
        source.or(reference).is_some()
    });
    let Some(spec) = new.get_mut("spec") else { return };
    if !had_source {
        let [source, reference] = sources(spec);
        let is_dropped = reference.is_some_and(is_elsewhere);
        let is_unknown = (is_dropped || reference.is_none()) && source.is_some_and(|source| !is_for_both(source));
        remove(spec, "dataSourceRef", is_dropped);
        remove(spec, "dataSource", is_unknown);
    }
    match sources(spec) {
        [Some(source), None] => spec["dataSourceRef"] = source.clone(),
        [None, Some(reference)] if !is_elsewhere(reference) => spec["dataSource"] = reference.clone(),
        _ => {}
    }
}

/// Checks the sources of a claim's spec at `path`.
pub(super) fn validate(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let [source, reference] = sources(spec);
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if let Some(source) = source {
            validate_source(errors, source, &format!("{path}.{field}"));
        }
    }
    let (Some(source), Some(reference)) = (source, reference) else {
        return;
    };
    let has_same = |field: &&str| same(source.get(field), reference.get(field));
    if is_elsewhere(reference) {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(FieldError::invalid(path, spec.clone(), why));
    } else if !["apiGroup", "kind", "name"].iter().all(has_same) {
        errors.push(FieldError::invalid(path, spec.clone(), "must match dataSourceRef"));
    }
}

fn validate_source(errors: &mut Vec<FieldError>, source: &Value, path: &str) {
    for field in ["name", "kind"] {
        if text(source, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(format!("{path}.{field}"), ""));
        }
    }
    let (group, kind) = (text(source, "/apiGroup"), text(source, "/kind"));
    if group.is_empty() && kind != CLAIM {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, kind, why));
    }
    syntax::optional_dns_subdomain(errors, &format!("{path}.apiGroup"), group);
    if is_elsewhere(source) {
        syntax::dns_label(errors, &format!("{path}.namespace"), text(source, "/namespace"));
    }
}

/// The two sources of a claim's spec.
fn sources(spec: &Value) -> [Option<&Value>; 2] {
    ["dataSource", "dataSourceRef"].map(|field| spec.get(field).filter(|source| source.is_object()))
}

fn is_elsewhere(source: &Value) -> bool {
    !text(source, "/namespace").is_empty()
}

/// Whether a source can be in the older field too.
fn is_for_both(source: &Value) -> bool {
    matches!(
        (text(source, "/apiGroup"), text(source, "/kind")),
        ("", CLAIM) | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn remove(spec: &mut Value, field: &str, condition: bool) {
    if let Some(spec) = spec.as_object_mut().filter(|_| condition) {
        spec.remove(field);
    }
}
