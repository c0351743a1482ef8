//! Deletion: stage by stage, until VM and Node are deleted. The status has the stage, so that any process can continue.

use std::time::Duration;

use mcm_api::{Code, DriverError, NodeName, Operation, Phase, State, keys};

use super::claim::{self, Confirmation};
use super::creation::{is_transient, record};
use super::deletion_note::DeletionNote;
use super::last_step::{RetryPeriod, StepText};
use super::pass::Pass;
use super::problem::problem;
use super::progress::{advance, advance_remembering, next};
use super::{
    Action, Answer, CallKind, CloudCall, MachinePatch, Metric, NodeView, Plan, Reason, Stage, drain, migration, token,
    validation,
};
use crate::event::EventType;
use crate::finalizer::has_finalizer;

/// The next step of the deletion.
pub(super) fn decide(pass: &Pass) -> Plan {
    if !has_finalizer(&pass.machine().metadata, keys::MACHINE_FINALIZER) {
        return Plan::new(Reason::NotOurs).after(pass.settings.retry.long);
    }
    if let Some(plan) = record_answer(pass).or_else(|| record_lost(pass)) {
        return plan;
    }
    if pass.phase() != Some(&Phase::Terminating) {
        return start(pass);
    }
    if let Some(plan) = label_lost(pass) {
        return plan;
    }
    let Some(stage) = stage_of(pass) else {
        return start(pass);
    };
    if stage < Stage::Node
        && let Some(plan) = migration::decide(pass)
    {
        return plan;
    }
    if stage < Stage::Node
        && let Err(reason) = validation::class(pass)
    {
        if defect!(UnusableClassSilencesDeletion) {
            return Plan::new(reason).after(pass.settings.retry.long);
        }
        return blocked(pass, stage, reason);
    }
    if let Some(failure) = &pass.view.failure
        && !matches!(
            failure.action,
            Action::SetTerminatingCondition { .. } | Action::CordonNode { .. }
        )
        && (stage != Stage::Node || is_release(&failure.action))
    {
        let reason = Reason::ActionFailed(failure.message.clone());
        return Plan::new(reason).again(failure, &pass.settings.retry);
    }
    match stage {
        Stage::FindVm => find_vm(pass),
        Stage::Drain | Stage::VolumeAttachments if !pass.view.target => next(pass, Stage::Vm, DeletionNote::NoTarget),
        Stage::Drain => drain::decide(pass),
        Stage::VolumeAttachments => volume_attachments(pass),
        Stage::Vm => delete_vm(pass),
        Stage::Node => delete_node(pass),
        Stage::Finalizer => release(pass),
    }
}

/// The stage in the status.
fn stage_of(pass: &Pass) -> Option<Stage> {
    let text = &pass.last_step()?.text;
    if defect!(DeletionStageFromForeignText) {
        let text = text.to_string();
        return Stage::ALL.into_iter().rev().find(|stage| text.contains(stage.phrase()));
    }
    text.stage()
}

/// Whether the action belongs to [`release`].
fn is_release(action: &Action) -> bool {
    matches!(action, Action::RemoveFinalizer | Action::DeleteBootstrapToken(_))
}

/// The last step. It also deletes the bootstrap token of a machine that never was Running; other tokens were deleted
/// when their machines joined.
fn release(pass: &Pass) -> Plan {
    let annotations = pass.machine().metadata.annotations.as_ref();
    let joined = annotations.is_some_and(|all| all.contains_key(keys::JOIN_DURATION_ANNOTATION));
    let token_exists = pass.view.target && !joined;
    let mut plan = Plan::new(Reason::Released).after(pass.settings.retry.long);
    if token_exists {
        plan = plan.act(Action::DeleteBootstrapToken(token::owner(pass)));
    }
    plan.act(Action::RemoveFinalizer)
}

/// Records a VM that CreateMachine created while the machine was being deleted: a driver may find it by its provider ID
/// only.
fn record_answer(pass: &Pass) -> Option<Plan> {
    let Some(Answer::Create(Ok(vm))) = pass.last_answer() else {
        return None;
    };
    let patch = record(pass, vm);
    let plan = Plan::new(Reason::RecordVm).after(Duration::ZERO);
    if let Some(failure) = &pass.view.failure {
        let reason = Reason::ActionFailed(failure.message.clone());
        return Some(Plan::new(reason).again(failure, &pass.settings.retry));
    }
    Some(if patch.is_empty() {
        plan
    } else {
        plan.act(Action::PatchMachine(patch))
    })
}

/// Records a VM that was created before the deletion, and whose record was lost.
fn record_lost(pass: &Pass) -> Option<Plan> {
    let unrecorded = pass.machine().spec.provider_id.is_empty() && pass.view.failure.is_none();
    let unrecorded = unrecorded && !defect!(NodeKnownByLabelOnly);
    let vm = pass.view.created_vm.as_ref().filter(|_| unrecorded)?;
    let patch = record(pass, vm);
    (!patch.is_empty()).then(|| {
        Plan::new(Reason::RecordVm)
            .after(Duration::ZERO)
            .act(Action::PatchMachine(patch))
    })
}

/// The class is not usable: the stage stays, and its description has the problem.
fn blocked(pass: &Pass, stage: Stage, reason: Reason) -> Plan {
    let text = reason.to_string();
    let plan = problem(pass, reason, Operation::Delete);
    let note = match claim::is_unconfirmed(pass.view, pass.last_step()) {
        true => DeletionNote::UnconfirmedBlocked {
            reason: format!("{text}."),
        },
        false => DeletionNote::Other(format!("{text}.")),
    };
    match &plan.status {
        Some(_) => {
            let status = pass.operation(Operation::Delete, State::Failed, StepText::deletion(stage, note));
            let event = Plan {
                actions: Vec::new(),
                status: None,
                ..plan
            };
            pass.report(event, status, EventType::Warning, "Invalid", text)
        }
        None => plan,
    }
}

/// The first write of a deletion. The condition on the Node has the cause of the deletion, so it is set before the
/// phase that shows the cause is overwritten.
fn start(pass: &Pass) -> Plan {
    let unconfirmed = claim::is_unconfirmed(pass.view, pass.last_step());
    let text = StepText::deletion(Stage::FindVm, unconfirmed.then_some(DeletionNote::Unconfirmed));
    let status = pass.operation(Operation::Delete, State::Processing, text);
    let mut status = pass.enter(status, Phase::Terminating, false);
    status.current_status.preserve_expiry_time = None;
    status.preservation = None;
    if defect!(DrainTimeoutFromPhaseBefore) {
        status.current_status.last_update_time = pass.machine().status.current_status.last_update_time.clone();
    }
    let mut plan = Plan::new(Reason::DeletionStarted).after(Duration::ZERO);
    if pass.view.failure.is_none() && pass.phase() != Some(&Phase::Terminating) {
        plan.actions.extend(drain::terminating_condition(pass));
    }
    let why = pass.view.deletion_reason.as_deref();
    let why = why.unwrap_or("requested by a user or another process");
    let message = format!("{} ({why})", Reason::DeletionStarted);
    let plan = plan.act(Action::RecordEvent {
        type_: EventType::Normal,
        reason: "Deleting".to_owned(),
        message,
    });
    Plan {
        status: Some(status),
        drain: pass.view.drain.reset(),
        ..plan
    }
}

fn call(pass: &Pass, kind: CallKind, reason: Reason) -> Plan {
    match validation::class(pass) {
        Ok(class) => {
            let call = CloudCall {
                kind,
                machine: pass.machine().clone(),
                class: class.clone(),
                last_applied: None,
                secret: pass.view.secret.data.clone(),
            };
            Plan::new(reason).act(Action::Call(Box::new(call)))
        }
        Err(reason) => Plan::new(reason).after(pass.settings.retry.long),
    }
}

fn find_vm(pass: &Pass) -> Plan {
    if claim::is_unconfirmed(pass.view, pass.last_step()) {
        return confirm_vm(pass);
    }
    if !pass.view.target {
        return next(pass, Stage::Vm, DeletionNote::NoTarget);
    }
    if pass.node_name().is_some() {
        return next(pass, Stage::Drain, None);
    }
    if defect!(NodeKnownByLabelOnly) {
        return next(pass, Stage::Drain, None);
    }
    if let Some(name) = &pass.view.labelled_node {
        return write_label(pass, name);
    }
    if defect!(DeletesOnlyRecordedVm) && pass.machine().spec.provider_id.is_empty() {
        return next(pass, Stage::Drain, None);
    }
    match pass.last_answer() {
        // A node name that no label can contain must not block the deletion.
        Some(Answer::Status(Ok(vm))) => match vm.node_name.as_ref().filter(|name| name.is_label_value()) {
            Some(name) => write_label(pass, name),
            None => next(pass, Stage::Drain, None),
        },
        Some(Answer::Status(Err(error))) => not_found(pass, error),
        _ => left_to_repeat(pass).unwrap_or_else(|| call(pass, CallKind::Status, Reason::AskForVm)),
    }
}

/// Asks the driver about the VM that the machine names. Removes the label unless the driver confirms it. The provider ID
/// of a VM that the driver does not find stays: the cloud may not list a new VM yet, and DeleteMachine needs its ID.
fn confirm_vm(pass: &Pass) -> Plan {
    match claim::confirmation(pass) {
        Confirmation::Open => left_to_repeat(pass).unwrap_or_else(|| call(pass, CallKind::Status, Reason::AskForVm)),
        Confirmation::NeedsList => call(pass, CallKind::List, Reason::ConfirmVm),
        Confirmation::Confirmed => next(pass, Stage::Drain, None),
        Confirmation::Vm(vm) => {
            let node = vm.node_name.clone().filter(|_| pass.view.target);
            let patch = MachinePatch {
                forgets_node: true,
                forgets_provider_id: true,
                node: node.filter(NodeName::is_label_value),
                provider_id: vm.provider_id.clone(),
                ..MachinePatch::default()
            };
            let id = vm.provider_id.as_deref().unwrap_or_default();
            let is_recorded = pass.node_name() == patch.node.as_ref() && pass.machine().spec.provider_id == id;
            let mut plan = next(pass, Stage::Drain, None);
            if !is_recorded {
                plan.actions.insert(0, Action::PatchMachine(patch));
            }
            plan
        }
        Confirmation::Refused | Confirmation::Foreign => {
            let mut plan = next(pass, Stage::Drain, DeletionNote::Forgotten);
            let patch = MachinePatch {
                forgets_node: true,
                forgets_provider_id: claim::confirmation(pass) == Confirmation::Foreign,
                ..MachinePatch::default()
            };
            plan.actions.insert(0, Action::PatchMachine(patch));
            plan
        }
        Confirmation::Failed(call, error) => unanswered(pass, call, error),
    }
}

/// The label `node` was removed during the deletion: restores it, since the stages depend on it.
fn label_lost(pass: &Pass) -> Option<Plan> {
    let stage = pass.last_step().and_then(|step| step.text.stage());
    let stage = stage.filter(|stage| (Stage::Drain..=Stage::Node).contains(stage))?;
    let node = pass.view.labelled_node.clone();
    let node = node.filter(|_| pass.node_name().is_none() && pass.view.failure.is_none())?;
    if defect!(NodeKnownByLabelOnly | MissingLabelPassesOver) {
        return None;
    }
    let plan = Plan::new(Reason::Stage(stage.phrase().to_owned())).after(Duration::ZERO);
    Some(plan.act(Action::PatchMachine(MachinePatch::naming(node))))
}

/// Writes the label `node` first: the next stages depend on it.
fn write_label(pass: &Pass, node: &NodeName) -> Plan {
    let mut plan = next(pass, Stage::Drain, None);
    let patch = MachinePatch::naming(node.clone());
    plan.actions.insert(0, Action::PatchMachine(patch));
    plan
}

fn not_found(pass: &Pass, error: &DriverError) -> Plan {
    match error.code {
        Code::Unimplemented => next(pass, Stage::Drain, None),
        Code::NotFound if defect!(MissingVmNeverDeleted) => {
            next(pass, Stage::Node, DeletionNote::Other("VM not found.".to_owned()))
        }
        Code::NotFound => next(pass, Stage::Drain, DeletionNote::NoVmToDrain),
        Code::Uninitialized => next(pass, Stage::Drain, DeletionNote::Uninitialized),
        _ => unanswered(pass, "GetMachineStatus", error),
    }
}

/// The driver could not say whether there is a VM.
fn unanswered(pass: &Pass, call: &'static str, error: &DriverError) -> Plan {
    let retry = &pass.settings.retry;
    let code = error.code;
    let error = error.to_string();
    let (note, wait) = match (is_transient(code), claim::is_unconfirmed(pass.view, pass.last_step())) {
        (true, false) => (DeletionNote::StatusRetried, retry.short),
        (true, true) => (DeletionNote::UnconfirmedRetried, retry.short),
        (false, false) => (DeletionNote::StatusRefused { error }, retry.medium),
        (false, true) => (DeletionNote::UnconfirmedRefused { error }, retry.medium),
    };
    failed(pass, call, code, StepText::deletion(Stage::FindVm, note), wait)
}

fn failed(pass: &Pass, call: &'static str, code: Code, text: StepText, retry: Duration) -> Plan {
    let plan = advance(pass, State::Failed, text, retry);
    Plan {
        reason: Reason::DeletionFailed { call, code, retry },
        ..plan
    }
}

/// The remaining wait after the failed call that the status records.
fn left_to_repeat(pass: &Pass) -> Option<Plan> {
    let failed = pass
        .last_step()
        .filter(|step| step.failed() && !defect!(StatusWrittenEveryPass))?;
    let retry = match failed.text.retry_period() {
        RetryPeriod::Short => pass.settings.retry.short,
        RetryPeriod::Medium => pass.settings.retry.medium,
        RetryPeriod::Long => pass.settings.retry.long,
    };
    let left = retry.saturating_sub(pass.since_failure(failed));
    let waits = !left.is_zero() && !pass.view.hurry;
    waits.then(|| Plan::new(Reason::WaitingToRepeat(left)).after(left))
}

fn volume_attachments(pass: &Pass) -> Plan {
    let name = pass.node_name().map(ToString::to_string).unwrap_or_default();
    let Some(node) = pass.view.node.present() else {
        if pass.view.node == NodeView::Unknown && pass.node_name().is_some() {
            return Plan::new(Reason::NodeUnknown).after(pass.settings.retry.short);
        }
        return next(pass, Stage::Vm, DeletionNote::DetachWithoutNode { node: name });
    };
    let attached = node
        .status
        .as_ref()
        .is_some_and(|status| status.volumes_attached.iter().flatten().next().is_some());
    if !attached {
        return next(pass, Stage::Vm, DeletionNote::Detached { node: name });
    }
    let may_run = !drain::is_tainted_as_stopped(pass) && !drain::unique_pods(pass).is_empty();
    if may_run && !defect!(VolumesDetachedFromRunningVm) {
        return next(pass, Stage::Vm, DeletionNote::AttachmentsKept { node: name });
    }
    if defect!(DetachmentAwaitedForever) && pass.view.volume_attachments.is_empty() {
        return Plan::new(Reason::Detaching(0)).after(pass.settings.retry.short);
    }
    if pass.view.volume_attachments.is_empty() || defect!(VolumesLeftAttached) {
        return next(pass, Stage::Vm, DeletionNote::NoAttachments { node: name });
    }
    let mut names = pass.view.volume_attachments.clone();
    names.sort_unstable();
    let mut plan = Plan::new(Reason::Detaching(names.len())).after(pass.settings.retry.short);
    plan.actions = names.into_iter().map(Action::DeleteVolumeAttachment).collect();
    plan
}

fn delete_vm(pass: &Pass) -> Plan {
    if defect!(DeletesOnlyRecordedVm) && pass.machine().spec.provider_id.is_empty() {
        return next(pass, Stage::Node, DeletionNote::NoVm);
    }
    if pass.last_answer().is_none() && drain::is_due(pass) {
        return next(pass, Stage::Drain, DeletionNote::DrainedAgain);
    }
    let periods = &pass.settings.retry;
    let (error, note, retry) = match pass.last_answer() {
        Some(Answer::Delete(Ok(state))) => return vm_deleted(pass, state.clone()),
        Some(Answer::Delete(Err(error))) if error.code == Code::NotFound => {
            let text = StepText::deletion(Stage::Node, DeletionNote::NoVm);
            return advance_remembering(pass, State::Processing, text, Duration::ZERO, memory(error));
        }
        Some(Answer::Delete(Err(error))) if is_transient(error.code) => {
            let note = DeletionNote::VmRetried {
                error: error.to_string(),
            };
            (error, note, periods.short)
        }
        Some(Answer::Delete(Err(error))) => {
            let note = DeletionNote::VmRefused {
                error: error.to_string(),
            };
            (error, note, periods.long)
        }
        _ => return left_to_repeat(pass).unwrap_or_else(|| call(pass, CallKind::Delete, Reason::DeleteVm)),
    };
    let code = error.code;
    let retry = if defect!(StatusWrittenEveryPass) {
        Duration::ZERO
    } else {
        retry
    };
    let text = StepText::deletion(Stage::Vm, note);
    Plan {
        reason: Reason::DeletionFailed {
            call: "DeleteMachine",
            code,
            retry,
        },
        ..advance_remembering(pass, State::Failed, text, retry, memory(error))
    }
}

/// The driver's new `lastKnownState`: an answer to DeleteMachine replaces it, also with an empty one.
fn memory(error: &DriverError) -> String {
    let vm = error.vm.as_ref();
    vm.and_then(|vm| vm.last_known_state.clone()).unwrap_or_default()
}

fn vm_deleted(pass: &Pass, state: Option<String>) -> Plan {
    let since = pass.since(pass.machine().metadata.deletion_timestamp.as_ref());
    let text = StepText::deletion(Stage::Node, DeletionNote::VmDeleted);
    let plan = advance_remembering(pass, State::Processing, text, Duration::ZERO, state.unwrap_or_default());
    let event = Action::RecordEvent {
        type_: EventType::Normal,
        reason: "VMDeleted".to_owned(),
        message: DeletionNote::VmDeleted.to_string(),
    };
    plan.act(Action::Observe(Metric::DeleteDuration(since))).act(event)
}

fn delete_node(pass: &Pass) -> Plan {
    let Some(name) = pass.node_name() else {
        let machine = pass.name().to_owned();
        return next(pass, Stage::Finalizer, DeletionNote::NoNodeLabel { machine });
    };
    if defect!(LateNodeStays) && pass.machine().status.node_conditions().next().is_none() {
        return next(pass, Stage::Finalizer, None);
    }
    if pass.view.failure.is_some() && defect!(NodeOfMissingVmKept) {
        return next(pass, Stage::Finalizer, None);
    }
    if let Some(failure) = &pass.view.failure {
        let (node, error) = (name.to_string(), failure.message.clone());
        let note = match failure.action {
            Action::RemoveNodeFinalizer { .. } => DeletionNote::NodeFinalizerFailed { node, error },
            _ => DeletionNote::NodeFailed { node, error },
        };
        let plan = advance(
            pass,
            State::Failed,
            StepText::deletion(Stage::Node, note),
            Duration::ZERO,
        );
        return plan.again(failure, &pass.settings.retry);
    }
    let node = match &pass.view.node {
        NodeView::Unknown if pass.view.target => {
            return Plan::new(Reason::NodeUnknown).after(pass.settings.retry.short);
        }
        // Without a target cluster there are no Nodes, whatever the label says.
        NodeView::Unknown | NodeView::Absent | NodeView::Gone => {
            let node = name.to_string();
            return next(pass, Stage::Finalizer, DeletionNote::NoNode { node });
        }
        NodeView::Present(node) => node,
    };
    let note = DeletionNote::NodeDeleted { node: name.to_string() };
    let mut plan = next(pass, Stage::Finalizer, note);
    // Nothing runs on the Node: the next pods of these names may start elsewhere, with their volumes.
    let left: Vec<Action> = drain::deletions(drain::unique_pods(pass)).collect();
    let mut attachments = pass.view.volume_attachments.clone();
    attachments.retain(|_| !left.is_empty() && !defect!(VolumesLeftAttached));
    attachments.sort_unstable();
    let finalizer = has_finalizer(&node.metadata, keys::NODE_FINALIZER);
    let actions = [
        node.metadata
            .deletion_timestamp
            .is_none()
            .then(|| Action::DeleteNode { node: name.clone() }),
        finalizer.then(|| Action::RemoveNodeFinalizer { node: name.clone() }),
    ];
    let attachments = attachments.into_iter().map(Action::DeleteVolumeAttachment);
    let actions = left.into_iter().chain(attachments).chain(actions.into_iter().flatten());
    plan.actions.splice(0..0, actions);
    plan
}
