//! The decision about one volume: its phase, and its release after its claim is deleted.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use super::super::fit::{self, BOUND_BY_CONTROLLER};
use super::Reason;
use crate::foundation::{Action, Caches, Plan, Severity};

/// The annotation that names the provisioner of a volume, which also deletes it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Decides about a volume.
pub fn decide(caches: &Caches, volume: &PersistentVolume, now: Timestamp) -> Plan<Reason> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let uid = reference
        .and_then(|reference| reference.uid.as_deref())
        .unwrap_or_default();
    let Some(key) = super::claim_of(volume).filter(|_| !uid.is_empty()) else {
        return set_phase(volume, "Available", "", now);
    };
    let claim = caches
        .claims
        .get(&key)
        .filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
    let Some(claim) = claim else {
        return release(volume, now);
    };
    let bound_to = fit::volume_of(claim);
    if bound_to == volume.name_any() {
        return set_phase(volume, "Bound", "", now);
    }
    // The claim's own decision sets its volume name next.
    if bound_to.is_empty() {
        return Plan::nothing();
    }
    if volume.annotations().contains_key(PROVISIONED_BY) && reclaim_policy(volume) == "Delete" {
        return release(volume, now);
    }
    let patch = if volume.annotations().contains_key(BOUND_BY_CONTROLLER) {
        json!({ "metadata": { "annotations": { BOUND_BY_CONTROLLER: null } }, "spec": { "claimRef": null } })
    } else {
        json!({ "spec": { "claimRef": { "uid": null, "resourceVersion": null } } })
    };
    Plan::act(Reason::Release, Action::merge_as_seen(volume, patch))
}

/// The claim is gone. The volume's CSI driver or provisioner applies the reclaim policy; this controller cannot
/// delete a volume that has neither, and cannot recycle any volume.
fn release(volume: &PersistentVolume, now: Timestamp) -> Plan<Reason> {
    if !matches!(phase(volume), "Released" | "Failed") {
        return set_phase(volume, "Released", "", now);
    }
    let name = volume.name_any();
    let csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    let by_driver = csi || volume.annotations().contains_key(PROVISIONED_BY);
    let (event, message) = match reclaim_policy(volume) {
        "Delete" if !by_driver => (
            "VolumeFailedDelete",
            format!("error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"),
        ),
        "Recycle" => (
            "VolumeFailedRecycle",
            "No recycler plugin found for the volume!".to_owned(),
        ),
        _ => return Plan::nothing(),
    };
    let mut plan = set_phase(volume, "Failed", &message, now);
    if !plan.actions.is_empty() {
        plan.actions
            .push(Action::event(volume, Severity::Warning, event, message));
    }
    plan
}

fn set_phase(volume: &PersistentVolume, wanted: &'static str, message: &str, now: Timestamp) -> Plan<Reason> {
    if phase(volume) == wanted {
        return Plan::nothing();
    }
    let mut status = json!({ "phase": wanted, "lastPhaseTransitionTime": Time(now) });
    let known = volume.status.as_ref().and_then(|status| status.message.as_deref());
    if known.unwrap_or_default() != message {
        status["message"] = if message.is_empty() {
            json!(null)
        } else {
            json!(message)
        };
    }
    Plan::act(Reason::Phase(wanted), Action::patch_status_as_seen(volume, status))
}

fn phase(volume: &PersistentVolume) -> &str {
    let status = volume.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn reclaim_policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref())
        .unwrap_or("Retain")
}
