//! Creation: from a machine without a VM to one that waits for its node.
//!
//! Each creation first asks the cloud for the machine's VM, so that it finds what an earlier process did before it
//! died. VM, label and phase follow, each derived from the state so far.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeAddress;
use mcm_api::{
    Code, DriverError, MAX_LABEL_VALUE, MachineName, MachineStatus, NodeName, Operation, Phase, ProviderId, State,
    VmIdentity, keys,
};

use super::claim::{self, Confirmation};
use super::defects;
use super::existing;
use super::last_step::{LastStep, StepText};
use super::pass::Pass;
use super::problem::{before_timeout, problem};
use super::user_data::{Prepared, prepare};
use super::{Action, Answer, CallKind, CloudCall, MachinePatch, Metric, Plan, Reason, Settings, validation};
use crate::event::EventType;

/// Whether the machine is still to be created. A Failed machine is not: it is replaced.
pub(super) fn is_due(pass: &Pass) -> bool {
    if defect!(VmKnownByNodeLabel) {
        return pass.node_name().is_none();
    }
    match pass.phase() {
        _ if pass.is_being_created() => true,
        Some(Phase::Failed) => defect!(FailedMachineCreatedAgain) && pass.machine().spec.provider_id.is_empty(),
        _ => pass.machine().spec.provider_id.is_empty(),
    }
}

/// The next step of the creation.
pub(super) fn decide(pass: &Pass) -> Plan {
    let class = match validation::class(pass) {
        Ok(class) => class,
        Err(reason) => return problem(pass, reason, Operation::Create),
    };
    if let Some(wait) = left_to_repeat(pass) {
        return waiting_to_repeat(pass, wait);
    }
    let secret = match prepare(pass) {
        Prepared::Ready(secret) => secret,
        Prepared::NeedsToken(token) => {
            return Plan::new(Reason::BootstrapTokenNeeded).act(Action::EnsureBootstrapToken(token));
        }
        Prepared::Invalid(text) => return problem(pass, Reason::InvalidSecret(text), Operation::Create),
    };
    let call = |kind, machine, reason| {
        let call = CloudCall {
            kind,
            machine,
            class: class.clone(),
            last_applied: None,
            secret: secret.clone(),
        };
        Plan::new(reason).act(Action::Call(Box::new(call)))
    };
    step(pass, &call)
}

/// Makes the plan of a driver call.
type MakeCall<'a> = dyn Fn(CallKind, mcm_api::Machine, Reason) -> Plan + 'a;

fn step(pass: &Pass, call: &MakeCall) -> Plan {
    let machine = pass.machine();
    let create = || call(CallKind::Create, machine.clone(), Reason::CreateVm);
    match pass.last_answer() {
        None | Some(Answer::Delete(_) | Answer::VolumeIds(_) | Answer::Update { .. } | Answer::Stop(_)) => {
            if defect!(
                CreatesWithoutAsking
                    | CreatesWithoutAskingAfterCrash
                    | RepeatsCreationWithoutAsking
                    | PreservationRestoresOldCopy
            ) {
                return create();
            }
            if let Some(vm) = unrecorded(pass).filter(|vm| is_complete(pass, vm)) {
                return found(pass, vm, Some(call));
            }
            call(CallKind::Status, machine.clone(), Reason::AskForVm)
        }
        Some(Answer::Status(Ok(vm))) => found(pass, vm, None),
        // The VM was created, but the driver's answer was incomplete: no other VM may be created.
        Some(Answer::Status(Err(error))) if unrecorded(pass).is_some() && is_missing(error) => {
            incomplete(pass, unrecorded(pass).unwrap_or(&VmIdentity::default()))
        }
        Some(Answer::Status(Err(error))) => match error.code {
            Code::NotFound | Code::Unimplemented
                if machine.spec.provider_id.is_empty() || defect!(NotFoundBelievedAtOnce | VmKnownByNodeLabel) =>
            {
                create()
            }
            Code::NotFound | Code::Unimplemented
                if claim::is_created_here(pass.view) || defect!(UnconfirmedVmBelieved) =>
            {
                found(pass, &recorded(pass), None)
            }
            Code::NotFound | Code::Unimplemented => confirmed(pass, "GetMachineStatus", call),
            Code::Uninitialized => {
                let vm = error.vm.as_deref().cloned().unwrap_or_else(|| recorded(pass));
                let vm = VmIdentity {
                    addresses: Vec::new(),
                    ..vm
                };
                found(pass, &vm, Some(call))
            }
            _ => failed(pass, "GetMachineStatus", error),
        },
        Some(Answer::Create(Ok(vm))) => created(pass, vm, call),
        Some(Answer::Create(Err(error))) if existing::needs_list(pass, error) => {
            call(CallKind::List, machine.clone(), Reason::LookForExistingVm)
        }
        Some(Answer::Create(Err(error))) => failed(pass, "CreateMachine", error),
        Some(Answer::List(_)) if !machine.spec.provider_id.is_empty() => confirmed(pass, "ListMachines", call),
        Some(Answer::List(listed)) => already_exists(pass, listed.as_ref().ok(), call),
        Some(Answer::Initialize(Ok(vm))) => initialized(pass, Some(vm)),
        Some(Answer::Initialize(Err(error))) => match error.code {
            Code::Unimplemented | Code::NotFound => initialized(pass, None),
            _ if defect!(FailedInitializationCountsAsDone) => initialized(pass, None),
            _ => not_initialized(pass, error),
        },
        Some(Answer::DeleteStale(result)) => stale(pass, result),
    }
}

/// The VM that this process created for a machine whose provider ID is not written yet, because the write was lost. The
/// cloud may not list it yet, so that asking is not enough.
fn unrecorded<'a>(pass: &Pass<'a>) -> Option<&'a VmIdentity> {
    let vm = pass.view.created_vm.as_ref();
    vm.filter(|_| pass.machine().spec.provider_id.is_empty())
}

/// Whether the answer has all fields of the VM that a machine needs.
fn is_complete(pass: &Pass, vm: &VmIdentity) -> bool {
    let is_nameless = || vm.node_name.is_none() && !defect!(PendingWithoutNodeName);
    vm.provider_id.is_some() && !(pass.view.target && (is_nameless() || unusable_name(vm).is_some()))
}

/// The VM's node name, if no label can contain it.
fn unusable_name(vm: &VmIdentity) -> Option<&NodeName> {
    vm.node_name.as_ref().filter(|name| !name.is_label_value())
}

fn is_missing(error: &DriverError) -> bool {
    matches!(error.code, Code::NotFound | Code::Unimplemented)
}

/// The VM as recorded in the machine.
fn recorded(pass: &Pass) -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new(pass.machine().spec.provider_id.as_str()),
        node_name: pass.node_name().cloned(),
        ..VmIdentity::default()
    }
}

/// The VM that the machine names is not known to be its own: `last_call` is the call that answered last.
fn confirmed(pass: &Pass, last_call: &'static str, call: &MakeCall) -> Plan {
    match claim::confirmation(pass) {
        Confirmation::Confirmed => found(pass, &recorded(pass), None),
        Confirmation::NeedsList => call(CallKind::List, pass.machine().clone(), Reason::ConfirmVm),
        Confirmation::Failed(call, error) => failed(pass, call, error),
        _ => failed(pass, last_call, &claim::refused(pass)),
    }
}

/// CreateMachine failed with AlreadyExists: adopts the VM if it is listed, and otherwise reports the failure.
fn already_exists(pass: &Pass, listed: Option<&BTreeMap<ProviderId, MachineName>>, call: &MakeCall) -> Plan {
    let Some(error) = existing::creation_error(pass) else {
        return call(CallKind::Status, pass.machine().clone(), Reason::AskForVm);
    };
    match listed.and_then(|listed| existing::adopted(pass.name(), error, listed)) {
        Some(vm) => found(pass, &vm, Some(call)),
        None => failed(pass, "CreateMachine", error),
    }
}

/// CreateMachine created a VM. If an older Node that is not the machine's own has the VM's node name, the VM would use
/// a foreign identity, so it is deleted.
fn created(pass: &Pass, vm: &VmIdentity, call: &MakeCall) -> Plan {
    if pass.view.target && vm.node_name.as_deref() != Some(pass.name()) && has_older_node(pass, vm) {
        let mut machine = pass.machine().clone();
        machine.spec.provider_id = vm.provider_id.clone().map(String::from).unwrap_or_default();
        return call(CallKind::DeleteStale, machine, Reason::StaleNode);
    }
    let mut plan = found(pass, vm, Some(call));
    let event = Action::RecordEvent {
        type_: EventType::Normal,
        reason: "VMCreated".to_owned(),
        message: format!("VM {} was created", vm.provider_id.as_deref().unwrap_or_default()),
    };
    // The VM is recorded before the event and the metric.
    let index = usize::from(matches!(plan.actions.first(), Some(Action::PatchMachine(_))));
    plan.actions.splice(
        index..index,
        [Action::Observe(Metric::CreateDuration(pass.age())), event],
    );
    plan
}

/// Whether the Node of the VM's name belongs to another VM, or names no VM and is older than the machine. After a lost
/// answer the call is repeated, so that the VM's own kubelet may already have registered the Node.
fn has_older_node(pass: &Pass, vm: &VmIdentity) -> bool {
    let Some(node) = &pass.view.answered_node else {
        return false;
    };
    if defect!(NodeOfVmNameIsOlder) {
        return true;
    }
    let node_vm = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    match node_vm.filter(|id| !id.is_empty()) {
        Some(id) => Some(id) != vm.provider_id.as_deref(),
        None => node.metadata.creation_timestamp < pass.machine().metadata.creation_timestamp,
    }
}

/// There is a VM: records it in the machine, then initialises it if `initialize` is given.
fn found(pass: &Pass, vm: &VmIdentity, initialize: Option<&MakeCall>) -> Plan {
    if claim::is_contradicted(pass, vm) {
        return failed(pass, "GetMachineStatus", &claim::contradicted(pass, vm));
    }
    if !is_complete(pass, vm) {
        return incomplete(pass, vm);
    }
    let patch = record(pass, vm);
    let mut plan = match initialize {
        Some(call) => call(CallKind::Initialize, patched(pass, &patch, vm), Reason::InitializeVm),
        None => waiting(pass, vm),
    };
    if !patch.is_empty() {
        plan.actions.insert(0, Action::PatchMachine(patch));
    }
    plan
}

/// The fields of the VM that the machine does not have yet. A provider ID is written once and never changed. The label
/// `node` of a new machine may have been copied from another one.
pub(super) fn record(pass: &Pass, vm: &VmIdentity) -> MachinePatch {
    let machine = pass.machine();
    let annotations = machine.metadata.annotations.as_ref();
    let priority = annotations
        .and_then(|all| all.get(keys::PRIORITY_ANNOTATION))
        .filter(|value| !value.is_empty());
    let is_new = pass.is_being_created() && !defect!(UnconfirmedVmBelieved);
    let lacks_node_label = match pass.node_name() {
        None => pass.view.target,
        Some(known) => pass.view.target && is_new && vm.node_name.as_ref() != Some(known),
    };
    let provider_id = vm.provider_id.clone();
    let provider_id = provider_id.filter(|_| machine.spec.provider_id.is_empty());
    MachinePatch {
        node: vm.node_name.clone().filter(|_| lacks_node_label),
        priority: priority.is_none().then(|| keys::DEFAULT_PRIORITY.to_owned()),
        provider_spec: created_from(pass).filter(|_| provider_id.is_some()),
        provider_id,
        ..MachinePatch::default()
    }
}

/// The provider spec of the VM that was created in this pass.
fn created_from(pass: &Pass) -> Option<String> {
    let created = matches!(pass.last_answer(), Some(Answer::Create(Ok(_))));
    let spec = &pass.view.class.as_ref().filter(|_| created)?.provider_spec;
    (!spec.is_null()).then(|| spec.to_string())
}

/// Whether the last operation is a failed initialisation: until it succeeds, the state of the node is ignored.
pub(super) fn is_uninitialized(pass: &Pass) -> bool {
    pass.last_step()
        .is_some_and(|step| step.failed() && step.operation == Some(Operation::Create) && step.text.is_initialization())
}

/// The machine after the patch, as passed to the driver.
fn patched(pass: &Pass, patch: &MachinePatch, vm: &VmIdentity) -> mcm_api::Machine {
    let mut machine = pass.machine().clone();
    if let Some(node) = &patch.node {
        machine
            .metadata
            .labels
            .get_or_insert_default()
            .insert(keys::NODE_LABEL.to_owned(), node.to_string());
    }
    if let Some(provider_id) = &patch.provider_id {
        machine.spec.provider_id = provider_id.to_string();
    }
    if let Some(state) = &vm.last_known_state {
        machine.status.last_known_state.clone_from(state);
    }
    machine
}

fn initialized(pass: &Pass, vm: Option<&VmIdentity>) -> Plan {
    let mut known = recorded(pass);
    known.addresses = vm.map(|vm| vm.addresses.clone()).unwrap_or_default();
    if let Some(name) = vm.and_then(|vm| vm.node_name.clone()) {
        known.node_name = Some(name);
    }
    let plan = waiting(pass, &known);
    plan.act(Action::Observe(Metric::InitializeDuration(pass.age())))
}

/// The VM is complete: the machine waits for its node, or is Available if there is no target cluster.
fn waiting(pass: &Pass, vm: &VmIdentity) -> Plan {
    if !pass.is_being_created() {
        return pass.nothing();
    }
    if defect!(FailedCreationSeenAfterLongRetryOnly)
        && let Some(plan) = defects::stays_crash_looping(pass)
    {
        return plan;
    }
    if !pass.view.target {
        return available(pass, vm);
    }
    let status = pass.operation(Operation::Create, State::Processing, StepText::CreatingVm);
    let status = with_driver_state(pass, status, vm);
    pass.write(
        Plan::new(Reason::VmCreated).after(Duration::ZERO),
        pass.enter(status, Phase::Pending, true),
    )
}

fn available(pass: &Pass, vm: &VmIdentity) -> Plan {
    let mut status = pass.operation(Operation::Create, State::Successful, StepText::VmCreated);
    status.addresses = addresses(pass, vm);
    let status = pass.enter(with_driver_state(pass, status, vm), Phase::Available, false);
    pass.write(Plan::new(Reason::VmAvailable).after(pass.settings.retry.long), status)
}

/// The addresses in the status and in all answers of this pass, sorted.
fn addresses(pass: &Pass, vm: &VmIdentity) -> Vec<NodeAddress> {
    let answered = pass.view.answers.iter().filter_map(|answer| match answer {
        Answer::Status(Ok(vm)) | Answer::Create(Ok(vm)) | Answer::Initialize(Ok(vm)) => Some(vm),
        _ => None,
    });
    let names = answered
        .clone()
        .map(|vm| vm.node_name.clone())
        .chain([vm.node_name.clone()]);
    let names = names.flatten().map(String::from);
    let mut all: Vec<NodeAddress> = pass.machine().status.addresses.clone();
    all.extend(answered.flat_map(|vm| vm.addresses.clone()));
    all.extend(names.map(|address| NodeAddress {
        type_: "Hostname".to_owned(),
        address,
    }));
    all.sort_by(|a, b| (&a.type_, &a.address).cmp(&(&b.type_, &b.address)));
    all.dedup();
    all
}

/// `status` with the driver's `lastKnownState`, if an answer of this pass has one.
fn with_driver_state(pass: &Pass, mut status: MachineStatus, vm: &VmIdentity) -> MachineStatus {
    let created = pass.view.answers.iter().rev().find_map(|answer| match answer {
        Answer::Create(Ok(vm)) | Answer::Status(Ok(vm)) | Answer::Initialize(Ok(vm)) => vm.last_known_state.clone(),
        _ => None,
    });
    if let Some(state) = vm.last_known_state.clone().or(created) {
        status.last_known_state = state;
    }
    status
}

/// The driver violated its contract: no node can be recorded, and the call is repeated later. The VM is deleted with its
/// machine.
fn incomplete(pass: &Pass, vm: &VmIdentity) -> Plan {
    let description = match unusable_name(vm) {
        Some(name) => format!(
            "machine {:?}: nodeName ({:?}) cannot be the value of the label `node`: the driver must name the node with at most \
             {MAX_LABEL_VALUE} letters, digits, '-', '_' and '.'",
            pass.name(),
            name.as_str()
        ),
        None => format!(
            "machine {:?}: nodeName ({:?}) or providerID ({:?}) is empty after creation flow",
            pass.name(),
            vm.node_name.as_deref().unwrap_or_default(),
            vm.provider_id.as_deref().unwrap_or_default()
        ),
    };
    let error = DriverError::new(Code::Internal, description);
    let status = failure(pass, &error, call_failed(&error));
    let wait = before_timeout(pass, pass.settings.retry.medium);
    let plan = Plan::new(Reason::IncompleteAnswer).after(wait);
    pass.report(plan, status, EventType::Warning, "CreationFailed", error.to_string())
}

/// A new VM with a foreign node name was deleted.
fn stale(pass: &Pass, result: &Result<Option<String>, DriverError>) -> Plan {
    let status = pass.operation(Operation::Create, State::Failed, StepText::StaleNode);
    let status = pass.enter(status, Phase::Failed, false);
    let outcome = match result {
        Ok(_) => "the VM was deleted".to_owned(),
        Err(error) => format!("the VM could not be deleted: {error}"),
    };
    let plan = Plan::new(Reason::StaleNode).after(pass.settings.retry.short);
    pass.report(
        plan,
        status,
        EventType::Warning,
        "StaleNode",
        format!("{}; {outcome}", Reason::StaleNode),
    )
}

/// GetMachineStatus or CreateMachine failed.
fn failed(pass: &Pass, call: &'static str, error: &DriverError) -> Plan {
    let mut status = failure(pass, error, call_failed(error));
    match error.vm.as_ref().and_then(|vm| vm.last_known_state.clone()) {
        Some(state) => status.last_known_state = state,
        None if !is_transient(error.code) && error.code != Code::ResourceExhausted => status.last_known_state.clear(),
        None => {}
    }
    give_reason(pass, call, error.code, retry_of(pass.settings, error.code), status)
}

/// InitializeMachine failed.
fn not_initialized(pass: &Pass, error: &DriverError) -> Plan {
    let text = StepText::InitializationFailed {
        error: error.to_string(),
    };
    let status = failure(pass, error, text);
    let status = with_driver_state(pass, status, &VmIdentity::default());
    give_reason(pass, "InitializeMachine", error.code, pass.settings.retry.short, status)
}

fn call_failed(error: &DriverError) -> StepText {
    StepText::CallFailed {
        error: error.to_string(),
    }
}

fn failure(pass: &Pass, error: &DriverError, text: StepText) -> MachineStatus {
    let late = pass.age() >= pass.settings.creation_timeout_of(pass.machine());
    let phase = if late { Phase::Failed } else { Phase::CrashLoopBackOff };
    let mut status = pass.enter(pass.operation(Operation::Create, State::Failed, text), phase, false);
    if let Some(operation) = &mut status.last_operation {
        operation.error_code = error.code.name().to_owned();
    }
    if defect!(FailedCreationDropsExpiry) {
        status.current_status.preserve_expiry_time = None;
        status.preservation = None;
    }
    status
}

fn give_reason(pass: &Pass, call: &'static str, code: Code, retry: Duration, status: MachineStatus) -> Plan {
    let timeout = pass.settings.creation_timeout_of(pass.machine());
    let reason = match status.current_status.phase {
        Some(Phase::Failed) => Reason::CreationTimedOut { call, code, timeout },
        _ => Reason::CreationFailed { call, code, retry },
    };
    let text = status
        .last_operation
        .as_ref()
        .map(|operation| operation.description.clone())
        .unwrap_or_default();
    let message = format!("{reason}: {text}");
    pass.report(
        Plan::new(reason).after(before_timeout(pass, retry)),
        status,
        EventType::Warning,
        "CreationFailed",
        message,
    )
}

/// Whether a retry after a short time may succeed.
pub(super) fn is_transient(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable
    )
}

/// After which time a failed GetMachineStatus or CreateMachine is repeated.
pub(super) fn retry_of(settings: &Settings, code: Code) -> Duration {
    let retry = &settings.retry;
    match code {
        Code::ResourceExhausted if defect!(ExhaustedCreationNeverRepeated) => Duration::from_hours(1000),
        _ if defect!(FailedCreationRepeatedAtOnce) => Duration::ZERO,
        Code::ResourceExhausted => retry.resource_exhausted,
        _ if is_transient(code) => retry.short,
        _ => retry.medium,
    }
}

/// The remaining wait of the creation after the failed call that the status records.
fn left_to_repeat(pass: &Pass) -> Option<Duration> {
    if pass.view.hurry || !pass.view.answers.is_empty() || pass.phase() != Some(&Phase::CrashLoopBackOff) {
        return None;
    }
    let failed = pass.last_step().filter(|step| step.failed())?;
    let retry = repeated_after(pass.settings, failed)?;
    let left = retry.checked_sub(pass.since_failure(failed))?;
    (!left.is_zero()).then_some(left)
}

fn repeated_after(settings: &Settings, failed: &LastStep) -> Option<Duration> {
    let code = failed.code?;
    Some(if failed.text.is_initialization() {
        settings.retry.short
    } else {
        retry_of(settings, code)
    })
}

/// The wait for the next attempt. If the creation timeout ends during the wait, the machine becomes Failed then, not
/// after the wait.
fn waiting_to_repeat(pass: &Pass, wait: Duration) -> Plan {
    let timeout = pass.settings.creation_timeout_of(pass.machine());
    let over = pass.age() >= timeout && !defect!(CreationTimeoutAtRetryOnly);
    let Some(failed) = pass.last_step().filter(|_| over) else {
        return Plan::new(Reason::WaitingToRepeat(wait)).after(before_timeout(pass, wait));
    };
    let status = pass.enter(pass.machine().status.clone(), Phase::Failed, false);
    let call = if failed.text.is_initialization() {
        "InitializeMachine"
    } else {
        "CreateMachine"
    };
    let code = failed.code.unwrap_or(Code::Unknown);
    let reason = Reason::CreationTimedOut { call, code, timeout };
    let message = format!("{reason}: {}", failed.text);
    let plan = Plan::new(reason).after(pass.settings.retry.long);
    pass.report(plan, status, EventType::Warning, "CreationFailed", message)
}
