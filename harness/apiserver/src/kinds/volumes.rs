//! PersistentVolumes; [`claims`](super::claims) has the checks of claims.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, members, one_of, same, text};
use super::pods::sources;
use super::{claims, syntax};
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

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
        .prepare(claims::prepare)
        .validate(claims::validate)
        .build(),
    ]
}

fn prepare_volume(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "persistentVolumeReclaimPolicy", "Retain");
    default(new, "/spec", "volumeMode", "Filesystem");
    sources::prepare(new, "/spec");
    default(new, "/status", "phase", "Pending");
    if old.is_none() {
        claims::protect(new, "kubernetes.io/pv-protection");
    }
}

fn sources(volume: &Value) -> Vec<(&str, &Value)> {
    members(volume, "/spec")
        .filter(|(name, value)| SOURCES.contains(name) && !value.is_null())
        .collect()
}

fn validate_volume(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    claims::validate_access_modes(&mut errors, spec, "spec", "");
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
    sources::validate(&mut errors, spec, "spec");
    syntax::optional_dns_subdomain(&mut errors, "spec.storageClassName", text(spec, "/storageClassName"));
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
        // Upstream's errors do not name the spec.
        for (field, why) in [
            ("volumeMode", "field is immutable"),
            (
                "nodeAffinity",
                "field is immutable, except for updating from beta label to GA",
            ),
        ] {
            let of = |volume: &Value| volume.pointer(&format!("/spec/{field}")).cloned();
            let is_set_once = field == "nodeAffinity" && same(of(old).as_ref(), None);
            if !is_set_once && !same(of(new).as_ref(), of(old).as_ref()) {
                errors.push(FieldError::invalid(field, of(new).unwrap_or_default(), why));
            }
        }
    }
    errors
}

fn validate_capacity(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "spec.capacity[storage]";
    let value = new.pointer("/spec/capacity/storage");
    let Some(storage) = claims::storage_of(value) else {
        return;
    };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
