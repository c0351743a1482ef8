//! The wire form of calls and outcomes in the registration form. Pure.

use k8s_openapi::ByteString;
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};
use mcm_api::keys::USER_DATA_KEY;

use crate::call::{Call, Outcome, SecretData};
use crate::proto::OperationType;
use crate::proto::answer::Result as Answered;
use crate::{MachineRequest, proto, wire};

/// Encodes a call as an operation without an id. The driver fetches class and Secrets.
pub(super) fn encode(call: &Call) -> Result<proto::Operation, DriverError> {
    let type_ = match call {
        Call::Create(_) => OperationType::Create,
        Call::Initialize(_) => OperationType::Initialize,
        Call::Delete(_) => OperationType::Delete,
        Call::Status(_) => OperationType::GetStatus,
        Call::Update(..) => OperationType::Update,
        Call::Stop(_) => OperationType::Stop,
        Call::List(..) => OperationType::List,
        Call::VolumeIds(_) => OperationType::GetVolumeIds,
        Call::GenerateClass(..) => OperationType::GenerateClass,
    };
    let mut operation = proto::Operation {
        r#type: type_.into(),
        class: call.class().map(meta),
        ..proto::Operation::default()
    };
    match call {
        // Only these need the user data that was filled in for this machine.
        Call::Create(request) | Call::Initialize(request) | Call::Status(request) => {
            operation.machine = wire::to_json("machine", &request.machine)?;
            operation.user_data = request.secret.get(USER_DATA_KEY).map(|data| data.0.clone());
        }
        Call::Delete(request) | Call::Stop(request) => operation.machine = wire::to_json("machine", &request.machine)?,
        Call::Update(request, last_applied) => {
            operation.machine = wire::to_json("machine", &request.machine)?;
            operation.last_applied = last_applied.clone().map(String::into_bytes);
        }
        Call::List(..) => {}
        Call::VolumeIds(specs) => operation.persistent_volume_specs = wire::encode_specs(specs)?,
        Call::GenerateClass(provider_class, class) => {
            operation.migration = Some(wire::encode_migration(provider_class, class)?);
        }
    }
    Ok(operation)
}

/// The reference with which a driver fetches this version of a class.
pub(super) fn meta(class: &MachineClass) -> proto::MachineClassMeta {
    let metadata = &class.metadata;
    proto::MachineClassMeta {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// A received operation.
pub(super) enum Received {
    /// It needs nothing else.
    Complete(Call),
    /// It needs the class and the data of its Secrets, see [`Incomplete::complete`].
    Incomplete(Incomplete),
}

/// A call whose class and Secrets have not been fetched yet.
pub(super) struct Incomplete {
    /// The class to fetch.
    pub(super) class: proto::MachineClassMeta,
    type_: OperationType,
    machine: Vec<u8>,
    user_data: Option<Vec<u8>>,
    last_applied: Option<Vec<u8>>,
}

/// Decodes an operation. Fails with Unimplemented for a type that this version does not know.
pub(super) fn decode(operation: proto::Operation) -> Result<Received, DriverError> {
    let type_ = operation.r#type();
    match type_ {
        OperationType::Unspecified => Err(DriverError::new(
            Code::Unimplemented,
            format!("this driver does not know the operation type {}", operation.r#type),
        )),
        OperationType::GetVolumeIds => {
            let specs = wire::decode_specs(&operation.persistent_volume_specs)?;
            Ok(Received::Complete(Call::VolumeIds(specs)))
        }
        OperationType::GenerateClass => {
            let (provider_class, class) = wire::decode_migration(&operation.migration.unwrap_or_default())?;
            Ok(Received::Complete(Call::GenerateClass(provider_class, Box::new(class))))
        }
        OperationType::Create
        | OperationType::Initialize
        | OperationType::Delete
        | OperationType::GetStatus
        | OperationType::Update
        | OperationType::Stop
        | OperationType::List => Ok(Received::Incomplete(Incomplete {
            class: operation.class.unwrap_or_default(),
            type_,
            machine: operation.machine,
            user_data: operation.user_data,
            last_applied: operation.last_applied,
        })),
    }
}

impl Incomplete {
    /// The call with its class and the data of the class's Secrets.
    pub(super) fn complete(self, class: MachineClass, mut secret: SecretData) -> Result<Call, DriverError> {
        if self.type_ == OperationType::List {
            return Ok(Call::List(Box::new(class), secret));
        }
        if let Some(user_data) = self.user_data {
            secret.0.insert(USER_DATA_KEY.to_owned(), ByteString(user_data));
        }
        let request = Box::new(MachineRequest {
            machine: wire::from_json("machine", &self.machine)?,
            class,
            secret: secret.0,
        });
        Ok(match self.type_ {
            OperationType::Create => Call::Create(request),
            OperationType::Initialize => Call::Initialize(request),
            OperationType::Delete => Call::Delete(request),
            OperationType::Stop => Call::Stop(request),
            OperationType::Update => {
                let last_applied = self.last_applied.map(|spec| wire::text("last_applied", spec));
                Call::Update(request, last_applied.transpose()?)
            }
            _ => Call::Status(request),
        })
    }
}

/// Encodes the result of a call.
pub(super) fn encode_result(result: Result<Outcome, DriverError>) -> Answered {
    let encoded = result.and_then(|outcome| match outcome {
        Outcome::Vm(vm) => Ok(Answered::Vm(wire::encode_vm(vm))),
        Outcome::Deleted(last_known_state) => Ok(Answered::Deleted(proto::Deleted { last_known_state })),
        Outcome::Updated => Ok(Answered::Updated(proto::Updated {})),
        Outcome::List(machines) => Ok(Answered::List(proto::VmList {
            machines: wire::encode_vms(machines),
        })),
        Outcome::VolumeIds(ids) => Ok(Answered::Volumes(proto::VolumeIds { ids })),
        Outcome::Class(class) => {
            let class = wire::to_json("class", &class)?;
            Ok(Answered::Generated(proto::GeneratedClass { class }))
        }
    });
    encoded.unwrap_or_else(|error| Answered::Failure(wire::encode_failure(error)))
}

/// Decodes the result of a call.
pub(super) fn decode_result(answered: Answered) -> Result<Outcome, DriverError> {
    Ok(match answered {
        Answered::Failure(failure) => return Err(wire::decode_failure(failure)),
        Answered::Vm(vm) => Outcome::Vm(wire::decode_vm(vm)),
        Answered::Deleted(deleted) => Outcome::Deleted(deleted.last_known_state),
        Answered::Updated(proto::Updated {}) => Outcome::Updated,
        Answered::List(list) => Outcome::List(wire::decode_vms(list.machines)),
        Answered::Volumes(volumes) => Outcome::VolumeIds(volumes.ids),
        Answered::Generated(generated) => Outcome::Class(wire::from_json("class", &generated.class)?),
    })
}
