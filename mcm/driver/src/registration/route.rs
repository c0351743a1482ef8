//! The registered drivers as one [`Driver`]: each call is routed to the driver of its class's provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_api::keys::USER_DATA_KEY;
use mcm_api::{MachineClass, MachineName, ProviderId};

use super::{Registry, Source};
use crate::proto::OperationType;
use crate::proto::answer::Result as Outcome;
use crate::{Driver, MachineRequest, proto, wire};

impl Registry {
    async fn call_for_machine(&self, type_: OperationType, request: MachineRequest) -> Result<Outcome, DriverError> {
        let MachineRequest { machine, class, secret } = request;
        // Only these need the user data that was filled in for this machine.
        let filled_in = matches!(
            type_,
            OperationType::Create | OperationType::Initialize | OperationType::GetStatus
        );
        let user_data = secret.get(USER_DATA_KEY).filter(|_| filled_in);
        let operation = proto::Operation {
            id: 0,
            r#type: type_.into(),
            machine: wire::to_json("machine", &machine)?,
            class: Some(meta(&class)),
            user_data: user_data.map(|data| data.0.clone()),
            persistent_volume_specs: Vec::new(),
        };
        self.call(kind(&class)?, operation).await
    }

    async fn vm(&self, type_: OperationType, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        match self.call_for_machine(type_, request).await? {
            Outcome::Vm(vm) => Ok(wire::decode_vm(vm)),
            other => Err(unexpected_result(type_, &other)),
        }
    }
}

fn kind(class: &MachineClass) -> Result<&str, DriverError> {
    class
        .provider
        .as_deref()
        .filter(|kind| !kind.is_empty())
        .ok_or_else(|| {
            DriverError::new(
                Code::InvalidArgument,
                format!(
                    "the machine class {} has no provider: set it to the kind of the driver that serves it",
                    class.metadata.name.as_deref().unwrap_or_default()
                ),
            )
        })
}

fn meta(class: &MachineClass) -> proto::MachineClassMeta {
    let metadata = &class.metadata;
    proto::MachineClassMeta {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

fn unexpected_result(type_: OperationType, outcome: &Outcome) -> DriverError {
    let got = match outcome {
        Outcome::Failure(_) => "a failure",
        Outcome::Vm(_) => "a VM",
        Outcome::Deleted(_) => "a deletion",
        Outcome::List(_) => "a list of VMs",
        Outcome::Volumes(_) => "volumes",
    };
    DriverError::new(
        Code::Internal,
        format!(
            "the driver answered {} with {got}, which violates the contract",
            type_.as_str_name()
        ),
    )
}

#[async_trait]
impl Driver for Registry {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.vm(OperationType::Create, request).await
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.vm(OperationType::Initialize, request).await
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        match self.call_for_machine(OperationType::Delete, request).await? {
            Outcome::Deleted(deleted) => Ok(deleted.last_known_state),
            other => Err(unexpected_result(OperationType::Delete, &other)),
        }
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.vm(OperationType::GetStatus, request).await
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.vm(OperationType::Stop, request).await
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        _: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        let operation = proto::Operation {
            r#type: OperationType::List.into(),
            class: Some(meta(&class)),
            ..proto::Operation::default()
        };
        match self.call(kind(&class)?, operation).await? {
            Outcome::List(list) => Ok(wire::decode_vms(list.machines)),
            other => Err(unexpected_result(OperationType::List, &other)),
        }
    }

    /// Volumes have no class: every driver is called, and each returns the names of its own volumes.
    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        let specs = specs
            .iter()
            .map(|spec| wire::to_json("persistent volume spec", spec))
            .collect::<Result<Vec<_>, _>>()?;
        let mut ids = Vec::new();
        for kind in self.kinds() {
            let operation = proto::Operation {
                r#type: OperationType::GetVolumeIds.into(),
                persistent_volume_specs: specs.clone(),
                ..proto::Operation::default()
            };
            match self.call(&kind, operation).await {
                Ok(Outcome::Volumes(volumes)) => ids.extend(volumes.ids),
                Ok(other) => return Err(unexpected_result(OperationType::GetVolumeIds, &other)),
                Err(error) if error.code == Code::Unimplemented => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ids)
    }

    fn attach(&self, source: Arc<dyn Source>) {
        self.attach_source(source);
    }
}
