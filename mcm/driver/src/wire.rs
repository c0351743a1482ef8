//! The wire form of requests, identities and errors, in both directions.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{NodeAddress, PersistentVolumeSpec};
use mcm_api::cloud::{Code, DriverError, Power, VmIdentity};
use mcm_api::{MachineClass, MachineName, NodeName, ProviderId};
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::ConnectError;
use crate::{MachineRequest, proto};

/// Serializes `object` as JSON; `what` names it in errors.
pub(crate) fn to_json<T: Serialize>(what: &str, object: &T) -> Result<Vec<u8>, DriverError> {
    serde_json::to_vec(object).map_err(|error| {
        DriverError::new(
            Code::Internal,
            format!("the {what} cannot be serialized as JSON for the driver: {error}"),
        )
    })
}

/// Parses an object from JSON; `what` names its field in errors.
pub(crate) fn from_json<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, DriverError> {
    serde_json::from_slice(text).map_err(|error| {
        DriverError::new(
            Code::InvalidArgument,
            format!("the field {what} is not valid JSON of its type: {error}"),
        )
    })
}

/// Decodes the field `what` as UTF-8.
pub(crate) fn text(what: &str, bytes: Vec<u8>) -> Result<String, DriverError> {
    String::from_utf8(bytes)
        .map_err(|_| DriverError::new(Code::InvalidArgument, format!("the field {what} is not valid UTF-8")))
}

pub(crate) fn encode_secret<M: FromIterator<(String, Vec<u8>)>>(secret: BTreeMap<String, ByteString>) -> M {
    secret.into_iter().map(|(key, value)| (key, value.0)).collect()
}

pub(crate) fn decode_secret(secret: impl IntoIterator<Item = (String, Vec<u8>)>) -> BTreeMap<String, ByteString> {
    secret
        .into_iter()
        .map(|(key, value)| (key, ByteString(value)))
        .collect()
}

pub(crate) fn encode_request(request: MachineRequest) -> Result<proto::MachineRequest, DriverError> {
    Ok(proto::MachineRequest {
        machine: to_json("machine", &request.machine)?,
        class: to_json("class", &request.class)?,
        secret: encode_secret(request.secret),
    })
}

pub(crate) fn decode_request(request: proto::MachineRequest) -> Result<MachineRequest, DriverError> {
    Ok(MachineRequest {
        machine: from_json("machine", &request.machine)?,
        class: from_json("class", &request.class)?,
        secret: decode_secret(request.secret),
    })
}

pub(crate) fn encode_specs(specs: &[PersistentVolumeSpec]) -> Result<Vec<Vec<u8>>, DriverError> {
    let specs = specs.iter();
    specs.map(|spec| to_json("persistent volume spec", spec)).collect()
}

pub(crate) fn decode_specs(specs: &[Vec<u8>]) -> Result<Vec<PersistentVolumeSpec>, DriverError> {
    let specs = specs.iter();
    specs.map(|spec| from_json("persistent_volume_specs", spec)).collect()
}

pub(crate) fn encode_migration(
    provider_class: &serde_json::Value,
    class: &MachineClass,
) -> Result<proto::MigrationRequest, DriverError> {
    Ok(proto::MigrationRequest {
        provider_class: to_json("provider class", provider_class)?,
        class: to_json("class", class)?,
    })
}

pub(crate) fn decode_migration(
    request: &proto::MigrationRequest,
) -> Result<(serde_json::Value, MachineClass), DriverError> {
    Ok((
        from_json("provider_class", &request.provider_class)?,
        from_json("class", &request.class)?,
    ))
}

pub(crate) fn encode_vm(vm: VmIdentity) -> proto::Vm {
    proto::Vm {
        provider_id: vm.provider_id.map(String::from).unwrap_or_default(),
        node_name: vm.node_name.map(String::from).unwrap_or_default(),
        addresses: vm
            .addresses
            .into_iter()
            .map(|address| proto::Address {
                r#type: address.type_,
                address: address.address,
            })
            .collect(),
        last_known_state: vm.last_known_state,
        power: encode_power(vm.power).into(),
    }
}

fn encode_power(power: Option<Power>) -> proto::Power {
    match power {
        None => proto::Power::Unspecified,
        Some(Power::Running) => proto::Power::Running,
        Some(Power::Stopped) => proto::Power::Stopped,
    }
}

/// A value that this version does not have counts as unknown.
fn decode_power(vm: &proto::Vm) -> Option<Power> {
    match vm.power() {
        proto::Power::Unspecified => None,
        proto::Power::Running => Some(Power::Running),
        proto::Power::Stopped => Some(Power::Stopped),
    }
}

pub(crate) fn decode_vm(vm: proto::Vm) -> VmIdentity {
    VmIdentity {
        power: decode_power(&vm),
        provider_id: ProviderId::new(vm.provider_id),
        node_name: NodeName::new(vm.node_name),
        addresses: vm
            .addresses
            .into_iter()
            .map(|address| NodeAddress {
                type_: address.r#type,
                address: address.address,
            })
            .collect(),
        last_known_state: vm.last_known_state,
    }
}

pub(crate) fn encode_vms(vms: BTreeMap<ProviderId, MachineName>) -> BTreeMap<String, String> {
    vms.into_iter().map(|(id, name)| (id.into(), name.into())).collect()
}

/// Ignores VMs without a provider id or without a machine name: they could not be collected.
pub(crate) fn decode_vms(vms: impl IntoIterator<Item = (String, String)>) -> BTreeMap<ProviderId, MachineName> {
    let vm = |(id, name): (String, String)| match (ProviderId::new(id.as_str()), MachineName::new(name.as_str())) {
        (Some(id), Some(name)) => Some((id, name)),
        _ => {
            tracing::warn!(
                vm = id,
                machine = name,
                "the driver lists a VM without a provider id or a machine name"
            );
            None
        }
    };
    vms.into_iter().filter_map(vm).collect()
}

/// The gRPC code for an error with this machine code. gRPC has no code 17, and a call cannot fail
/// with OK.
fn grpc_code(code: Code) -> tonic::Code {
    match code {
        Code::Ok => tonic::Code::Unknown,
        Code::Uninitialized => tonic::Code::FailedPrecondition,
        other => tonic::Code::from_i32(other.number()),
    }
}

/// Encodes an error as a status.
pub(crate) fn encode_error(error: DriverError) -> tonic::Status {
    let code = grpc_code(error.code);
    let failure = encode_failure(error);
    tonic::Status::with_details(code, failure.message.clone(), Bytes::from(failure.encode_to_vec()))
}

pub(crate) fn encode_failure(error: DriverError) -> proto::Failure {
    proto::Failure {
        code: error.code.number(),
        message: error.message,
        vm: error.vm.map(|vm| encode_vm(*vm)),
    }
}

/// Decodes an error; an unknown code becomes Unknown.
pub(crate) fn decode_failure(failure: proto::Failure) -> DriverError {
    DriverError {
        code: Code::from_number(failure.code)
            .filter(|code| *code != Code::Ok)
            .unwrap_or(Code::Unknown),
        message: failure.message,
        vm: failure.vm.map(|vm| Box::new(decode_vm(vm))),
    }
}

/// Decodes an error from a status. Without readable details (from a driver that does not send them, or
/// after a failure of the transport to `peer`) the gRPC code determines the machine code.
pub(crate) fn decode_error(status: &tonic::Status, peer: &str) -> DriverError {
    if let Some(error) = failure_of(status) {
        return error;
    }
    let code = match timed_out(status) {
        true => Code::DeadlineExceeded,
        false => Code::from_number(status.code() as i32).unwrap_or(Code::Unknown),
    };
    DriverError::new(code, format!("driver {peer}: {}", with_causes(status)))
}

fn failure_of(status: &tonic::Status) -> Option<DriverError> {
    if status.details().is_empty() {
        return None;
    }
    let failure = proto::Failure::decode(status.details()).ok()?;
    Some(DriverError {
        code: Code::from_number(failure.code)?,
        message: failure.message,
        vm: failure.vm.map(|vm| Box::new(decode_vm(vm))),
    })
}

fn timed_out(status: &tonic::Status) -> bool {
    causes(status).any(|cause| cause.is::<tonic::TimeoutExpired>())
}

/// The message with its causes, because `transport error` alone is not helpful. The reason of a failed
/// connection is a complete sentence and is returned alone.
pub(crate) fn with_causes(status: &tonic::Status) -> String {
    if let Some(reason) = causes(status).find_map(|cause| cause.downcast_ref::<ConnectError>()) {
        return reason.to_string();
    }
    let mut text = status.message().to_owned();
    for cause in causes(status) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if text.is_empty() {
        text.push_str(status.code().description());
    }
    text
}

fn causes(status: &tonic::Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_details_maps_by_its_code() {
        for code in Code::ALL
            .into_iter()
            .filter(|code| !matches!(code, Code::Ok | Code::Uninitialized))
        {
            let status = tonic::Status::new(tonic::Code::from_i32(code.number()), "from elsewhere");
            let error = decode_error(&status, "grpc://cloud:1");
            assert_eq!(error.code, code);
            assert_eq!(error.message, "driver grpc://cloud:1: from elsewhere");
        }
    }

    #[test]
    fn undecodable_details_are_ignored() {
        let status = tonic::Status::with_details(tonic::Code::Aborted, "busy", Bytes::from_static(b"\xff\xff"));
        assert_eq!(decode_error(&status, "x").code, Code::Aborted);
    }
}
