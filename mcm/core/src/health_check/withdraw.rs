//! Ends what checks requested of the owner of a machine that no check evaluates any more.

use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::{Machine, MachineHealthCheck, Phase, keys};

use super::evaluate::REASONS;
use super::spelling::normalize;
use crate::remediation::is_paused;
use crate::selector::Matcher;

/// The reason of the event about such a machine.
pub const WITHDRAWN: &str = "RemediationWithdrawn";

/// The machines that a check selects.
#[derive(Debug)]
pub struct Selection {
    matcher: Matcher,
    is_paused: bool,
    is_valid: bool,
}

impl Selection {
    /// The selection of a check; `None`: it selects nothing, or it is being deleted. `is_complete`: the object was decoded with
    /// all its fields.
    pub fn of(check: &MachineHealthCheck, is_complete: bool) -> Option<Self> {
        if check.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let namespace = check.metadata.namespace.as_deref().unwrap_or_default();
        Some(Self {
            matcher: Matcher::new(check.spec.selector.as_ref()?)?,
            is_paused: is_paused(&check.metadata),
            is_valid: is_complete && normalize(&check.spec, namespace).is_ok(),
        })
    }
}

/// The conditions of a machine whose remediation is withdrawn; `None`: its conditions stay.
///
/// A machine is evaluated by the only check that selects it and is not paused, if that is valid. Another one does not report that
/// it recovers, and its owner would replace a healthy machine. Paused checks keep their machines as they are. The replacement
/// of a machine that has Failed goes on. A failed check of another controller, whose reason is none of a health check, stays.
pub fn withdrawn(machine: &Machine, selections: &[Selection]) -> Option<Vec<NodeCondition>> {
    if !may_be_withdrawn(machine) || defect!(RequestOutlivesCheck) {
        return None;
    }
    let labels = machine.metadata.labels.as_ref();
    let selecting = selections.iter().filter(|one| one.matcher.matches(labels));
    let (paused, active): (Vec<_>, Vec<_>) = selecting.partition(|one| one.is_paused);
    let stays = match active.as_slice() {
        [] => !paused.is_empty(),
        [only] => only.is_valid,
        _ => false,
    };
    if stays {
        return None;
    }
    let mut conditions = machine.status.conditions.clone();
    let ended = [
        keys::HEALTH_CHECK_SUCCEEDED,
        keys::OWNER_REMEDIATED,
        keys::EXTERNALLY_REMEDIATED,
    ];
    conditions.retain(|condition| !ended.contains(&condition.type_.as_str()));
    Some(conditions)
}

/// Whether a health check failed and the machine is not being replaced: what [`withdrawn`] needs of a machine, without checks.
pub fn may_be_withdrawn(machine: &Machine) -> bool {
    let status = &machine.status;
    let is_failed_by_check = status.condition(keys::HEALTH_CHECK_SUCCEEDED).is_some_and(|condition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        condition.status == "False" && REASONS.contains(&reason)
    });
    let phase = status.current_status.base();
    let is_replaced = phase == Some(&Phase::Terminating) || phase == Some(&Phase::Failed) && !status.is_kept();
    is_failed_by_check && !is_replaced && machine.metadata.deletion_timestamp.is_none()
}
