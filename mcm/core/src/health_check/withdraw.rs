//! Ends what checks requested of the owner of a machine that no check evaluates any more.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Machine, MachineHealthCheck, Phase, keys};

use super::annotations::is_paused;
use super::evaluate::REASONS;
use super::spelling::normalize;
use crate::selector::Matcher;

/// The reason of the event about such a machine.
pub const WITHDRAWN: &str = "RemediationWithdrawn";

/// Which machines a check evaluates.
#[derive(Debug)]
pub struct Selection {
    matcher: Matcher,
    is_paused: bool,
}

impl Selection {
    /// The selection of a check; `None`: it evaluates nothing, because its spec is invalid or it is being deleted.
    pub fn of(check: &MachineHealthCheck) -> Option<Self> {
        let namespace = check.metadata.namespace.as_deref().unwrap_or_default();
        if check.metadata.deletion_timestamp.is_some() || normalize(&check.spec, namespace).is_err() {
            return None;
        }
        Some(Self {
            matcher: Matcher::new(check.spec.selector.as_ref()?)?,
            is_paused: is_paused(&check.metadata),
        })
    }

    fn contains(&self, machine: &ObjectMeta) -> bool {
        self.matcher.matches(machine.labels.as_ref())
    }
}

/// The conditions of a machine whose remediation is withdrawn; `None`: its conditions stay.
///
/// A check that is deleted, that does not select the machine any more, or that shares it with another check, does not report
/// that the machine recovers: its owner would replace a healthy machine. A paused check keeps its machines as they are. The
/// replacement of a machine that has Failed goes on. A failed check of another controller, whose reason is none of a health
/// check, stays.
pub fn withdrawn(machine: &Machine, selections: &[Selection]) -> Option<Vec<NodeCondition>> {
    if !may_be_withdrawn(machine) || defect!(RequestOutlivesCheck) {
        return None;
    }
    let selecting = || selections.iter().filter(|one| one.contains(&machine.metadata));
    let is_shared = selecting().filter(|one| !one.is_paused).count() > 1;
    if selecting().next().is_some() && !is_shared {
        return None;
    }
    let mut conditions = machine.status.conditions.clone();
    let ended = [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED];
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
