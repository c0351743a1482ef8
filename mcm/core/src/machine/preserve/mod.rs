//! Preservation in a machine's plan: what its rule says becomes status, Node and events.
//!
//! It comes last and stands in nobody's way: a plan that writes a status or asks the cloud for more than an update goes first,
//! and only what fails or recovers in it is changed. What must not live here: the rule, which is [`crate::preservation`]'s.

mod defects;
mod drain;
mod finish;
mod keep;
mod marks;
mod turn;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{MachineStatus, Phase, Preservation, PreservationStage, PreservedBy};

use super::pass::Pass;
use super::{Action, CallKind, MachinePatch, Plan, Reason};
use crate::event::EventType;
use crate::ownership::controller;
use crate::preservation::{
    Asked, Expiry, Gate, Origin, Release, Request, Resolved, Situation, Standing, Step, Track, resolve, shown, standing,
};

/// How the Node's condition begins once its pods have left.
const DRAINED: &str = "Preserved node drained successfully.";

/// `plan`, with what preservation makes of it. `written` is the machine's phase as it stands in the API.
pub(super) fn combine_with_preservation(pass: &Pass, plan: Plan, written: Option<&Phase>) -> Plan {
    let mut plan = if pass.machine().metadata.deletion_timestamp.is_some() || is_deletion(&plan) {
        plan
    } else {
        let facts = Facts::of(pass);
        match plan.status.as_ref().map(|status| status.current_status.phase.clone()) {
            Some(Some(Phase::Failed)) if pass.phase() != Some(&Phase::Failed) => turn::failing(pass, &facts, plan),
            Some(Some(Phase::Running)) if pass.phase() == Some(&Phase::Failed) => turn::recovering(pass, &facts, plan),
            Some(_) => plan,
            None if asks(&plan) && !updates(&plan) => plan,
            None => beside(pass, &facts, plan, written),
        }
    };
    if let Some(status) = &mut plan.status {
        status.current_status.phase = shown(status, pass.settings.preservation);
    }
    let left = until_expiry(pass, &plan);
    plan.expiry = left.filter(|left| !left.is_zero());
    if let Some(left) = left.filter(|_| plan.status.is_some() || !asks(&plan)) {
        plan.wake = Some(plan.wake.map_or(left, |wake| wake.min(left)));
    }
    plan
}

/// How long the expiry is ahead. A status that is written with one that is over is looked at again at once.
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

/// Whether the plan ends with a question: its answer comes first.
fn asks(plan: &Plan) -> bool {
    matches!(
        plan.actions.last(),
        Some(Action::Call(_) | Action::AskVolumeIds(_) | Action::ListPods { .. } | Action::EnsureBootstrapToken(_))
    )
}

/// Whether the question is for the driver to update a VM that runs: it may wait for its turn behind hundreds of others, and
/// preservation does not wait with it.
fn updates(plan: &Plan) -> bool {
    matches!(plan.actions.last(), Some(Action::Call(call)) if call.kind == CallKind::Update)
}

/// A plan that writes no status leaves room for preservation.
fn beside(pass: &Pass, facts: &Facts, plan: Plan, written: Option<&Phase>) -> Plan {
    let Some(own) = own(pass, facts, written) else {
        return plan;
    };
    if let Some(failure) = &pass.view.failure {
        let refused = |plan: &Plan| !failure.conflict && plan.actions.contains(&failure.action);
        let end = || despite(pass, facts).filter(|end| !refused(end));
        if refused(&own) {
            let list = || counted(pass, facts).filter(|plan| !refused(plan));
            return end().or_else(list).unwrap_or(plan);
        }
        // Whatever else it is that is refused: an end that has come does not wait for it. What the cloud answered is recorded first.
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
        // Both may change the Node: one after the other.
        return plan.after(Duration::ZERO);
    }
    own
}

/// What does not wait for a write to the Node or to the annotations that the server refuses: an end that has come, and the
/// time that a drain has.
fn despite(pass: &Pass, facts: &Facts) -> Option<Plan> {
    match standing(&facts.now) {
        Step::Release(why) => Some(finish::release(pass, facts, why)),
        Step::Finish if pass.phase() == Some(&Phase::Failed) => {
            finish::over(pass, facts).or_else(|| finish::gone(pass))
        }
        Step::Drain => drain::given_up(pass, facts),
        _ => None,
    }
}

/// What preservation does by itself; `None`: nothing.
fn own(pass: &Pass, facts: &Facts, written: Option<&Phase>) -> Option<Plan> {
    if let Some(plan) = named(pass, facts) {
        return Some(plan);
    }
    if !facts.resolved.annotations.is_empty() {
        return Some(facts.noted());
    }
    if defect!(RunningNodesUncordonedEveryPass | PreservationRewritesAnnotations)
        && let Some(plan) = defects::of_every_machine(pass)
    {
        return Some(plan);
    }
    let step = standing(&facts.now);
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
    let todo = counted(pass, facts).or_else(|| rewritten(pass, written));
    todo.or(plan)
}

/// Somebody took the label away that names the Node: without it nothing would be drained, and nothing taken back.
fn named(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let lasts = facts.record.is_some() || facts.now.expiry != Expiry::None;
    let node = pass.view.labelled_node.as_ref();
    // While there is no VM a Node of that name is one that another machine left.
    let node = node.filter(|_| lasts && facts.now.vm && pass.node_name().is_none())?;
    let text = "the machine names its Node again".to_owned();
    let plan = Plan::new(Reason::Preservation(text)).act(Action::PatchMachine(MachinePatch::naming(node.clone())));
    Some(plan.after(Duration::ZERO))
}

/// The owner's list has the machine while it is Failed and kept, and then alone.
fn counted(pass: &Pass, facts: &Facts) -> Option<Plan> {
    let Standing::Known { rolling, entry, .. } = &pass.view.ledger else {
        return None;
    };
    let failed = pass.phase() == Some(&Phase::Failed);
    let kept = failed && pass.machine().status.is_preserved();
    let action = match entry {
        Some(_) if !kept => Action::LeaveLedger,
        Some(entry) if entry.by == facts.by() => return None,
        _ if !kept || *rolling || pass.view.claim.is_some() => return None,
        _ => Action::Claim {
            by: facts.by(),
            again: true,
        },
    };
    let text = "the list of the machine's owner follows it".to_owned();
    Some(Plan::new(Reason::Preservation(text)).act(action).after(Duration::ZERO))
}

/// A phase that another dialect or controller wrote is shown as this one shows it.
fn rewritten(pass: &Pass, written: Option<&Phase>) -> Option<Plan> {
    let status = &pass.machine().status;
    let wanted = shown(status, pass.settings.preservation);
    (wanted.as_ref() != written && wanted.is_some()).then(|| Plan {
        status: Some(status.clone()),
        ..Plan::new(Reason::Preservation("the phase is shown anew".to_owned())).after(Duration::ZERO)
    })
}

/// The record's reason while the pods of a machine leave once more.
const RELAPSE: &str = "Relapse";

/// What is known of the machine's preservation.
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
        let track = match record.as_ref().map(|record| &record.stage) {
            Some(PreservationStage::Draining) => Track::Draining,
            Some(PreservationStage::Preserved) => Track::Preserved,
            Some(PreservationStage::Releasing) => Track::Releasing,
            Some(PreservationStage::Other(_)) | None => match expiry {
                Expiry::None => Track::Free,
                _ if failed => Track::Draining,
                _ => Track::Preserved,
            },
        };
        let by = match &record {
            Some(record) => Some(record.by.clone()),
            None if expiry == Expiry::None => None,
            None if resolved.automatic => Some(PreservedBy::Auto),
            None => Some(asker(resolved.origin)),
        };
        let now = Situation {
            dialect,
            phase: pass.phase().cloned(),
            track,
            by,
            asked: record.as_ref().and_then(|record| Asked::of(&record.request)),
            expiry,
            request: resolved.request,
            marked: pass.view.ledger.entry().is_some_and(|entry| entry.released),
            expired_before: record.as_ref().is_some_and(|record| {
                [Release::Expired, Release::ExpiryRemoved]
                    .iter()
                    .any(|why| record.reason == why.word())
            }),
            relapse: record.as_ref().is_some_and(|record| record.reason == RELAPSE),
            adopted: failed && record.is_none() && resolved.automatic && resolved.request == Request::None,
            vm: !machine.spec.provider_id.is_empty(),
        };
        Self { resolved, now, record }
    }

    /// Who asks for the preservation, now or before.
    fn by(&self) -> PreservedBy {
        match (self.resolved.request.asked(), &self.now.by) {
            (Some(_), _) => asker(self.resolved.origin),
            (None, Some(by)) => by.clone(),
            (None, None) => PreservedBy::Auto,
        }
    }

    /// The record of a stage that is entered now.
    fn entering(&self, pass: &Pass, stage: PreservationStage) -> Preservation {
        Preservation {
            by: self.by(),
            stage,
            node_uid: self.node_uid(pass),
            since: Some(pass.stamp()),
            request: self.asked().map(|asked| asked.as_str().to_owned()).unwrap_or_default(),
            reason: String::new(),
        }
    }

    /// The Node that asks, or that the machine had when its preservation began, if it had one: what another one does not say
    /// was never removed from it.
    fn node_uid(&self, pass: &Pass) -> String {
        let node = pass.view.node.present();
        match &self.record {
            Some(record) if !self.resolved.on_node => record.node_uid.clone(),
            _ => node.and_then(|node| node.metadata.uid.clone()).unwrap_or_default(),
        }
    }

    /// The word that asks, or that asked where nothing that can be understood does now.
    fn asked(&self) -> Option<Asked> {
        let before = self.now.asked.filter(|_| self.resolved.request == Request::Ignored);
        self.resolved.request.asked().or(before)
    }

    /// What the annotations ask for is written to the Machine.
    fn noted(&self) -> Plan {
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

fn asker(origin: Origin) -> PreservedBy {
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

/// Gives the status its expiry, unless it has one.
fn with_expiry(pass: &Pass, mut status: MachineStatus) -> MachineStatus {
    let current = &mut status.current_status;
    current.preserve_expiry_time.get_or_insert_with(|| expiry(pass));
    status
}

/// The end of a preservation that begins now: a whole second, and not earlier.
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

/// Nobody controls the machine.
fn is_standalone(pass: &Pass) -> bool {
    controller(&pass.machine().metadata).is_none()
}

/// Whether nothing can come of asking the owner's list; otherwise it has to be asked, which knows best of rollouts.
fn known_gate(pass: &Pass, asked: bool) -> Option<Gate> {
    // What was answered of a person's request holds for nobody else: that person may have withdrawn it meanwhile.
    if let Some(claim) = pass.view.claim.filter(|claim| claim.again == asked) {
        return Some(claim.answer.err().unwrap_or(Gate::Open));
    }
    match &pass.view.ledger {
        _ if is_standalone(pass) => Some(Gate::Nobody),
        ledger if !asked && ledger.excludes_automatic() => Some(Gate::Full),
        _ => None,
    }
}
