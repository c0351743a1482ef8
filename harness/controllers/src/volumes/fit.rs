//! Matches volumes and claims. The binder uses it, and the scheduler for claims with `WaitForFirstConsumer`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

use crate::amounts::whole;
use crate::matching::selects;

/// The annotation of a claim with completed binding.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of references that the binder has set.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim that names the node for which its volume is provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of classes without dynamic provisioning.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The deprecated annotation that names a claim's class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; empty when it names none.
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotation = claim.annotations().get(CLASS_ANNOTATION);
    let field = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    annotation.or(field).map(String::as_str).unwrap_or_default()
}

/// The class of a volume; empty when it has none.
pub fn class_of_volume(volume: &PersistentVolume) -> &str {
    let annotation = volume.annotations().get(CLASS_ANNOTATION);
    let field = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    annotation.or(field).map(String::as_str).unwrap_or_default()
}

/// The volume that a claim is bound to or names; empty if none.
pub fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref())
        .unwrap_or_default()
}

/// The access modes of a claim.
pub fn access_modes(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let spec = claim.spec.as_ref();
    let modes = spec.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().map(String::as_str).collect()
}

/// Whether volumes of the class are bound only after a pod that uses them is scheduled.
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// The CSI driver and volume handle; `None` for volumes without a CSI driver.
pub fn handle(volume: &PersistentVolume) -> Option<(String, String)> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((csi.driver.clone(), csi.volume_handle.clone()))
}

/// Whether the volume is reserved for this claim, by name and, if set, uid.
pub fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name.as_deref() == claim.metadata.name.as_deref()
            && reference.namespace.as_deref() == claim.metadata.namespace.as_deref()
            && (reference.uid.as_ref().is_none_or(String::is_empty) || reference.uid == claim.metadata.uid)
    })
}

/// Why a volume does not match a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It is smaller than requested.
    TooSmall,
    /// It has another class.
    Class,
    /// It has another volume mode.
    VolumeMode,
    /// It does not support the access modes.
    AccessModes,
    /// The claim's selector does not select it.
    Selector,
}

impl Mismatch {
    /// The text for events, as upstream.
    pub fn text(self) -> &'static str {
        match self {
            Self::TooSmall => "requested PV is too small",
            Self::Class => "storageClassName does not match",
            Self::VolumeMode => "incompatible volumeMode",
            Self::AccessModes => "incompatible accessMode",
            Self::Selector => "selector does not match",
        }
    }
}

/// Whether a preselected volume matches the claim.
///
/// # Errors
/// The mismatch.
pub fn satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Mismatch> {
    if size_of(volume) < requested_by(claim) {
        return Err(Mismatch::TooSmall);
    }
    if class_of(claim) != class_of_volume(volume) {
        return Err(Mismatch::Class);
    }
    if mode_of(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
        != mode_of(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
    {
        return Err(Mismatch::VolumeMode);
    }
    let offered = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_deref())
        .unwrap_or_default();
    if !access_modes(claim)
        .iter()
        .all(|mode| offered.iter().any(|offered| offered == mode))
    {
        return Err(Mismatch::AccessModes);
    }
    Ok(())
}

/// The best volume for a claim: a volume reserved for it, otherwise the smallest match.
pub fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl Iterator<Item = &'a Arc<PersistentVolume>>,
) -> Option<&'a Arc<PersistentVolume>> {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    volumes
        .filter(|volume| volume.metadata.deletion_timestamp.is_none())
        .filter(|volume| satisfies(volume, claim).is_ok())
        .filter_map(|volume| {
            let reserved = is_for(volume, claim);
            let taken = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            let selected = selector.is_none_or(|selector| selects(selector, volume.labels()));
            let suits = reserved || (!taken && phase == Some("Available") && selected);
            suits.then_some((!reserved, size_of(volume), volume))
        })
        .min_by_key(|(open, size, volume)| (*open, *size, volume.name_any()))
        .map(|(_, _, volume)| volume)
}

/// In bytes.
fn size_of(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity.and_then(|list| list.get("storage")).map_or(0, whole)
}

/// In bytes.
fn requested_by(claim: &PersistentVolumeClaim) -> i64 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests.and_then(|list| list.get("storage")).map_or(0, whole)
}

fn mode_of(mode: Option<&String>) -> &str {
    mode.map_or("Filesystem", String::as_str)
}

/// The claim reference for a volume.
pub fn reference(claim: &PersistentVolumeClaim) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace, "name": claim.metadata.name,
        "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
    })
}
