//! The sources of volumes: defaults and checks. Those that persistent volumes share with pods are for both.

use serde_json::{Value, json};

use crate::kinds::claims;
use crate::kinds::fields::{default, default_within, is_set, items, items_mut, members, text};
use crate::status::FieldError;

/// Sets the defaults of sources that pods and persistent volumes have; `parent` is the pointer to the source's object.
pub(in crate::kinds) fn prepare(value: &mut Value, parent: &str) {
    for (source, field, fallback) in [
        ("iscsi", "iscsiInterface", json!("default")),
        ("rbd", "pool", json!("rbd")),
        ("rbd", "user", json!("admin")),
        ("rbd", "keyring", json!("/etc/ceph/keyring")),
        ("azureDisk", "cachingMode", json!("ReadWrite")),
        ("azureDisk", "kind", json!("Shared")),
        ("azureDisk", "fsType", json!("ext4")),
        ("azureDisk", "readOnly", json!(false)),
        ("scaleIO", "storageMode", json!("ThinProvisioned")),
        ("scaleIO", "fsType", json!("xfs")),
    ] {
        default_within(value, &format!("{parent}/{source}"), field, fallback);
    }
    let host_path = format!("{parent}/hostPath");
    if value.pointer(&format!("{host_path}/type")).is_none() {
        default_within(value, &host_path, "type", "");
    }
}

/// Sets the defaults of a pod's volume.
pub(super) fn prepare_volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|volume| volume.keys().all(|key| key == "name"));
    if sourceless {
        default(volume, "", "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        default_within(volume, &format!("/{source}"), "defaultMode", 420);
    }
    prepare(volume, "");
    let is_latest = super::images::follows_latest(text(volume, "/image/reference"));
    let policy = if is_latest { "Always" } else { "IfNotPresent" };
    default_within(volume, "/image", "pullPolicy", policy);
    default_within(volume, "/ephemeral/volumeClaimTemplate", "metadata", json!({}));
    if volume
        .pointer("/ephemeral/volumeClaimTemplate")
        .is_some_and(Value::is_object)
    {
        default(
            volume,
            "/ephemeral/volumeClaimTemplate/spec",
            "volumeMode",
            "Filesystem",
        );
    }
    for item in items_mut(volume, "/downwardAPI/items") {
        default_within(item, "/fieldRef", "apiVersion", "v1");
    }
    for source in items_mut(volume, "/projected/sources") {
        default_within(source, "/serviceAccountToken", "expirationSeconds", 3600);
        for item in items_mut(source, "/downwardAPI/items") {
            default_within(item, "/fieldRef", "apiVersion", "v1");
        }
    }
}

/// Checks the sources that pods and persistent volumes have; `volume` is the object with the source.
pub(in crate::kinds) fn validate(errors: &mut Vec<FieldError>, volume: &Value, path: &str) {
    let required = |errors: &mut Vec<FieldError>, source: &str, fields: &[&str]| {
        let Some(value) = volume.get(source).filter(|value| value.is_object()) else {
            return;
        };
        // Upstream's path has another name.
        let shown = if source == "gcePersistentDisk" {
            "persistentDisk"
        } else {
            source
        };
        for field in fields {
            if text(value, &format!("/{field}")).is_empty() {
                errors.push(FieldError::required(format!("{path}.{shown}.{field}"), ""));
            }
        }
    };
    if let Some(host_path) = volume.get("hostPath").filter(|value| value.is_object()) {
        let place = text(host_path, "/path");
        if place.is_empty() {
            errors.push(FieldError::required(format!("{path}.hostPath.path"), ""));
        } else {
            no_backsteps(errors, place, &format!("{path}.hostPath.path"));
        }
    }
    required(errors, "nfs", &["server", "path"]);
    let nfs = text(volume, "/nfs/path");
    if volume.get("nfs").is_some_and(Value::is_object) && !nfs.starts_with('/') {
        errors.push(FieldError::invalid(
            format!("{path}.nfs.path"),
            nfs,
            "must be an absolute path",
        ));
    }
    required(errors, "rbd", &["image"]);
    required(errors, "cinder", &["volumeID"]);
    required(errors, "gcePersistentDisk", &["pdName"]);
    required(errors, "awsElasticBlockStore", &["volumeID"]);
    required(errors, "azureFile", &["secretName", "shareName"]);
    required(errors, "azureDisk", &["diskName", "diskURI"]);
    required(errors, "glusterfs", &["endpoints", "path"]);
    required(errors, "iscsi", &["targetPortal", "iqn"]);
    required(errors, "vsphereVolume", &["volumePath"]);
}

/// Checks the template of the claim that a pod's ephemeral volume creates.
fn validate_claim_template(errors: &mut Vec<FieldError>, template: &Value, path: &str) {
    for (field, value) in members(template, "/metadata") {
        if !matches!(field, "labels" | "annotations") && is_set(Some(value)) {
            errors.push(FieldError::forbidden(
                format!("{path}.metadata.{field}"),
                "cannot be set",
            ));
        }
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    claims::validate_spec(errors, spec, &format!("{path}.spec"));
}

/// Checks a pod's volume.
pub(super) fn validate_volume(errors: &mut Vec<FieldError>, volume: &Value, path: &str) {
    validate(errors, volume, path);
    if let Some(ephemeral) = volume.get("ephemeral").filter(|source| source.is_object()) {
        let path = format!("{path}.ephemeral.volumeClaimTemplate");
        match ephemeral
            .get("volumeClaimTemplate")
            .filter(|template| template.is_object())
        {
            Some(template) => validate_claim_template(errors, template, &path),
            None => errors.push(FieldError::required(path, "")),
        }
    }
    let has = |source: &str| volume.get(source).is_some_and(Value::is_object);
    for (source, field) in [
        ("secret", "secretName"),
        ("configMap", "name"),
        ("persistentVolumeClaim", "claimName"),
        ("csi", "driver"),
    ] {
        if has(source) && text(volume, &format!("/{source}/{field}")).is_empty() {
            errors.push(FieldError::required(format!("{path}.{source}.{field}"), ""));
        }
    }
    for source in ["secret", "configMap"] {
        for (index, item) in items(volume, &format!("/{source}/items")).iter().enumerate() {
            let path = format!("{path}.{source}.items[{index}]");
            for field in ["key", "path"] {
                if text(item, &format!("/{field}")).is_empty() {
                    errors.push(FieldError::required(format!("{path}.{field}"), ""));
                }
            }
            let place = text(item, "/path");
            if place.starts_with('/') {
                errors.push(FieldError::invalid(
                    format!("{path}.path"),
                    place,
                    "must be a relative path",
                ));
            }
            no_backsteps(errors, place, &format!("{path}.path"));
        }
    }
}

fn no_backsteps(errors: &mut Vec<FieldError>, place: &str, path: &str) {
    if place.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, place, "must not contain '..'"));
    }
}
