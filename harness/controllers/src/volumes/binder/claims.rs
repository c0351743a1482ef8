//! The decision about one claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use serde_json::json;

use super::super::fit::{self, BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE};
use super::Reason;
use crate::foundation::{Action, Caches, ObjectKey, Plan, Severity};

/// Marks the default class, for claims without a class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotations that hand a claim to a provisioner; the first is the deprecated name.
const PROVISIONER: [&str; 2] = [
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];

/// Whether the claim's binding is complete.
pub fn is_complete(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(BIND_COMPLETED)
}

/// Decides about a claim.
pub fn decide(caches: &Caches, claim: &PersistentVolumeClaim) -> Plan<Reason> {
    if is_complete(claim) {
        return decide_bound(caches, claim);
    }
    let named = fit::volume_of(claim);
    if named.is_empty() {
        return decide_open(caches, claim);
    }
    match caches.volumes.get(&ObjectKey::cluster(named)) {
        Some(volume) if fit::is_for(volume, claim) => bind(volume, claim),
        Some(volume) if super::claim_of(volume).is_none() => match fit::satisfies(volume, claim) {
            Ok(()) => bind(volume, claim),
            Err(mismatch) => {
                let message = format!("Cannot bind to requested volume {named:?}: {}", mismatch.text());
                emit(
                    claim,
                    Reason::Mismatch(mismatch),
                    Severity::Warning,
                    "VolumeMismatch",
                    message,
                )
            }
        },
        // Taken by another claim, or not created yet.
        Some(_) | None => Plan::nothing(),
    }
}

/// A claim that accepts any matching volume.
fn decide_open(caches: &Caches, claim: &PersistentVolumeClaim) -> Plan<Reason> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Plan::nothing();
    }
    let names_class = claim
        .spec
        .as_ref()
        .is_some_and(|spec| spec.storage_class_name.is_some());
    if !names_class
        && fit::class_of(claim).is_empty()
        && let Some(class) = default_class(caches)
    {
        let patch = json!({ "spec": { "storageClassName": class.name_any() } });
        return Plan::act(Reason::DefaultClass, Action::merge_as_seen(claim, patch));
    }
    let class_name = fit::class_of(claim);
    let class = caches.storage_classes.get(&ObjectKey::cluster(class_name));
    let selected = claim.annotations().contains_key(SELECTED_NODE);
    let waits = class.is_some_and(|class| fit::waits_for_consumer(class)) && !selected;
    let candidates = caches
        .volumes
        .iter()
        .map(|(_, volume)| volume)
        .filter(|volume| !waits || fit::is_for(volume, claim));
    if let Some(volume) = fit::best(claim, candidates) {
        return bind(volume, claim);
    }
    match class {
        Some(_) if waits => emit(
            claim,
            Reason::FirstConsumer,
            Severity::Normal,
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        Some(class) if class.provisioner != NO_PROVISIONER => provision(claim, class),
        None if !class_name.is_empty() => emit(
            claim,
            Reason::NoVolume,
            Severity::Warning,
            "ProvisioningFailed",
            format!("storageclass.storage.k8s.io {class_name:?} not found"),
        ),
        _ => emit(
            claim,
            Reason::NoVolume,
            Severity::Normal,
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set".to_owned(),
        ),
    }
}

/// The newest default class; among equally old ones the first by name.
fn default_class(caches: &Caches) -> Option<&Arc<StorageClass>> {
    let defaults = caches.storage_classes.iter().map(|(_, class)| class).filter(|class| {
        class
            .annotations()
            .get(DEFAULT_CLASS)
            .is_some_and(|value| value == "true")
    });
    defaults.min_by_key(|class| {
        let created = class.creation_timestamp().map(|time| time.0);
        (std::cmp::Reverse(created), class.name_any())
    })
}

fn provision(claim: &PersistentVolumeClaim, class: &StorageClass) -> Plan<Reason> {
    let provisioner = &class.provisioner;
    let is_requested = PROVISIONER
        .iter()
        .all(|key| claim.annotations().get(*key) == Some(provisioner));
    if is_requested {
        return emit(
            claim,
            Reason::Provision,
            Severity::Normal,
            "ExternalProvisioning",
            format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
                 the system administrator. If volume creation is delayed, please verify that the provisioner is running \
                 and correctly registered."
            ),
        );
    }
    let [old, new] = PROVISIONER;
    let patch = json!({ "metadata": { "annotations": { old: provisioner, new: provisioner } } });
    Plan::act(Reason::Provision, Action::merge_as_seen(claim, patch))
}

/// The next write that binds claim and volume; an empty plan when they are bound.
fn bind(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Plan<Reason> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let reserved = reference.is_some_and(|reference| reference.uid == claim.metadata.uid);
    if !reserved {
        let mut patch = json!({ "spec": { "claimRef": fit::reference(claim) } });
        if reference.is_none() {
            patch["metadata"] = json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } });
        }
        return Plan::act(Reason::Reserve, Action::merge_as_seen(volume, patch));
    }
    if !is_complete(claim) {
        let mut annotations = json!({ BIND_COMPLETED: "yes" });
        if fit::volume_of(claim).is_empty() {
            annotations[BOUND_BY_CONTROLLER] = json!("yes");
        }
        let patch = json!({
            "metadata": { "annotations": annotations },
            "spec": { "volumeName": volume.name_any() },
        });
        return Plan::act(Reason::Name, Action::merge_as_seen(claim, patch));
    }
    if phase(claim) == "Bound" {
        return Plan::nothing();
    }
    let spec = volume.spec.as_ref();
    let status = json!({
        "phase": "Bound",
        "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
        "capacity": spec.and_then(|spec| spec.capacity.as_ref()),
    });
    Plan::act(Reason::Bound, Action::patch_status_as_seen(claim, status))
}

/// A claim with completed binding: either the binding still holds, or the claim is lost.
fn decide_bound(caches: &Caches, claim: &PersistentVolumeClaim) -> Plan<Reason> {
    let name = fit::volume_of(claim);
    if name.is_empty() {
        return lose(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = caches.volumes.get(&ObjectKey::cluster(name)) else {
        let why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lose(claim, "ClaimLost", why);
    };
    if super::claim_of(volume).is_none() || fit::is_for(volume, claim) {
        return bind(volume, claim);
    }
    let why = "Two claims are bound to the same volume, this one is bound incorrectly";
    lose(claim, "ClaimMisbound", why)
}

fn lose(claim: &PersistentVolumeClaim, event: &'static str, why: &str) -> Plan<Reason> {
    if phase(claim) == "Lost" {
        return Plan::nothing();
    }
    let status = json!({ "phase": "Lost", "accessModes": null, "capacity": null });
    let mut plan = Plan::act(Reason::Lost, Action::patch_status_as_seen(claim, status));
    plan.actions.push(Action::event(claim, Severity::Warning, event, why));
    plan
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn emit(
    claim: &PersistentVolumeClaim,
    reason: Reason,
    severity: Severity,
    event: &'static str,
    message: String,
) -> Plan<Reason> {
    Plan::act(reason, Action::event(claim, severity, event, message))
}
