//! Claims, volumes and attachments. The volumes belong to a CSI driver that does not run: the case simulates
//! its provisioner and attacher.

mod attachments;
mod binding;
mod scheduling;

use serde_json::{Value, json};

use super::Site;

/// The driver of the cases' volumes.
pub const DRIVER: &str = "csi.example.com";

/// The path of a claim of the case.
pub fn claim_path(name: &str) -> String {
    format!("/api/v1/namespaces/{{ns}}/persistentvolumeclaims/{name}")
}

/// The path of a volume of the case.
pub fn volume_path(name: &str) -> String {
    format!("/api/v1/persistentvolumes/{name}-{{ns}}")
}

/// Creates a class `NAME-{ns}` of the driver, with this change.
pub async fn class(site: &Site, name: &str, change: Value) {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": format!("{name}-{{ns}}") }, "provisioner": DRIVER,
    });
    json_patch::merge(&mut class, &change);
    site.create(class).await;
}

/// Creates a claim of 1 GiB without a class, with this change.
pub async fn claim(site: &Site, name: &str, change: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": {
            "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    json_patch::merge(&mut claim, &change);
    site.create(claim).await
}

/// Creates a volume `NAME-{ns}` of 1 GiB in the case's own class, with this change.
pub async fn volume(site: &Site, name: &str, change: Value) {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": format!("{name}-{{ns}}") },
        "spec": {
            "storageClassName": "static-{ns}", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "csi": { "driver": DRIVER, "volumeHandle": format!("{name}-{{ns}}") },
        },
    });
    json_patch::merge(&mut volume, &change);
    site.create(volume).await;
}

/// A change of a claim that sets the volumes' class.
pub fn of_volumes() -> Value {
    json!({ "spec": { "storageClassName": "static-{ns}" } })
}

/// Waits until a claim or volume has this phase.
pub async fn in_phase(site: &Site, path: &str, phase: &str) -> Value {
    site.until_it(path, phase, |object| object["status"]["phase"] == phase)
        .await
}

/// Creates a bound pair of volume and claim.
pub async fn pair(site: &Site, name: &str, change: Value) {
    volume(site, name, change).await;
    let named = json!({ "spec": { "storageClassName": "static-{ns}", "volumeName": format!("{name}-{{ns}}") } });
    claim(site, name, named).await;
    in_phase(site, &claim_path(name), "Bound").await;
}

/// A change of a pod that uses a claim.
pub fn using(claim: &str) -> Value {
    json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] } })
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}
