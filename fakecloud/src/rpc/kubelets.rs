//! Conversions between kubelets' faults and views and messages of the control contract.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tonic::Status;

use super::units;
use crate::kubelet::{KubeletView, PodError};
use crate::model::{Availability, Down, FaultKind, Flapping, KubeletFault, NodeCondition, Vm};
use crate::proto::kubelet_fault::Fault;
use crate::proto::{self, KubeletFaultKind, KubeletState};

/// A VM's kubelet; without a view if no kubelets run, or the VM has never booted.
pub(super) fn kubelet(vm: &Vm, view: Option<KubeletView>, now: Timestamp) -> proto::Kubelet {
    // A recent command may not have reached the kubelet yet.
    let (availability, changes) = vm.kubelet.availability(now);
    let availability = if view.is_some() {
        availability
    } else {
        Availability::Stopped
    };
    let view = view.unwrap_or(KubeletView {
        stage: "off",
        availability,
        changes_at: None,
        recovering: false,
        node_uid: String::new(),
        refused: String::new(),
        pods: 0,
    });
    let conditions = vm.conditions.iter().filter_map(|(kind, condition)| {
        let condition = condition.clone()?;
        Some(proto::NodeCondition {
            r#type: kind.clone(),
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
        })
    });
    proto::Kubelet {
        vm_id: vm.id.clone(),
        node: vm.node_name.clone(),
        machine_namespace: vm.owner.namespace.clone(),
        provider_id: vm.provider_id.clone(),
        vm_state: proto::VmState::from(vm.state).into(),
        stage: view.stage.to_owned(),
        state: state(if view.stage == "off" {
            Availability::Stopped
        } else {
            availability
        })
        .into(),
        faults: vm.kubelet.list().into_iter().map(fault).collect(),
        conditions: conditions.collect(),
        recovering: view.recovering,
        changes_unix_nanos: changes.or(view.changes_at).map_or(0, units::time),
        refused: view.refused,
        node_uid: view.node_uid,
        pods: u32::try_from(view.pods).unwrap_or(u32::MAX),
    }
}

fn state(availability: Availability) -> KubeletState {
    match availability {
        Availability::Up => KubeletState::Up,
        Availability::Stopped => KubeletState::Stopped,
        Availability::Partitioned => KubeletState::Partitioned,
        Availability::Frozen => KubeletState::Frozen,
    }
}

fn fault(fault: KubeletFault) -> proto::KubeletFault {
    let nothing = proto::Nothing {};
    let span = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let fault = match fault {
        KubeletFault::Stopped => Fault::Stopped(nothing),
        KubeletFault::Partitioned => Fault::Partitioned(nothing),
        KubeletFault::Frozen => Fault::Frozen(nothing),
        KubeletFault::Flapping(flapping) => Fault::Flapping(proto::Flapping {
            period_nanos: span(flapping.period),
            up_percent: flapping.up_percent,
            down: match flapping.down {
                Down::Stopped => KubeletState::Stopped,
                Down::Partitioned => KubeletState::Partitioned,
                Down::Frozen => KubeletState::Frozen,
            }
            .into(),
        }),
        KubeletFault::Slow(delay) => Fault::SlowNanos(span(delay)),
        KubeletFault::SlowRecovery(takes) => Fault::SlowRecoveryNanos(span(takes)),
        KubeletFault::ClockSkew(offset) => Fault::ClockSkewNanos(i64::try_from(offset.as_nanos()).unwrap_or(i64::MAX)),
        KubeletFault::Zombie => Fault::Zombie(nothing),
        KubeletFault::TakeOver => Fault::TakeOver(nothing),
    };
    proto::KubeletFault { fault: Some(fault) }
}

pub(super) fn read_fault(fault: Option<proto::KubeletFault>) -> Result<KubeletFault, Status> {
    let Some(fault) = fault.and_then(|fault| fault.fault) else {
        return Err(Status::invalid_argument(
            "fault: none is set; set stopped, partitioned, frozen, flapping, slow_nanos, slow_recovery_nanos, \
             clock_skew_nanos, zombie or take_over",
        ));
    };
    Ok(match fault {
        Fault::Stopped(_) => KubeletFault::Stopped,
        Fault::Partitioned(_) => KubeletFault::Partitioned,
        Fault::Frozen(_) => KubeletFault::Frozen,
        Fault::Flapping(flapping) => KubeletFault::Flapping(Flapping {
            period: Duration::from_nanos(flapping.period_nanos),
            up_percent: flapping.up_percent,
            down: match KubeletState::try_from(flapping.down) {
                Ok(KubeletState::Unspecified | KubeletState::Partitioned) => Down::Partitioned,
                Ok(KubeletState::Stopped) => Down::Stopped,
                Ok(KubeletState::Frozen) => Down::Frozen,
                Ok(KubeletState::Up) | Err(_) => {
                    return Err(Status::invalid_argument(
                        "fault.flapping.down: must be stopped, partitioned or frozen",
                    ));
                }
            },
        }),
        Fault::SlowNanos(nanos) => KubeletFault::Slow(Duration::from_nanos(nanos)),
        Fault::SlowRecoveryNanos(nanos) => KubeletFault::SlowRecovery(Duration::from_nanos(nanos)),
        Fault::ClockSkewNanos(nanos) => KubeletFault::ClockSkew(SignedDuration::from_nanos(nanos)),
        Fault::Zombie(_) => KubeletFault::Zombie,
        Fault::TakeOver(_) => KubeletFault::TakeOver,
    })
}

pub(super) fn read_kinds(kinds: &[i32]) -> Result<Vec<FaultKind>, Status> {
    let read = |kind: &i32| match KubeletFaultKind::try_from(*kind) {
        Ok(KubeletFaultKind::Outage) => Ok(FaultKind::Outage),
        Ok(KubeletFaultKind::Slow) => Ok(FaultKind::Slow),
        Ok(KubeletFaultKind::SlowRecovery) => Ok(FaultKind::SlowRecovery),
        Ok(KubeletFaultKind::ClockSkew) => Ok(FaultKind::ClockSkew),
        Ok(KubeletFaultKind::Zombie) => Ok(FaultKind::Zombie),
        Ok(KubeletFaultKind::TakeOver) => Ok(FaultKind::TakeOver),
        Ok(KubeletFaultKind::Unspecified) | Err(_) => Err(Status::invalid_argument(format!(
            "kinds: {kind} is unknown; use 1 to 6"
        ))),
    };
    kinds.iter().map(read).collect()
}

/// Type and condition; the model validates them.
pub(super) fn read_condition(condition: Option<proto::NodeCondition>) -> Result<(String, NodeCondition), Status> {
    let Some(condition) = condition else {
        return Err(Status::invalid_argument("condition: is missing; set type and status"));
    };
    let read = NodeCondition {
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    };
    Ok((condition.r#type, read))
}

pub(super) fn pod_error(error: &PodError) -> Status {
    let text = error.to_string();
    match error {
        PodError::NoPod(..) | PodError::NoContainer { .. } => Status::not_found(text),
        PodError::Several(..) => Status::invalid_argument(text),
        PodError::NotRunning(..) => Status::failed_precondition(text),
    }
}

#[cfg(test)]
mod tests;
