//! Health: the phase of a machine with a VM, derived from its Node's conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{GoDuration, MachineStatus, Operation, Phase, State, keys};

use super::defects;
use super::pass::Pass;
use super::{Action, MachinePatch, Metric, NodeView, Plan, Reason, Sibling, creation, in_place, token};
use crate::event::EventType;
use crate::failure::{NEVER_JOINED, NEVER_RECOVERED};
use crate::ownership::controller;

/// The health check of a machine with a label `node` and a phase; `None`: nothing to do.
pub(super) fn decide(pass: &Pass) -> Option<Plan> {
    match &pass.view.node {
        NodeView::Unknown => None,
        NodeView::Absent | NodeView::Gone => missing(pass).or_else(|| timeout(pass)),
        NodeView::Present(node) => observed(pass, node).or_else(|| timeout(pass)),
    }
}

/// There is no Node. That matters only for a machine that had one and copied its conditions.
fn missing(pass: &Pass) -> Option<Plan> {
    let serves = matches!(pass.phase(), Some(Phase::Running | Phase::InPlaceUpdateSuccessful));
    if pass.machine().status.node_conditions().next().is_none() || !serves {
        return None;
    }
    let description = format!(
        "Node object went missing. Machine {} is unhealthy - changing MachinePhase to Unknown",
        pass.name()
    );
    Some(unknown(
        pass,
        pass.machine().status.clone(),
        Reason::NodeMissing,
        description,
    ))
}

fn observed(pass: &Pass, node: &Node) -> Option<Plan> {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let problems = problems(pass, &conditions);
    let updating = matches!(pass.phase(), Some(Phase::InPlaceUpdating | Phase::InPlaceUpdateFailed));
    let judged = !updating && !in_place::is_given_up(pass, node);
    let running = pass.phase() == Some(&Phase::Running);
    let must_wait = waits_to_run(pass) && waits_for_critical_components(node) || creation::is_uninitialized(pass);
    let copied = MachineStatus {
        conditions: with_own(&pass.machine().status, conditions),
        ..pass.machine().status.clone()
    };
    if judged && problems.is_empty() && !running && !must_wait && !stays_failed(pass) {
        return Some(healthy(pass, copied));
    }
    // An updated machine whose node has not become healthy would otherwise wait forever.
    let updated = pass.phase() == Some(&Phase::InPlaceUpdateSuccessful);
    if judged && !problems.is_empty() && (running || updated) {
        let list = problems.join(", ");
        let description = format!(
            "Machine {} is unhealthy - changing MachinePhase to Unknown. Node conditions: {}",
            pass.name(),
            describe(&copied)
        );
        return Some(unknown(pass, copied, Reason::NodeUnhealthy(list), description));
    }
    let differ = conditions_differ(&pass.machine().status.conditions, &copied.conditions);
    if let Some(plan) = in_place::result(pass, node, &copied) {
        return Some(plan);
    }
    if let Some(wait) = left_to_copy(pass, node).filter(|_| differ) {
        // The timeouts continue during the wait.
        let plan = timeout(pass).unwrap_or_else(|| Plan::new(Reason::ConditionsChanged));
        let wake = plan.wake.map_or(wait, |wake| wake.min(wait));
        return Some(plan.after(wake));
    }
    differ.then(|| {
        // The next decision follows at once after the write.
        let wake = if defect!(HealthTimeoutInIdlePassOnly) {
            pass.settings.retry.short
        } else {
            Duration::ZERO
        };
        Plan {
            status: Some(copied),
            ..Plan::new(Reason::ConditionsChanged).after(wake)
        }
    })
}

/// How long to wait before conditions are copied again: they may change often, and each copy is a write that all
/// watchers receive. While a node joins they change until it is ready, which usually takes a short time. `None`: no
/// wait.
fn left_to_copy(pass: &Pass, node: &Node) -> Option<Duration> {
    if defect!(HealthTimeoutInIdlePassOnly) {
        return None;
    }
    if pass.phase() == Some(&Phase::Pending) {
        let age = pass.since(node.metadata.creation_timestamp.as_ref());
        let left = pass.settings.retry.medium.saturating_sub(age);
        return (!left.is_zero()).then_some(left);
    }
    let since = Duration::try_from(pass.now.duration_since(pass.view.conditions_copied?)).unwrap_or_default();
    let left = pass.settings.retry.short.saturating_sub(since);
    (!left.is_zero()).then_some(left)
}

/// The problems of a node with these conditions; empty: it is healthy. A node without conditions is unhealthy.
fn problems(pass: &Pass, conditions: &[NodeCondition]) -> Vec<String> {
    if conditions.is_empty() {
        return vec!["it reports no conditions".to_owned()];
    }
    let must_be_false: Vec<&str> = pass.settings.node_conditions_of(pass.machine()).collect();
    let bad = conditions.iter().filter(|condition| match condition.type_.as_str() {
        "Ready" => condition.status != "True",
        other => must_be_false.contains(&other) && condition.status != "False",
    });
    bad.map(|condition| format!("{} is {}", condition.type_, condition.status))
        .collect()
}

/// Whether the machine stays Failed although its node may be healthy: its replacement is requested and not withdrawn.
fn stays_failed(pass: &Pass) -> bool {
    let machine = pass.machine();
    let is_owned = controller(&machine.metadata).is_some();
    pass.phase() == Some(&Phase::Failed) && is_owned && machine.status.is_remediation_requested()
}

/// The conditions of the Node, and those of the machine's status that are not copied from it.
fn with_own(status: &MachineStatus, mut conditions: Vec<NodeCondition>) -> Vec<NodeCondition> {
    conditions.retain(|condition| !keys::RESERVED_CONDITIONS.contains(&condition.type_.as_str()));
    let copied = |own: &NodeCondition| conditions.iter().any(|condition| condition.type_ == own.type_);
    let own: Vec<NodeCondition> = status.own_conditions().filter(|own| !copied(own)).cloned().collect();
    conditions.extend(own);
    conditions
}

pub(super) fn describe(status: &MachineStatus) -> String {
    let each = status
        .node_conditions()
        .map(|condition| format!("{}={}", condition.type_, condition.status));
    format!("[{}]", each.collect::<Vec<_>>().join(", "))
}

/// Whether the lists differ in more than times and messages.
fn conditions_differ(old: &[NodeCondition], new: &[NodeCondition]) -> bool {
    fn essence(conditions: &[NodeCondition]) -> BTreeMap<&str, (&str, Option<&str>)> {
        let reason = |condition: &NodeCondition| condition.type_ == "InPlaceUpdate";
        conditions
            .iter()
            .map(|condition| {
                let reason = condition.reason.as_deref().filter(|_| reason(condition));
                (condition.type_.as_str(), (condition.status.as_str(), reason))
            })
            .collect()
    }
    essence(old) != essence(new)
}

/// Whether the machine has not run yet: it is Pending, or it failed to join and is preserved, or its preservation is
/// ending.
fn waits_to_run(pass: &Pass) -> bool {
    let status = &pass.machine().status;
    let kept = status.preservation.is_some() || status.is_preserved();
    match pass.phase() {
        Some(Phase::Pending) => true,
        Some(Phase::Failed) => kept && is_being_created(pass),
        _ => false,
    }
}

/// Whether the machine's creation is its last operation, and has not succeeded.
fn is_being_created(pass: &Pass) -> bool {
    pass.last_step()
        .is_some_and(|step| step.operation == Some(Operation::Create) && step.state != Some(State::Successful))
}

fn waits_for_critical_components(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .into_iter()
        .any(|taint| taint.key == keys::CRITICAL_COMPONENTS_TAINT && taint.effect == "NoSchedule")
}

/// The node is healthy and the machine is not Running yet.
fn healthy(pass: &Pass, copied: MachineStatus) -> Plan {
    if is_being_created(pass) {
        joined(pass, copied)
    } else {
        rejoined(pass, copied)
    }
}

fn joined(pass: &Pass, copied: MachineStatus) -> Plan {
    let duration = Duration::from_secs(pass.age().as_secs());
    let printed = GoDuration(duration).to_string();
    let description = format!("Machine {} successfully joined the cluster in {printed}", pass.name());
    let operation = pass.operation(Operation::Create, State::Successful, description.clone());
    let patch = MachinePatch {
        join_duration: Some(printed),
        ..MachinePatch::default()
    };
    let plan = Plan::new(Reason::Joined(duration))
        .act(Action::DeleteBootstrapToken(token::owner(pass)))
        .act(Action::PatchMachine(patch))
        .act(Action::Observe(Metric::JoinDuration(pass.age())));
    running(
        pass,
        plan,
        MachineStatus {
            conditions: copied.conditions,
            ..operation
        },
        "Joined",
        description,
    )
}

fn rejoined(pass: &Pass, copied: MachineStatus) -> Plan {
    let description = format!("Machine {} successfully re-joined the cluster", pass.name());
    let operation = pass.operation(Operation::HealthCheck, State::Successful, description.clone());
    let status = MachineStatus {
        conditions: copied.conditions,
        ..operation
    };
    running(pass, Plan::new(Reason::Rejoined), status, "Rejoined", description)
}

fn running(pass: &Pass, plan: Plan, status: MachineStatus, event: &str, message: String) -> Plan {
    let status = pass.enter(status, Phase::Running, false);
    pass.report(plan.after(Duration::ZERO), status, EventType::Normal, event, message)
}

fn unknown(pass: &Pass, copied: MachineStatus, reason: Reason, description: String) -> Plan {
    let operation = pass.operation(Operation::HealthCheck, State::Processing, description.clone());
    let status = MachineStatus {
        conditions: copied.conditions,
        ..operation
    };
    let plan = Plan::new(reason).after(pass.settings.health_timeout_of(pass.machine()));
    pass.report(
        plan,
        pass.enter(status, Phase::Unknown, false),
        EventType::Warning,
        "NodeUnhealthy",
        description,
    )
}

/// The remaining time of the timeout of the machine's phase, and the timeout; `None`: there is none.
fn left(pass: &Pass) -> Option<(Duration, Duration)> {
    let machine = pass.machine();
    let (limit, elapsed) = match pass.phase()? {
        Phase::Pending if defect!(CreationTimeoutFromPhaseChange) => (
            pass.settings.creation_timeout_of(machine),
            pass.since(machine.status.current_status.last_update_time.as_ref()),
        ),
        Phase::Pending => (pass.settings.creation_timeout_of(machine), pass.age()),
        Phase::InPlaceUpdating => (
            pass.settings.in_place_update_timeout_of(machine),
            pass.since(machine.status.current_status.last_update_time.as_ref()),
        ),
        Phase::Unknown | Phase::InPlaceUpdateFailed
            if machine.spec.configuration.disable_health_timeout == Some(true) =>
        {
            return None;
        }
        Phase::Unknown | Phase::InPlaceUpdateFailed => (
            pass.settings.health_timeout_of(machine),
            pass.since(machine.status.current_status.last_update_time.as_ref()),
        ),
        _ => return None,
    };
    Some((limit.saturating_sub(elapsed), limit))
}

fn timeout(pass: &Pass) -> Option<Plan> {
    let (left, limit) = left(pass)?;
    let pending = pass.phase() == Some(&Phase::Pending);
    if !left.is_zero() {
        let reason = if pending {
            Reason::WaitingToJoin(left)
        } else {
            Reason::WaitingToRecover(left)
        };
        return Some(Plan::new(reason).after(left));
    }
    if pending {
        return Some(never_joined(pass, limit));
    }
    if pass.phase() == Some(&Phase::InPlaceUpdating) {
        return Some(never_updated(pass, limit));
    }
    if let Some(other) = being_replaced(pass) {
        return Some(Plan::new(Reason::OthersBeingReplaced(other)).after(pass.settings.retry.short));
    }
    Some(match time_to_come_back(pass, limit) {
        Some(left) => Plan::new(Reason::MayComeBack(left)).after(left),
        None => never_recovered(pass, limit),
    })
}

/// The extra time of a machine whose timeout ended while it waited for a sibling's replacement. The replacement has
/// joined, so the common cause of the failures may be over, and the other machines may recover soon.
fn time_to_come_back(pass: &Pass, limit: Duration) -> Option<Duration> {
    if defect!(NoTimeToComeBackAfterSibling) {
        return None;
    }
    let since = pass.machine().status.current_status.last_update_time.as_ref()?.0;
    let over = since.checked_add(limit).ok()?;
    let joined = pass.view.siblings.iter().filter_map(|sibling| sibling.joined).max();
    let joined = Time(joined.filter(|joined| *joined >= over)?);
    let passed = pass.since(Some(&joined));
    let left = pass.settings.retry.medium.min(limit).saturating_sub(passed);
    (!left.is_zero()).then_some(left)
}

fn never_joined(pass: &Pass, limit: Duration) -> Plan {
    let description = format!("Machine {} {NEVER_JOINED} {}.", pass.name(), GoDuration(limit));
    let plan = Plan::new(Reason::JoinTimedOut(limit)).act(Action::Observe(Metric::FailedJoin));
    give_up(pass, plan, description)
}

fn never_updated(pass: &Pass, limit: Duration) -> Plan {
    let description = format!(
        "Machine {} failed to in-place update in {}.",
        pass.name(),
        GoDuration(limit)
    );
    let status = pass.operation(Operation::InPlaceUpdate, State::Failed, description.clone());
    let plan = Plan::new(Reason::UpdateInPlaceTimedOut(limit)).after(pass.settings.health_timeout_of(pass.machine()));
    pass.report(
        plan,
        pass.enter(status, Phase::InPlaceUpdateFailed, false),
        EventType::Warning,
        "UpdateInPlaceFailed",
        description,
    )
}

fn never_recovered(pass: &Pass, limit: Duration) -> Plan {
    let description = format!(
        "Machine {} {NEVER_RECOVERED} {}. Updating machine phase to Failed. Node Conditions: {}",
        pass.name(),
        GoDuration(limit),
        describe(&pass.machine().status)
    );
    give_up(pass, Plan::new(Reason::HealthTimedOut(limit)), description)
}

pub(super) fn give_up(pass: &Pass, plan: Plan, description: String) -> Plan {
    let before = pass.last_step().and_then(|step| step.operation.clone());
    let mut status = pass.operation(Operation::HealthCheck, State::Failed, description.clone());
    if let (Some(operation), Some(before)) = (&mut status.last_operation, before) {
        operation.operation = Some(before);
    }
    let plan = plan.after(pass.settings.retry.long);
    pass.report(
        plan,
        pass.enter(status, Phase::Failed, false),
        EventType::Warning,
        "MachineFailed",
        description,
    )
}

/// A machine of the same deployment that is being deleted or created. While there is one, no other machine may fail, so
/// that a deployment never loses all its machines at once.
fn being_replaced(pass: &Pass) -> Option<String> {
    if defect!(SiblingsNotAwaited) {
        return None;
    }
    if defect!(NoHealthTimeoutInRollout) {
        return defects::sibling_of_other_set(pass);
    }
    if defect!(FailedUpdateHoldsItselfBack) && pass.phase() == Some(&Phase::InPlaceUpdateFailed) {
        return Some(pass.name().to_owned());
    }
    replaced_siblings(pass).into_iter().next()
}

/// Whether another machine of the deployment may become Failed while one has this phase.
pub fn is_settled(phase: Option<&Phase>) -> bool {
    matches!(
        phase.map(Phase::base),
        Some(Phase::Running | Phase::Unknown | Phase::InPlaceUpdateFailed)
    )
}

/// The machines of the same deployment that are being deleted or created, by name.
pub(super) fn replaced_siblings(pass: &Pass) -> BTreeSet<String> {
    // The owner's list has an entry for a sibling that was about to fail when a process died: that sibling fails first,
    // and this machine may recover meanwhile.
    let is_first = |sibling: &Sibling| {
        sibling.phase == Some(Phase::Unknown) && !sibling.patient && pass.view.owners_list.prefers(&sibling.name)
    };
    let replaced = pass.view.siblings.iter().filter(|sibling| {
        let phase = sibling.phase.as_ref().map(Phase::base);
        // Siblings that wait themselves do not count, or they would wait for each other.
        let settled = is_settled(phase)
            || defect!(OnlyFailedSiblingsHoldBack) && phase != Some(&Phase::Failed)
            || defect!(TerminatingSiblingsDoNotHoldBack) && phase == Some(&Phase::Terminating);
        is_first(sibling)
            || !settled
                && sibling.name != pass.name()
                && (!sibling.preserved || sibling.phase == Some(Phase::Terminating))
    });
    replaced.map(|sibling| sibling.name.to_string()).collect()
}
