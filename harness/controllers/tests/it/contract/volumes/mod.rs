//! Claims, volumes and attachments. The volumes are of a CSI driver that nobody runs: what its
//! provisioner and attacher would do, the case does.

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

/// Makes a class `NAME-{ns}` of the driver, changed as given.
pub async fn class(site: &Site, name: &str, change: Value) {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": format!("{name}-{{ns}}") }, "provisioner": DRIVER,
    });
    json_patch::merge(&mut class, &change);
    site.create(class).await;
}

/// Makes a claim of 1 GiB without a class, changed as given.
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

/// Makes a volume `NAME-{ns}` of 1 GiB in a class of the case's own, changed as given.
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

/// The change by which a claim is of the volumes' class.
pub fn of_volumes() -> Value {
    json!({ "spec": { "storageClassName": "static-{ns}" } })
}

/// Waits until a claim or volume is in this phase.
pub async fn in_phase(site: &Site, path: &str, phase: &str) -> Value {
    site.until_it(path, phase, |object| object["status"]["phase"] == phase)
        .await
}

/// Makes a volume and a claim that are bound to each other.
pub async fn pair(site: &Site, name: &str, change: Value) {
    volume(site, name, change).await;
    let named = json!({ "spec": { "storageClassName": "static-{ns}", "volumeName": format!("{name}-{{ns}}") } });
    claim(site, name, named).await;
    in_phase(site, &claim_path(name), "Bound").await;
}

/// The change by which a pod uses a claim.
pub fn using(claim: &str) -> Value {
    json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] } })
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}
