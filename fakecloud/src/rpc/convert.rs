//! Between the model's values and the control contract's messages.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use tonic::Status;

use crate::DuplicateCreates;
use crate::model::{
    Cloud, CommandError, Fault, FaultError, FaultRule, Forgotten, NodesSpec, Operation, Record, RecordKind, Reference,
    Taint, Vm, VmState,
};
use crate::proto;

pub(super) fn time(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn span(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn state(state: VmState) -> proto::VmState {
    match state {
        VmState::Pending => proto::VmState::Pending,
        VmState::Running => proto::VmState::Running,
        VmState::Stopped => proto::VmState::Stopped,
        VmState::Stopping => proto::VmState::Stopping,
        VmState::Terminated => proto::VmState::Terminated,
    }
}

pub(super) fn vm(cloud: &Cloud, vm: &Vm) -> proto::Vm {
    proto::Vm {
        id: vm.id.clone(),
        provider_id: vm.provider_id.clone(),
        machine: vm.owner.name.clone(),
        machine_namespace: vm.owner.namespace.clone(),
        machine_uid: vm.owner.uid.clone(),
        machine_class: vm.owner.class.clone(),
        state: state(vm.state).into(),
        state_reason: vm.reason.clone(),
        initialized: vm.initialized,
        held: cloud.is_held(vm),
        zone: vm.zone.clone(),
        region: vm.region.clone(),
        machine_type: vm.machine_type.clone(),
        image: vm.image.clone(),
        tags: vm.tags.clone(),
        address: vm.address(),
        boot_id: vm.boot_id.clone(),
        created_unix_nanos: time(vm.created),
        changed_unix_nanos: time(vm.changed),
        kubelet_stopped: vm.kubelet.is_stopped(),
        joined: vm.joined,
    }
}

pub(super) fn record(record: &Record) -> proto::Record {
    let kind = match record.kind {
        RecordKind::Call => proto::RecordKind::Call,
        RecordKind::Command => proto::RecordKind::Command,
        RecordKind::Transition => proto::RecordKind::Transition,
        RecordKind::Kubelet => proto::RecordKind::Kubelet,
    };
    let state_of = |of: Option<VmState>| of.map_or(proto::VmState::Unspecified, state).into();
    proto::Record {
        sequence: record.sequence,
        time_unix_nanos: time(record.time),
        kind: kind.into(),
        caller: record.caller.to_string(),
        operation: record.operation.to_owned(),
        machine: record.machine.clone(),
        vm_id: record.vm.clone(),
        provider_id: record.provider_id.clone(),
        state: state_of(record.state),
        previous: state_of(record.previous),
        code: record.code.map_or(0, Code::number),
        message: record.message.clone(),
        latency_nanos: span(record.latency),
        fault_id: record.fault.clone().unwrap_or_default(),
        client: record.client.clone(),
    }
}

pub(super) fn reference(reference: proto::VmReference) -> Result<Reference, Status> {
    use proto::vm_reference::By;
    match reference.by {
        Some(By::Id(id)) => Ok(Reference::Id(id)),
        Some(By::ProviderId(id)) => Ok(Reference::ProviderId(id)),
        Some(By::Machine(machine)) => Ok(Reference::Machine(machine)),
        None => Err(Status::invalid_argument(
            "the reference is empty: set id, provider_id or machine",
        )),
    }
}

/// What nodes are asked for; what they may be is the model's to say.
pub(super) fn nodes(request: proto::CreateNodesRequest) -> NodesSpec {
    let taint = |taint: proto::Taint| Taint {
        key: taint.key,
        value: taint.value,
        effect: taint.effect,
    };
    NodesSpec {
        count: request.count,
        prefix: request.name_prefix,
        zones: request.zones,
        machine_type: request.machine_type,
        labels: request.labels,
        taints: request.taints.into_iter().map(taint).collect(),
    }
}

pub(super) fn duplicates(duplicates: DuplicateCreates) -> proto::DuplicateCreates {
    match duplicates {
        DuplicateCreates::One => proto::DuplicateCreates::One,
        DuplicateCreates::Two => proto::DuplicateCreates::Two,
    }
}

pub(super) fn read_duplicates(number: i32) -> Result<DuplicateCreates, Status> {
    match proto::DuplicateCreates::try_from(number) {
        Ok(proto::DuplicateCreates::One) => Ok(DuplicateCreates::One),
        Ok(proto::DuplicateCreates::Two) => Ok(DuplicateCreates::Two),
        Ok(proto::DuplicateCreates::Unspecified) | Err(_) => Err(Status::invalid_argument(
            "duplicate_creates: must be DUPLICATE_CREATES_ONE or DUPLICATE_CREATES_TWO",
        )),
    }
}

pub(super) fn fault(fault: Fault) -> proto::Fault {
    let Fault { rule, seen, hits } = fault;
    let operation = rule
        .operation
        .map_or(proto::Operation::Unspecified, |operation| match operation {
            Operation::Create => proto::Operation::Create,
            Operation::Initialize => proto::Operation::Initialize,
            Operation::Delete => proto::Operation::Delete,
            Operation::GetStatus => proto::Operation::GetStatus,
            Operation::List => proto::Operation::List,
            Operation::Volumes => proto::Operation::Volumes,
            Operation::Update => proto::Operation::Update,
        });
    proto::Fault {
        id: rule.id,
        operation: operation.into(),
        machine: rule.machine,
        skip: rule.skip,
        times: rule.times,
        code: rule.code.number(),
        message: rule.message,
        latency_nanos: span(rule.latency.0),
        effect_before_error: rule.effect_before_error,
        effect_delay_nanos: span(rule.effect_delay.0),
        seen,
        hits,
    }
}

pub(super) fn rule(fault: proto::Fault) -> Result<FaultRule, Status> {
    let operation = match proto::Operation::try_from(fault.operation) {
        Ok(proto::Operation::Unspecified) => None,
        Ok(proto::Operation::Create) => Some(Operation::Create),
        Ok(proto::Operation::Initialize) => Some(Operation::Initialize),
        Ok(proto::Operation::Delete) => Some(Operation::Delete),
        Ok(proto::Operation::GetStatus) => Some(Operation::GetStatus),
        Ok(proto::Operation::List) => Some(Operation::List),
        Ok(proto::Operation::Volumes) => Some(Operation::Volumes),
        Ok(proto::Operation::Update) => Some(Operation::Update),
        Err(_) => {
            return Err(Status::invalid_argument(format!(
                "operation: {} is none; 0 to 7 are",
                fault.operation
            )));
        }
    };
    let code = Code::from_number(fault.code)
        .ok_or_else(|| Status::invalid_argument(format!("code: {} is no machine code; 0 to 17 are", fault.code)))?;
    Ok(FaultRule {
        id: fault.id,
        operation,
        machine: fault.machine,
        skip: fault.skip,
        times: fault.times,
        code,
        message: fault.message,
        latency: GoDuration(Duration::from_nanos(fault.latency_nanos)),
        effect_before_error: fault.effect_before_error,
        effect_delay: GoDuration(Duration::from_nanos(fault.effect_delay_nanos)),
    })
}

pub(super) fn command_error(error: &CommandError) -> Status {
    let text = error.to_string();
    match error {
        CommandError::NotFound(_) | CommandError::NoHold(_) => Status::not_found(text),
        CommandError::Several { .. } | CommandError::State { .. } => Status::failed_precondition(text),
        CommandError::EmptyPattern | CommandError::Unusable(_) => Status::invalid_argument(text),
    }
}

pub(super) fn fault_error(error: &FaultError) -> Status {
    let text = error.to_string();
    match error {
        FaultError::Unusable(_) => Status::invalid_argument(text),
        FaultError::Exists(_) => Status::already_exists(text),
        FaultError::Unknown(_) => Status::not_found(text),
    }
}

pub(super) fn forgotten(forgotten: Forgotten) -> Status {
    Status::out_of_range(forgotten.to_string())
}
