//! PersistentVolumes and PersistentVolumeClaims.

use quantity::Quantity;
use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, is_set, items, members, object, one_of, same, text};
use super::pods::sources;
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The volume types: the spec sets exactly one of these members.
const SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            "io.k8s.api.core.v1.PersistentVolume",
        )
        .cluster()
        .short(&["pv"])
        .status()
        .returns_deleted()
        .printer(printers::volumes())
        .prepare(prepare_volume)
        .validate(validate_volume)
        .build(),
        ResourceBuilder::new(
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "io.k8s.api.core.v1.PersistentVolumeClaim",
        )
        .short(&["pvc"])
        .status()
        .returns_deleted()
        .printer(printers::claims())
        .prepare(prepare_claim)
        .validate(validate_claim)
        .build(),
    ]
}

fn prepare_volume(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "persistentVolumeReclaimPolicy", "Retain");
    default(new, "/spec", "volumeMode", "Filesystem");
    sources::prepare(new, "/spec");
    default(new, "/status", "phase", "Pending");
    if old.is_none() {
        protect(new, "kubernetes.io/pv-protection");
    }
}

/// Protects a new object from deletion while it is in use, as upstream's admission plugin StorageObjectInUse does.
fn protect(new: &mut Value, finalizer: &str) {
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

fn prepare_claim(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "volumeMode", "Filesystem");
    default(new, "/status", "phase", "Pending");
    if old.is_none() {
        protect(new, "kubernetes.io/pvc-protection");
    }
}

fn sources(volume: &Value) -> Vec<(&str, &Value)> {
    members(volume, "/spec")
        .filter(|(name, value)| SOURCES.contains(name) && !value.is_null())
        .collect()
}

fn validate_volume(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_access_modes(&mut errors, new, "");
    let capacity = new.pointer("/spec/capacity");
    if same(capacity, None) {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if capacity.and_then(|capacity| capacity.get("storage")).is_none() || members(new, "/spec/capacity").count() > 1 {
        errors.push(FieldError::not_supported(
            "spec.capacity",
            capacity.cloned().unwrap_or(serde_json::json!({})),
            &["storage"],
        ));
    }
    validate_capacity(&mut errors, new);
    let spec = new.get("spec").unwrap_or(&Value::Null);
    sources::validate(&mut errors, spec, "spec");
    sources::validate_class(&mut errors, text(spec, "/storageClassName"), "spec.storageClassName");
    validate_source(&mut errors, spec);
    match sources(new).as_slice() {
        [] => errors.push(FieldError::required("spec", "must specify a volume type")),
        [_one] => {}
        [_first, others @ ..] => {
            errors.extend(others.iter().map(|(name, _)| {
                FieldError::forbidden(format!("spec.{name}"), "may not specify more than 1 volume type")
            }));
        }
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let path = "spec.persistentVolumeReclaimPolicy";
    one_of(&mut errors, new, "/spec/persistentVolumeReclaimPolicy", path, &policies);
    one_of(
        &mut errors,
        new,
        "/spec/volumeMode",
        "spec.volumeMode",
        &["Block", "Filesystem"],
    );
    if let Some(old) = old {
        if sources(new) != sources(old) {
            let why = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
        }
        immutable(&mut errors, new, old, "/spec/volumeMode");
        if !same(old.pointer("/spec/nodeAffinity"), None) {
            immutable(&mut errors, new, old, "/spec/nodeAffinity");
        }
    }
    errors
}

fn validate_capacity(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "spec.capacity[storage]";
    let value = new.pointer("/spec/capacity/storage");
    let Some(storage) = storage_of(value) else { return };
    if storage.value() < 0 {
        let number = i64::try_from(storage.value()).unwrap_or(i64::MIN);
        errors.push(FieldError::invalid(PATH, number, "must be a valid resource quantity"));
    }
    if storage.value() <= 0 {
        let value = value.cloned().unwrap_or_default();
        errors.push(FieldError::invalid(PATH, value, "must be greater than zero"));
    }
}

/// What single sources of volumes require.
fn validate_source(errors: &mut Vec<FieldError>, spec: &Value) {
    if spec.get("csi").is_some_and(Value::is_object) {
        for field in ["driver", "volumeHandle"] {
            if text(spec, &format!("/csi/{field}")).is_empty() {
                errors.push(FieldError::required(format!("spec.csi.{field}"), ""));
            }
        }
    }
    if spec.get("local").is_some_and(Value::is_object) && same(spec.get("nodeAffinity"), None) {
        let why = "Local volume requires node affinity";
        errors.push(FieldError::required("spec.nodeAffinity", why));
    }
    let recycled = text(spec, "/persistentVolumeReclaimPolicy") == "Recycle";
    let place = text(spec, "/hostPath/path");
    if recycled && !place.is_empty() && place.trim_end_matches('/').is_empty() {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", why));
    }
}

fn validate_access_modes(errors: &mut Vec<FieldError>, object: &Value, if_none: &str) {
    let modes = items(object, "/spec/accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", if_none));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", why));
    }
    for mode in modes
        .iter()
        .filter_map(Value::as_str)
        .filter(|mode| !ACCESS_MODES.contains(mode))
    {
        errors.push(FieldError::not_supported("spec.accessModes", mode, &ACCESS_MODES));
    }
}

fn validate_claim(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_access_modes(&mut errors, new, "at least 1 access mode is required");
    sources::validate_class(
        &mut errors,
        text(new, "/spec/storageClassName"),
        "spec.storageClassName",
    );
    let selector = new.pointer("/spec/selector").unwrap_or(&Value::Null);
    syntax::label_selector(&mut errors, selector, "spec.selector");
    match new
        .pointer("/spec/resources/requests/storage")
        .filter(|storage| is_set(Some(storage)))
    {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(storage) => {
            if storage_of(Some(storage)).is_some_and(|storage| storage.value() <= 0) {
                let path = "spec.resources[storage]";
                errors.push(FieldError::invalid(path, storage.clone(), "must be greater than zero"));
            }
        }
    }
    one_of(
        &mut errors,
        new,
        "/spec/volumeMode",
        "spec.volumeMode",
        &["Block", "Filesystem"],
    );
    if let Some(old) = old {
        validate_claim_update(&mut errors, new, old);
    }
    errors
}

fn validate_claim_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
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

fn storage_of(value: Option<&Value>) -> Option<Quantity> {
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
        assert_eq!(validate_claim(&new, Some(&old)).len(), expected);
    }

    #[test]
    fn a_volume_has_one_immutable_source() {
        let volume = |source: Value| {
            let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } });
            spec.as_object_mut()
                .unwrap()
                .extend(source.as_object().unwrap().clone());
            json!({ "spec": spec })
        };
        let csi = volume(json!({ "csi": { "driver": "d", "volumeHandle": "a" } }));
        let both = volume(json!({
            "csi": { "driver": "d", "volumeHandle": "a" }, "nfs": { "server": "s", "path": "/p" },
        }));
        let other = volume(json!({ "csi": { "driver": "d", "volumeHandle": "b" } }));
        assert_eq!(validate_volume(&csi, Some(&csi)), []);
        assert_eq!(
            validate_volume(&volume(json!({})), None),
            [FieldError::required("spec", "must specify a volume type")]
        );
        assert_eq!(validate_volume(&both, None)[0].field, "spec.nfs");
        assert_eq!(
            validate_volume(&other, Some(&csi))[0].field,
            "spec.persistentvolumesource"
        );
    }
}
