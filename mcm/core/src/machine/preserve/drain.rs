//! The drain of a preserved failed machine: all pods except those of DaemonSets leave its Node.

use std::time::Duration;

use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage, keys};

use super::super::drain::{Limit, concerned, deletions, is_dead, step};
use super::super::pass::Pass;
use super::super::{Plan, Reason};
use super::keep::settle;
use super::marks::{Marks, node_patch};
use super::{DRAINED, Facts, defects, unanswered};

const NOT_DRAINED: &str = "Preserved node could not be drained.";

/// The next step: first a taint keeps new pods away, then the existing pods are evicted.
pub(super) fn decide(pass: &Pass, facts: &Facts) -> Plan {
    let Some(record) = &facts.record else {
        let status = MachineStatus {
            preservation: Some(facts.entering(pass, PreservationStage::Draining)),
            ..pass.machine().status.clone()
        };
        let text = "a preservation that another controller began continues".to_owned();
        return Plan {
            status: Some(status),
            ..Plan::new(Reason::Preservation(text)).after(Duration::ZERO)
        };
    };
    if pass.phase() != Some(&Phase::Failed) || pass.view.node.present().is_none() {
        return settle(pass, facts, None);
    }
    let text = || Reason::Preservation("no new pods come to the node".to_owned());
    if let Some(patch) = node_patch(pass, Marks::Failed, false) {
        return Plan::new(text()).act(patch).after(Duration::ZERO);
    }
    if let Some(patch) = super::marks::machine_patch(pass, facts, true) {
        return Plan::new(text()).act(patch).after(Duration::ZERO);
    }
    if defect!(SecondPreservationNotDrained) && defects::was_drained(pass) {
        return settle(pass, facts, Some(DRAINED));
    }
    let Some(pods) = &pass.view.pods else {
        return Plan::new(Reason::PodsUnknown).after(pass.settings.retry.short);
    };
    let pods = concerned(pods);
    let left = left(pass, record);
    if is_forced(pass) {
        let mut plan = settle(pass, facts, Some(DRAINED));
        plan.actions.splice(0..0, deletions(pods));
        return plan;
    }
    if is_dead(pass) {
        return unanswered::decide(pass, facts, pods);
    }
    if left.is_zero() {
        let drained = if pods.is_empty() { DRAINED } else { NOT_DRAINED };
        return settle(pass, facts, Some(drained));
    }
    let limit = Limit {
        left,
        evictions: pass.settings.max_evict_retries_of(pass.machine()),
    };
    let step = step(pass, &pods, &limit);
    let mut plan = if step.is_done() {
        settle(pass, facts, Some(DRAINED))
    } else if step.ends_with_query() {
        Plan::new(Reason::Draining { waiting: step.waiting })
    } else {
        let retry = pass.settings.retry.short;
        let wake = if step.errors.is_empty() {
            step.wake
        } else {
            step.wake.max(retry)
        };
        Plan::new(Reason::Draining { waiting: step.waiting }).after(wake.min(left))
    };
    plan.actions.splice(0..0, step.actions);
    plan.drain = Some(step.memory);
    plan
}

/// Ends the drain at its timeout, although writes to the Node fail: the machine is preserved as it is.
pub(super) fn given_up(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let record = facts.record.as_ref()?;
    let mut plan = settle(pass, facts, None);
    plan.actions.retain(|action| action.node().is_none());
    left(pass, record).is_zero().then_some(plan)
}

/// The remaining time of the drain.
fn left(pass: &Pass, record: &Preservation) -> Duration {
    let timeout = pass.settings.drain_timeout_of(pass.machine());
    timeout.saturating_sub(pass.since(record.since.as_ref()))
}

fn is_forced(pass: &Pass) -> bool {
    let labels = pass.machine().metadata.labels.as_ref();
    let value = labels.and_then(|all| all.get(keys::FORCE_DRAIN_LABEL));
    value.is_some_and(|value| value == "True")
}
