//! Deletion: from stage to stage until nothing is left. The stage stands in the status, so that any
//! process can go on from it.

use std::time::Duration;

use mcm_api::{Code, DriverError, Operation, Phase, State, keys};

use super::creation::{is_transient, record};
use super::pass::Pass;
use super::problem::problem;
use super::progress::{advance, advance_remembering, next};
use super::{
    Action, Answer, CallKind, CloudCall, MachinePatch, Metric, NodeView, Plan, Reason, Stage, drain, migration, token,
    validation,
};
use crate::event::EventType;
use crate::finalizer::has_finalizer;

const FOREVER: &str = "Aborting operation. Initiate VM deletion";
const NO_TARGET: &str = "Running without target cluster, skipping node drain and volume attachment deletion.";
const STATUS_FAILED: &str = "Error occurred with decoding machine error status while getting VM status, aborting";

/// The next step of the deletion.
pub(super) fn decide(pass: &Pass) -> Plan {
    if !has_finalizer(&pass.machine().metadata, keys::MACHINE_FINALIZER) {
        return Plan::new(Reason::NotOurs).after(pass.settings.retry.long);
    }
    if let Some(plan) = made_meanwhile(pass).or_else(|| made_before(pass)) {
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
        && stage != Stage::Node
    {
        let reason = Reason::ActionFailed(failure.message.clone());
        return Plan::new(reason).again(failure, &pass.settings.retry);
    }
    match stage {
        Stage::FindVm => find_vm(pass),
        Stage::Drain | Stage::VolumeAttachments if !pass.view.target => next(pass, Stage::Vm, NO_TARGET),
        Stage::Drain => drain::decide(pass),
        Stage::VolumeAttachments => volume_attachments(pass),
        Stage::Vm => delete_vm(pass),
        Stage::Node => delete_node(pass),
        Stage::Finalizer => release(pass),
    }
}

/// How far the deletion has come.
fn stage_of(pass: &Pass) -> Option<Stage> {
    let status = &pass.machine().status;
    if defect!(DeletionStageFromForeignText) {
        let text = &status.last_operation.as_ref()?.description;
        return Stage::ALL.into_iter().rev().find(|stage| text.contains(stage.phrase()));
    }
    Stage::of(status)
}

/// The last step. The bootstrap token of a machine that never was Running goes along; the others' went when they joined.
fn release(pass: &Pass) -> Plan {
    let annotations = pass.machine().metadata.annotations.as_ref();
    let joined = annotations.is_some_and(|all| all.contains_key(keys::JOIN_DURATION_ANNOTATION));
    let unused = pass.view.target && !joined;
    let mut plan = Plan::new(Reason::Released).after(pass.settings.retry.long);
    if unused {
        plan = plan.act(Action::DeleteBootstrapToken(token::owner(pass)));
    }
    plan.act(Action::RemoveFinalizer)
}

/// A VM that CreateMachine made while somebody deleted the machine is recorded before all else: a
/// driver may find it by its provider id only.
fn made_meanwhile(pass: &Pass) -> Option<Plan> {
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

/// The VM was made before the deletion, and its record was lost.
fn made_before(pass: &Pass) -> Option<Plan> {
    let unrecorded = pass.machine().spec.provider_id.is_empty() && pass.view.failure.is_none();
    let unrecorded = unrecorded && !defect!(NodeKnownByLabelOnly);
    let vm = pass.view.made.as_ref().filter(|_| unrecorded)?;
    let patch = record(pass, vm);
    (!patch.is_empty()).then(|| {
        Plan::new(Reason::RecordVm)
            .after(Duration::ZERO)
            .act(Action::PatchMachine(patch))
    })
}

/// The class is not usable: the stage stays, its description says what is missing.
fn blocked(pass: &Pass, stage: Stage, reason: Reason) -> Plan {
    let text = reason.to_string();
    let plan = problem(pass, reason, Operation::Delete);
    match &plan.status {
        Some(_) => {
            let status = pass.operation(Operation::Delete, State::Failed, stage.describe(&format!("{text}.")));
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

/// The first write of a deletion. The condition on the Node says why the machine goes, so it is set
/// while the phase still tells.
fn start(pass: &Pass) -> Plan {
    let status = pass.operation(Operation::Delete, State::Processing, Stage::FindVm.phrase());
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
    let message = format!("{}: {}", Reason::DeletionStarted, Stage::FindVm.phrase());
    let plan = plan.act(Action::RecordEvent {
        type_: EventType::Normal,
        reason: "Deleting".to_owned(),
        message,
    });
    Plan {
        status: Some(status),
        drain: pass.view.drain.begun_anew(),
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
    if !pass.view.target {
        return next(pass, Stage::Vm, NO_TARGET);
    }
    if pass.node_name().is_some() {
        return next(pass, Stage::Drain, "");
    }
    if defect!(NodeKnownByLabelOnly) {
        return next(pass, Stage::Drain, "");
    }
    if let Some(name) = &pass.view.labelled_node {
        return labelled(pass, name);
    }
    if defect!(DeletesOnlyRecordedVm) && pass.machine().spec.provider_id.is_empty() {
        return next(pass, Stage::Drain, "");
    }
    match pass.last_answer() {
        Some(Answer::Status(Ok(vm))) if vm.node_name.is_empty() => next(pass, Stage::Drain, ""),
        Some(Answer::Status(Ok(vm))) => labelled(pass, &vm.node_name),
        Some(Answer::Status(Err(error))) => not_found(pass, error),
        _ => left_to_repeat(pass).unwrap_or_else(|| call(pass, CallKind::Status, Reason::AskForVm)),
    }
}

/// Somebody took the machine's label away on the deletion's way: it is written again, since the stages go by it.
fn label_lost(pass: &Pass) -> Option<Plan> {
    let stage = Stage::of(&pass.machine().status).filter(|stage| (Stage::Drain..=Stage::Node).contains(stage))?;
    let node = pass.view.labelled_node.clone();
    let node = node.filter(|_| pass.node_name().is_none() && pass.view.failure.is_none())?;
    if defect!(NodeKnownByLabelOnly | MissingLabelPassesOver) {
        return None;
    }
    let plan = Plan::new(Reason::Stage(stage.phrase().to_owned())).after(Duration::ZERO);
    Some(plan.act(Action::PatchMachine(MachinePatch::naming(node))))
}

/// The machine's label is written first: the next stages go by it.
fn labelled(pass: &Pass, node: &str) -> Plan {
    let mut plan = next(pass, Stage::Drain, "");
    plan.actions.insert(0, Action::PatchMachine(MachinePatch::naming(node)));
    plan
}

fn not_found(pass: &Pass, error: &DriverError) -> Plan {
    let retry = &pass.settings.retry;
    match error.code {
        Code::Unimplemented => next(pass, Stage::Drain, ""),
        Code::NotFound if defect!(MissingVmNeverDeleted) => next(pass, Stage::Node, "VM not found."),
        Code::NotFound => next(
            pass,
            Stage::Drain,
            "VM was not found at provider. Moving forward to node drain.",
        ),
        Code::Uninitialized => next(
            pass,
            Stage::Drain,
            "VM instance was not initialized. Moving forward to node drain.",
        ),
        code if is_transient(code) => {
            let text = Stage::FindVm.describe(&format!("{STATUS_FAILED} with retry."));
            failed(pass, "GetMachineStatus", code, text, retry.short)
        }
        code => {
            let text = Stage::FindVm.describe(&format!("{STATUS_FAILED} without retry. machine code: {error}"));
            failed(pass, "GetMachineStatus", code, text, retry.medium)
        }
    }
}

fn failed(pass: &Pass, call: &'static str, code: Code, description: String, retry: Duration) -> Plan {
    let plan = advance(pass, State::Failed, description, retry);
    Plan {
        reason: Reason::DeletionFailed { call, code, retry },
        ..plan
    }
}

/// The wait for a call that failed a moment ago, judged by what the status says of it.
fn left_to_repeat(pass: &Pass) -> Option<Plan> {
    let failed = pass
        .last_operation()
        .filter(|operation| operation.state == Some(State::Failed) && !defect!(StatusWrittenEveryPass))?;
    let text = failed.description.as_str();
    let retry = if text.ends_with(FOREVER) {
        pass.settings.retry.long
    } else if text.starts_with(&format!("{STATUS_FAILED} without retry.")) {
        pass.settings.retry.medium
    } else {
        pass.settings.retry.short
    };
    let left = retry.saturating_sub(pass.since_failure(failed));
    let waits = !left.is_zero() && !pass.view.hurry;
    waits.then(|| Plan::new(Reason::WaitingToRepeat(left)).after(left))
}

fn volume_attachments(pass: &Pass) -> Plan {
    let name = pass.node_name().unwrap_or_default();
    let Some(node) = pass.view.node.present() else {
        if pass.view.node == NodeView::Unknown && pass.node_name().is_some() {
            return Plan::new(Reason::NodeUnknown).after(pass.settings.retry.short);
        }
        let text =
            format!("Skipping deleteNodeVolAttachments due to - node {name:?} not found. Moving to VM Deletion.");
        return next(pass, Stage::Vm, &text);
    };
    let attached = node
        .status
        .as_ref()
        .is_some_and(|status| status.volumes_attached.iter().flatten().next().is_some());
    if !attached {
        let text = format!("Node Volumes for node: {name} are already detached. Moving to VM Deletion.");
        return next(pass, Stage::Vm, &text);
    }
    if defect!(DetachmentAwaitedForever) && pass.view.volume_attachments.is_empty() {
        return Plan::new(Reason::Detaching(0)).after(pass.settings.retry.short);
    }
    if pass.view.volume_attachments.is_empty() || defect!(VolumesLeftAttached) {
        return next(
            pass,
            Stage::Vm,
            &format!("No Live VolumeAttachments for node: {name}. Moving to VM Deletion."),
        );
    }
    let mut names = pass.view.volume_attachments.clone();
    names.sort_unstable();
    let mut plan = Plan::new(Reason::Detaching(names.len())).after(pass.settings.retry.short);
    plan.actions = names.into_iter().map(Action::DeleteVolumeAttachment).collect();
    plan
}

fn delete_vm(pass: &Pass) -> Plan {
    if defect!(DeletesOnlyRecordedVm) && pass.machine().spec.provider_id.is_empty() {
        return next(pass, Stage::Node, "VM not found. Continuing deletion flow.");
    }
    if pass.last_answer().is_none() && drain::is_due(pass) {
        return next(pass, Stage::Drain, "Pods came to the node after its drain.");
    }
    let periods = &pass.settings.retry;
    let (error, description, retry) = match pass.last_answer() {
        Some(Answer::Delete(Ok(state))) => return vm_deleted(pass, state.clone()),
        Some(Answer::Delete(Err(error))) if error.code == Code::NotFound => {
            let text = Stage::Node.describe("VM not found. Continuing deletion flow.");
            return advance_remembering(pass, State::Processing, text, Duration::ZERO, memory(error));
        }
        Some(Answer::Delete(Err(error))) if is_transient(error.code) => {
            let text = format!("VM deletion failed due to - {error}. However, will re-try in the next resync.");
            (error, Stage::Vm.describe(&text), periods.short)
        }
        Some(Answer::Delete(Err(error))) => (
            error,
            format!("VM deletion failed due to - {error}. {FOREVER}"),
            periods.long,
        ),
        _ => return left_to_repeat(pass).unwrap_or_else(|| call(pass, CallKind::Delete, Reason::DeleteVm)),
    };
    let code = error.code;
    let retry = if defect!(StatusWrittenEveryPass) {
        Duration::ZERO
    } else {
        retry
    };
    Plan {
        reason: Reason::DeletionFailed {
            call: "DeleteMachine",
            code,
            retry,
        },
        ..advance_remembering(pass, State::Failed, description, retry, memory(error))
    }
}

/// A deletion's answer replaces the driver's memory, also by nothing.
fn memory(error: &DriverError) -> String {
    let vm = error.vm.as_ref();
    vm.and_then(|vm| vm.last_known_state.clone()).unwrap_or_default()
}

fn vm_deleted(pass: &Pass, state: Option<String>) -> Plan {
    let since = pass.since(pass.machine().metadata.deletion_timestamp.as_ref());
    let text = Stage::Node.describe("VM deletion was successful.");
    let plan = advance_remembering(pass, State::Processing, text, Duration::ZERO, state.unwrap_or_default());
    let event = Action::RecordEvent {
        type_: EventType::Normal,
        reason: "VMDeleted".to_owned(),
        message: "VM deletion was successful.".to_owned(),
    };
    plan.act(Action::Observe(Metric::DeleteDuration(since))).act(event)
}

fn delete_node(pass: &Pass) -> Plan {
    let Some(name) = pass.node_name() else {
        let text = format!(
            "Label \"node\" not present on machine {:?}, continuing deletion flow.",
            pass.name()
        );
        return next(pass, Stage::Finalizer, &text);
    };
    if pass.view.failure.is_some() && defect!(NodeOfMissingVmKept) {
        return next(pass, Stage::Finalizer, "");
    }
    if let Some(failure) = &pass.view.failure {
        let what = match failure.action {
            Action::RemoveNodeFinalizer { .. } => format!(
                "Removal of finalizers from Node Object {name:?} failed due to error: {}, Retrying.",
                failure.message
            ),
            _ => format!(
                "Deletion of Node Object {name:?} failed due to error: {}.",
                failure.message
            ),
        };
        let plan = advance(pass, State::Failed, Stage::Node.describe(&what), Duration::ZERO);
        return plan.again(failure, &pass.settings.retry);
    }
    let node = match &pass.view.node {
        NodeView::Unknown if pass.view.target => {
            return Plan::new(Reason::NodeUnknown).after(pass.settings.retry.short);
        }
        // Where there is no target cluster there are no Nodes, whoever wrote the label.
        NodeView::Unknown | NodeView::Absent | NodeView::Gone => {
            let text = format!("No node object found for {name:?}, continuing deletion flow.");
            return next(pass, Stage::Finalizer, &text);
        }
        NodeView::Present(node) => node,
    };
    let mut plan = next(
        pass,
        Stage::Finalizer,
        &format!("Deletion of Node Object {name:?} is successful."),
    );
    let finalizer = has_finalizer(&node.metadata, keys::NODE_FINALIZER);
    let actions = [
        node.metadata
            .deletion_timestamp
            .is_none()
            .then(|| Action::DeleteNode { node: name.to_owned() }),
        finalizer.then(|| Action::RemoveNodeFinalizer { node: name.to_owned() }),
    ];
    plan.actions.splice(0..0, actions.into_iter().flatten());
    plan
}
