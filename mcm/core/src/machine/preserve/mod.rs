//! Preservation in a machine's plan: applies the rules of preservation to status, Node and events.
//!
//! It runs after the other rules and has the lowest priority: a plan that writes a status or calls the driver (except
//! for an update) takes precedence, and is changed only if the machine fails or recovers in it. Out of scope: the rules
//! themselves, see [`crate::preservation`].

mod defects;
mod drain;
mod fence;
mod finish;
mod keep;
mod marks;
mod turn;
mod unanswered;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage, PreservedBy};

use super::pass::Pass;
use super::{Action, CallKind, MachinePatch, Plan, Pod, Reason};
use crate::event::EventType;
use crate::ownership::controller;
use crate::preservation::{
    Admission, Expiry, ListView, Origin, PreservationProgress, PreservationRequest, Release, Request, Resolved,
    Situation, Step, on_unchanged_phase, resolve, shown,
};

/// How many kept pods a message names.
const NAMED: usize = 3;

/// The start of the Node condition's message after a completed drain.
const DRAINED: &str = "Preserved node drained successfully.";

/// `plan` combined with the actions of preservation. `written` is the machine's phase in the API.
pub(super) fn combine_with_preservation(pass: &Pass, plan: Plan, written: Option<&Phase>) -> Plan {
    let mut plan = if pass.machine().metadata.deletion_timestamp.is_some() {
        finish::deleted(pass, plan)
    } else if is_deletion(&plan) {
        plan
    } else {
        let facts = Facts::of(pass);
        match plan.status.as_ref().map(|status| status.current_status.phase.clone()) {
            Some(Some(Phase::Failed)) if pass.phase() != Some(&Phase::Failed) => turn::failing(pass, &facts, plan),
            Some(Some(Phase::Running)) if pass.phase() == Some(&Phase::Failed) => turn::recovering(pass, &facts, plan),
            Some(_) => plan,
            None if ends_with_query(&plan) && !updates(&plan) => plan,
            None => with_own_actions(pass, &facts, plan, written),
        }
    };
    if let Some(status) = &mut plan.status {
        status.current_status.phase = shown(status, pass.settings.preservation);
    }
    let left = until_expiry(pass, &plan);
    plan.expiry = left.filter(|left| !left.is_zero());
    if let Some(left) = left.filter(|_| plan.status.is_some() || !ends_with_query(&plan)) {
        plan.wake = Some(plan.wake.map_or(left, |wake| wake.min(left)));
    }
    plan
}

/// The time until the expiry. A plan that writes a status with a past expiry is followed by another decision at once.
fn until_expiry(pass: &Pass, plan: &Plan) -> Option<Duration> {
    if defect!(ExpiryDoesNotWake) {
        return None;
    }
    let left = |status: &MachineStatus| {
        let ends = status.current_status.preserve_expiry_time.as_ref()?;
        Some(Duration::try_from(ends.0.duration_since(pass.now)).unwrap_or_default())
    };
    match &plan.status {
        Some(status) => left(status),
        None if pass.machine().metadata.deletion_timestamp.is_some() || is_deletion(plan) => None,
        None => left(&pass.machine().status).filter(|left| !left.is_zero()),
    }
}

fn is_deletion(plan: &Plan) -> bool {
    plan.actions.contains(&Action::DeleteMachine)
}

/// Whether the plan ends with a query, whose answer comes first.
fn ends_with_query(plan: &Plan) -> bool {
    matches!(
        plan.actions.last(),
        Some(Action::Call(_) | Action::AskVolumeIds(_) | Action::ListPods { .. } | Action::EnsureBootstrapToken(_))
    )
}

/// Whether the plan ends with UpdateMachine: that call may queue behind hundreds of others, and preservation does not
/// wait for it.
fn updates(plan: &Plan) -> bool {
    matches!(plan.actions.last(), Some(Action::Call(call)) if call.kind == CallKind::Update)
}

/// Adds the actions of preservation to a plan that writes no status.
fn with_own_actions(pass: &Pass, facts: &Facts, plan: Plan, written: Option<&Phase>) -> Plan {
    let Some(own) = own(pass, facts, written) else {
        return plan;
    };
    if let Some(failure) = &pass.view.failure {
        let refused = |plan: &Plan| !failure.conflict && plan.actions.contains(&failure.action);
        let end = || despite(pass, facts).filter(|end| !refused(end));
        if refused(&own) {
            let list = || sync_ledger(pass, facts).filter(|plan| !refused(plan));
            return end().or_else(list).unwrap_or(plan);
        }
        // The end of a preservation does not wait for another failed action, but the cloud's answers are recorded
        // first.
        if let Some(end) = end().filter(|_| !failure.conflict && pass.view.answers.is_empty()) {
            return end;
        }
        if plan.after_failure {
            return plan;
        }
    }
    if own.actions.is_empty() && own.status.is_none() {
        let wakes = plan.wake.into_iter().chain(own.wake);
        return Plan {
            wake: wakes.min(),
            drain: own.drain.or(plan.drain),
            ..plan
        };
    }
    if !plan.actions.is_empty() && !updates(&plan) {
        // Both plans may change the Node: `plan` goes first.
        return plan.after(Duration::ZERO);
    }
    own
}

/// The actions that do not wait for rejected writes to the Node or the annotations: the end of a preservation, and the
/// timeout of a drain.
fn despite(pass: &Pass, facts: &Facts) -> Option<Plan> {
    match on_unchanged_phase(&facts.now) {
        Step::Release(why) => Some(finish::release(pass, facts, why)),
        Step::Finish if pass.phase() == Some(&Phase::Failed) => {
            finish::over(pass, facts).or_else(|| finish::delete_standalone(pass))
        }
        Step::Drain => drain::given_up(pass, facts),
        _ => None,
    }
}

/// The actions of preservation; `None`: nothing to do.
fn own(pass: &Pass, facts: &Facts, written: Option<&Phase>) -> Option<Plan> {
    if let Some(plan) = restore_node_label(pass, facts) {
        return Some(plan);
    }
    if !facts.resolved.annotations.is_empty() {
        return Some(facts.write_request());
    }
    if defect!(RunningNodesUncordonedEveryPass | PreservationRewritesAnnotations)
        && let Some(plan) = defects::of_every_machine(pass)
    {
        return Some(plan);
    }
    let step = on_unchanged_phase(&facts.now);
    let plan = match step {
        Step::Nothing => None,
        Step::Start => Some(keep::start(pass, facts)),
        Step::StartFailed => turn::start_failed(pass, facts),
        Step::Drain => Some(drain::decide(pass, facts)),
        Step::Keep => Some(keep::keep(pass, facts)),
        Step::Release(why) => Some(finish::release(pass, facts, why)),
        Step::Finish => Some(finish::finish(pass, facts)),
    };
    let idle = plan
        .as_ref()
        .is_none_or(|plan| plan.actions.is_empty() && plan.status.is_none());
    if !idle {
        return plan;
    }
    let todo = sync_ledger(pass, facts).or_else(|| rewrite_phase(pass, written));
    todo.or(plan)
}

/// Restores a removed label `node`: without it the Node would not be drained, and its marks not removed.
fn restore_node_label(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let active = facts.record.is_some() || facts.now.expiry != Expiry::None;
    let node = pass.view.labelled_node.as_ref();
    // While there is no VM, a Node of that name is left over from another machine.
    let node = node.filter(|_| active && facts.now.vm && pass.node_name().is_none())?;
    let text = "the label node of the machine is restored".to_owned();
    let plan = Plan::new(Reason::Preservation(text)).act(Action::PatchMachine(MachinePatch::naming(node.clone())));
    Some(plan.after(Duration::ZERO))
}

/// The owner's list has the machine if, and only if, it is Failed and preserved.
fn sync_ledger(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let ListView::Known { rolling, entry, .. } = &pass.view.owners_list else {
        return None;
    };
    let failed = pass.phase() == Some(&Phase::Failed);
    let kept = failed && pass.machine().status.is_preserved();
    let action = match entry {
        Some(_) if !kept => Action::LeaveOwnersList,
        Some(entry) if entry.by == facts.by() => return None,
        _ if !kept || *rolling || pass.view.claim.is_some() => return None,
        _ => Action::Claim {
            by: facts.by(),
            again: true,
        },
    };
    let text = "the owner's list is updated".to_owned();
    Some(Plan::new(Reason::Preservation(text)).act(action).after(Duration::ZERO))
}

/// Rewrites a phase of another dialect or controller in this dialect.
fn rewrite_phase(pass: &Pass, written: Option<&Phase>) -> Option<Plan> {
    let status = &pass.machine().status;
    let wanted = shown(status, pass.settings.preservation);
    (wanted.as_ref() != written && wanted.is_some()).then(|| Plan {
        status: Some(status.clone()),
        ..Plan::new(Reason::Preservation("the phase is rewritten".to_owned())).after(Duration::ZERO)
    })
}

/// The record's reason while a machine is drained that failed again.
const RELAPSE: &str = "Relapse";

/// The observed facts about the machine's preservation.
#[derive(Clone)]
struct Facts {
    resolved: Resolved,
    now: Situation,
    record: Option<Preservation>,
}

impl Facts {
    fn of(pass: &Pass) -> Self {
        let machine = pass.machine();
        let status = &machine.status;
        let record = status.preservation.clone();
        let node = pass.view.node.present().map(|node| &node.metadata);
        let dialect = pass.settings.preservation;
        let preserved = record.as_ref().map(|record| record.node_uid.as_str());
        let resolved = resolve(&machine.metadata, node, preserved, dialect);
        let ends = status.current_status.preserve_expiry_time.as_ref().map(|time| time.0);
        let expiry = match ends {
            None => Expiry::None,
            Some(ends) if ends <= pass.now => Expiry::Over,
            Some(_) => Expiry::Ahead,
        };
        let failed = pass.phase() == Some(&Phase::Failed);
        let progress = match record.as_ref().map(|record| &record.stage) {
            Some(PreservationStage::Draining) => PreservationProgress::Draining,
            Some(PreservationStage::Preserved) => PreservationProgress::Preserved,
            Some(PreservationStage::Releasing) => PreservationProgress::Releasing,
            Some(PreservationStage::Other(_)) | None => match expiry {
                Expiry::None => PreservationProgress::Free,
                _ if failed => PreservationProgress::Draining,
                _ => PreservationProgress::Preserved,
            },
        };
        let by = match &record {
            Some(record) => Some(record.by.clone()),
            None if expiry == Expiry::None => None,
            None if resolved.automatic => Some(PreservedBy::Auto),
            None => Some(requester(resolved.origin)),
        };
        let now = Situation {
            dialect,
            phase: pass.phase().cloned(),
            progress,
            by,
            recorded_request: record
                .as_ref()
                .and_then(|record| PreservationRequest::of(&record.request)),
            expiry,
            request: resolved.request,
            marked: pass.view.owners_list.entry().is_some_and(|entry| entry.released),
            expired_before: record.as_ref().is_some_and(|record| {
                [Release::Expired, Release::ExpiryRemoved]
                    .iter()
                    .any(|why| record.reason == why.reason())
            }),
            relapse: record.as_ref().is_some_and(|record| record.reason == RELAPSE),
            adopted: failed && record.is_none() && resolved.automatic && resolved.request == Request::None,
            vm: !machine.spec.provider_id.is_empty(),
        };
        Self { resolved, now, record }
    }

    /// Who requests the preservation, or requested it.
    fn by(&self) -> PreservedBy {
        match (self.resolved.request.preservation(), &self.now.by) {
            (Some(_), _) => requester(self.resolved.origin),
            (None, Some(by)) => by.clone(),
            (None, None) => PreservedBy::Auto,
        }
    }

    /// The record of a stage that starts now.
    fn entering(&self, pass: &Pass, stage: PreservationStage) -> Preservation {
        Preservation {
            by: self.by(),
            stage,
            node_uid: self.node_uid(pass),
            since: Some(pass.stamp()),
            request: self
                .recorded_request()
                .map(|request| request.as_str().to_owned())
                .unwrap_or_default(),
            reason: String::new(),
            fencing: None,
        }
    }

    /// The uid of the requesting Node, or of the Node at the start of the preservation, if there was one: an annotation
    /// that another Node lacks was not removed from it.
    fn node_uid(&self, pass: &Pass) -> String {
        let node = pass.view.node.present();
        match &self.record {
            Some(record) if !self.resolved.on_node => record.node_uid.clone(),
            _ => node.and_then(|node| node.metadata.uid.clone()).unwrap_or_default(),
        }
    }

    /// The request, or the previous one if the current value is ignored.
    fn recorded_request(&self) -> Option<PreservationRequest> {
        let before = self
            .now
            .recorded_request
            .filter(|_| self.resolved.request == Request::Ignored);
        self.resolved.request.preservation().or(before)
    }

    /// Writes the resolved request to the Machine's annotations.
    fn write_request(&self) -> Plan {
        let patch = MachinePatch {
            annotations: self.resolved.annotations.clone(),
            ..MachinePatch::default()
        };
        let text = "the machine's annotations follow those of its Node".to_owned();
        let mut plan = Plan::new(Reason::Preservation(text)).after(Duration::ZERO);
        for (type_, reason, message) in &self.resolved.events {
            plan = plan.act(event(*type_, reason, message.clone()));
        }
        plan.act(Action::PatchMachine(patch))
    }
}

fn requester(origin: Origin) -> PreservedBy {
    match origin {
        Origin::Machine => PreservedBy::Machine,
        Origin::Node => PreservedBy::Node,
    }
}

fn event(type_: EventType, reason: &str, message: String) -> Action {
    Action::RecordEvent {
        type_,
        reason: reason.to_owned(),
        message,
    }
}

/// Sets the expiry in the status, unless it has one.
fn with_expiry(pass: &Pass, mut status: MachineStatus) -> MachineStatus {
    let current = &mut status.current_status;
    current.preserve_expiry_time.get_or_insert_with(|| expiry(pass));
    status
}

/// The expiry of a preservation that starts now, rounded up to a whole second.
fn expiry(pass: &Pass) -> Time {
    let timeout = pass.settings.preserve_timeout_of(pass.machine());
    let whole = if pass.now.subsec_nanosecond() > 0 {
        pass.now.as_second() + 1
    } else {
        pass.now.as_second()
    };
    let begin = Timestamp::from_second(whole).unwrap_or(pass.now);
    Time(begin.checked_add(timeout).unwrap_or(Timestamp::MAX))
}

fn text(status: &MachineStatus) -> String {
    let ends = status.current_status.preserve_expiry_time.as_ref();
    ends.map(|ends| format!("Machine preserved until {}.", ends.0))
        .unwrap_or_default()
}

/// The number of pods, in words.
fn count(pods: usize) -> String {
    match pods {
        1 => "1 pod".to_owned(),
        pods => format!("{pods} pods"),
    }
}

/// The names of the first pods, and how many more there are.
fn names(pods: &[Pod]) -> String {
    let names: Vec<&str> = pods.iter().take(NAMED).map(|pod| pod.name.as_str()).collect();
    let more = match pods.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

/// Whether the machine has no controller.
fn is_standalone(pass: &Pass) -> bool {
    controller(&pass.machine().metadata).is_none()
}

/// The answer of the owner's list if the view determines it; `None`: the list must be asked, as only it reliably shows
/// rollouts.
fn known_admission(pass: &Pass, requested: bool) -> Option<Admission> {
    // The answer to a user's request applies to that request only: the user may have withdrawn it meanwhile.
    if let Some(claim) = pass.view.claim.filter(|claim| claim.again == requested) {
        return Some(claim.answer.err().unwrap_or(Admission::Open));
    }
    match &pass.view.owners_list {
        _ if is_standalone(pass) => Some(Admission::NoList),
        list if !requested && list.excludes_automatic() => Some(Admission::Full),
        _ => None,
    }
}
