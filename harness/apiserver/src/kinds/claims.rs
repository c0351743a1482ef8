//! PersistentVolumeClaims, and the specs of claims in templates.

use quantity::Quantity;
use serde_json::Value;

use super::fields::{default, is_set, items, object, one_of, same, text};
use super::{data_sources, syntax};
use crate::status::FieldError;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn prepare(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "volumeMode", "Filesystem");
    default(new, "/status", "phase", "Pending");
    data_sources::align(new, old);
    if old.is_none() {
        protect(new, "kubernetes.io/pvc-protection");
    }
}

/// Protects a new object from deletion while it is in use, as upstream's admission plugin StorageObjectInUse does.
pub(super) fn protect(new: &mut Value, finalizer: &str) {
    if items(new, "/metadata/finalizers")
        .iter()
        .any(|known| known == finalizer)
    {
        return;
    }
    let Some(metadata) = object(new, "/metadata") else {
        return;
    };
    match metadata.entry("finalizers").or_insert(Value::Null) {
        Value::Array(finalizers) => finalizers.push(finalizer.into()),
        empty @ Value::Null => *empty = serde_json::json!([finalizer]),
        _ => {}
    }
}

/// Checks the access modes of a spec at `path`.
pub(super) fn validate_access_modes(errors: &mut Vec<FieldError>, spec: &Value, path: &str, if_none: &str) {
    let path = format!("{path}.accessModes");
    let modes = items(spec, "/accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(path.as_str(), if_none));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path.as_str(), why));
    }
    for mode in modes
        .iter()
        .filter_map(Value::as_str)
        .filter(|mode| !ACCESS_MODES.contains(mode))
    {
        errors.push(FieldError::not_supported(path.as_str(), mode, &ACCESS_MODES));
    }
}

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_spec(&mut errors, new.get("spec").unwrap_or(&Value::Null), "spec");
    if let Some(old) = old {
        validate_update(&mut errors, new, old);
    }
    errors
}

/// Checks the spec of a claim, or of a template of claims, at `path`.
pub(super) fn validate_spec(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    validate_access_modes(errors, spec, path, "at least 1 access mode is required");
    let class = text(spec, "/storageClassName");
    syntax::optional_dns_subdomain(errors, &format!("{path}.storageClassName"), class);
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    syntax::label_selector(errors, selector, &format!("{path}.selector"));
    let storage_path = format!("{path}.resources[storage]");
    match spec
        .pointer("/resources/requests/storage")
        .filter(|storage| is_set(Some(storage)))
    {
        None => errors.push(FieldError::required(storage_path, "")),
        Some(storage) => {
            if storage_of(Some(storage)).is_some_and(|storage| storage.value() <= 0) {
                errors.push(FieldError::invalid(
                    storage_path,
                    storage.clone(),
                    "must be greater than zero",
                ));
            }
        }
    }
    let mode_path = format!("{path}.volumeMode");
    one_of(errors, spec, "/volumeMode", &mode_path, &["Block", "Filesystem"]);
    data_sources::validate(errors, spec, path);
}

fn validate_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let is_bound = text(new, "/status/phase") == "Bound";
    let fixed = |claim: &Value| {
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            if text(old, "/spec/volumeName").is_empty() {
                spec.remove("volumeName");
            }
            if old.pointer("/spec/storageClassName").is_none_or(Value::is_null) {
                spec.remove("storageClassName");
            }
            // Only a bound claim can grow, or get other attributes.
            if is_bound {
                spec.remove("volumeAttributesClassName");
                if let Some(requests) = spec
                    .get_mut("resources")
                    .and_then(|resources| resources.get_mut("requests"))
                    .and_then(Value::as_object_mut)
                {
                    requests.remove("storage");
                }
            }
        }
        spec
    };
    if !same(Some(&fixed(new)), Some(&fixed(old))) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", why));
    }
    let requested = |claim: &Value| storage_of(claim.pointer("/spec/resources/requests/storage"));
    let (Some(wanted), Some(before)) = (requested(new), requested(old)) else {
        return;
    };
    let held = storage_of(old.pointer("/status/capacity/storage"));
    // A failed expansion can be taken back, but never to what the volume has.
    if wanted.compare(&before).is_lt() && held.is_some_and(|held| wanted.compare(&held).is_le()) {
        let why = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
    }
}

/// The quantity that a field of storage has; `None` if it is not set or not a quantity.
pub(super) fn storage_of(value: Option<&Value>) -> Option<Quantity> {
    value?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn claim(storage: &str, volume: &str) -> Value {
        json!({ "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": storage } },
            "volumeName": volume,
        } })
    }

    fn bound(mut claim: Value) -> Value {
        claim["status"] = json!({ "phase": "Bound", "capacity": { "storage": "1Gi" } });
        claim
    }

    fn of_class(class: &str) -> Value {
        let mut claim = claim("1Gi", "");
        claim["spec"]["storageClassName"] = json!(class);
        claim
    }

    #[rstest]
    #[case(claim("1Gi", ""), claim("1Gi", "pv"), 0)]
    #[case(claim("1Gi", "pv"), claim("2Gi", "pv"), 1)]
    #[case(bound(claim("1Gi", "pv")), bound(claim("2Gi", "pv")), 0)]
    #[case(bound(claim("3Gi", "pv")), bound(claim("2Gi", "pv")), 0)]
    #[case(bound(claim("3Gi", "pv")), bound(claim("1Gi", "pv")), 1)]
    #[case(claim("1Gi", "pv"), claim("1Gi", "other"), 1)]
    #[case(claim("1Gi", ""), of_class("a"), 0)]
    #[case(of_class("a"), of_class("b"), 1)]
    fn a_claim_binds_once_and_only_grows(#[case] old: Value, #[case] new: Value, #[case] expected: usize) {
        assert_eq!(validate(&new, Some(&old)).len(), expected);
    }
}
