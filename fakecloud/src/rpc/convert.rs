//! Conversions between the model's values and messages of the control contract.

use mcm_api::cloud::{Code, DriverError};
use tonic::Status;

use super::ledger;
use super::units::{span, time};
use crate::DuplicateCreates;
use crate::model::{
    Cloud, CommandError, FaultError, Forgotten, NodesSpec, Record, RecordKind, Reference, Taint, Vm, VmState,
};
use crate::proto;

impl From<VmState> for proto::VmState {
    fn from(state: VmState) -> Self {
        match state {
            VmState::Pending => Self::Pending,
            VmState::Running => Self::Running,
            VmState::Stopped => Self::Stopped,
            VmState::Stopping => Self::Stopping,
            VmState::Terminated => Self::Terminated,
        }
    }
}

impl proto::VmState {
    /// The state that a message contains; `None`: it contains none.
    pub fn known(self) -> Option<VmState> {
        match self {
            Self::Unspecified => None,
            Self::Pending => Some(VmState::Pending),
            Self::Running => Some(VmState::Running),
            Self::Stopped => Some(VmState::Stopped),
            Self::Stopping => Some(VmState::Stopping),
            Self::Terminated => Some(VmState::Terminated),
        }
    }
}

pub(super) fn vm(cloud: &Cloud, vm: &Vm) -> proto::Vm {
    proto::Vm {
        id: vm.id.clone(),
        provider_id: vm.provider_id.clone(),
        machine: vm.owner.name.clone(),
        machine_namespace: vm.owner.namespace.clone(),
        machine_uid: vm.owner.uid.clone(),
        node: vm.node_name.clone(),
        machine_class: vm.owner.class.clone(),
        state: proto::VmState::from(vm.state).into(),
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
        preempted_unix_nanos: vm.preempted.map_or(0, time),
        disks: cloud.disks_of(vm).map(ledger::disk).collect(),
        nics: cloud.nics_of(vm).map(ledger::nic).collect(),
        volumes: cloud.volumes_of(vm).map(|volume| volume.id.clone()).collect(),
    }
}

pub(super) fn record(record: &Record) -> proto::Record {
    let kind = match record.kind {
        RecordKind::Call => proto::RecordKind::Call,
        RecordKind::Command => proto::RecordKind::Command,
        RecordKind::Transition => proto::RecordKind::Transition,
        RecordKind::Kubelet => proto::RecordKind::Kubelet,
        RecordKind::Part => proto::RecordKind::Part,
    };
    let state_of = |of: Option<VmState>| of.map_or(proto::VmState::Unspecified, Into::into).into();
    proto::Record {
        sequence: record.sequence,
        time_unix_nanos: time(record.time),
        kind: kind.into(),
        caller: record.caller.to_string(),
        operation: record.operation.clone().into_owned(),
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

/// The requested nodes; the model validates them.
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

pub(super) fn command_error(error: &CommandError) -> Status {
    let text = error.to_string();
    match error {
        CommandError::NotFound(_) | CommandError::NoHold(_) | CommandError::NoOutage(_) => Status::not_found(text),
        CommandError::Several { .. } | CommandError::State { .. } | CommandError::ZoneDown { .. } => {
            Status::failed_precondition(text)
        }
        CommandError::NoRoom(_) => Status::resource_exhausted(text),
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

/// A rejection of the model; machine code 17, which gRPC does not have, does not occur in this contract.
pub(super) fn refusal(error: DriverError) -> Status {
    Status::new(tonic::Code::from_i32(error.code.number()), error.message)
}
