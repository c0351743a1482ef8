//! Defects that replace rules about one set.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Machine, Phase};
use serde_json::{Value, json};

use super::is_active;
use crate::ownership::{Claim, adoption, controller};
use crate::steps::{Kind, OwnerAction};

/// A wrong order of deletion.
pub(super) fn misrank(ranked: &mut [Arc<Machine>]) {
    if defect!(UnansweringNodeGoesFirst) {
        ranked.sort_by_key(|machine| machine.status.current_status.phase != Some(Phase::Unknown));
    } else if defect!(OldestMachineGoesFirst) {
        ranked.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    } else if defect!(TerminatingMachinesRankLast) {
        ranked.sort_by_key(|machine| !is_active(machine));
    }
}

/// The claim of a set that takes every machine.
pub(super) fn claim_of_any(machine: &Machine) -> Claim {
    match controller(&machine.metadata) {
        None => Claim::Adopt,
        Some(_) => Claim::Mine,
    }
}

/// An adoption instead of a release, without other owners.
pub(super) fn adoption_alone(machine: &Machine, owner: &ObjectMeta) -> Value {
    let alone = ObjectMeta {
        owner_references: None,
        ..machine.metadata.clone()
    };
    adoption(&alone, "MachineSet", owner)
}

/// A write of the phase Terminating before a machine's deletion.
pub(super) fn terminating(machine: &Machine) -> OwnerAction {
    OwnerAction::WriteStatus {
        kind: Kind::Machine,
        name: machine.metadata.name.clone().unwrap_or_default(),
        patch: json!({ "status": { "currentStatus": { "phase": "Terminating" } } }),
    }
}
