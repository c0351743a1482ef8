//! A driver call and its result as values, so that code that treats all calls alike has one entry point: both forms of
//! the gRPC contract, and drivers that wrap another driver.
//!
//! [`Handler`] translates the methods of a [`Driver`] into calls, and [`Call::send_to`] translates them back.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_api::{MachineClass, MachineName, ProviderId};

use crate::source::Source;
use crate::{Driver, MachineRequest};

/// A call with its parameters, which are those of the [`Driver`]'s method.
#[derive(Clone, Debug)]
pub enum Call {
    /// CreateMachine.
    Create(Box<MachineRequest>),
    /// InitializeMachine.
    Initialize(Box<MachineRequest>),
    /// DeleteMachine.
    Delete(Box<MachineRequest>),
    /// GetMachineStatus.
    Status(Box<MachineRequest>),
    /// UpdateMachine.
    Update(Box<MachineRequest>, Option<String>),
    /// StopMachine.
    Stop(Box<MachineRequest>),
    /// ListMachines.
    List(Box<MachineClass>, SecretData),
    /// GetVolumeIDs.
    VolumeIds(Vec<PersistentVolumeSpec>),
    /// GenerateMachineClass.
    GenerateClass(serde_json::Value, Box<MachineClass>),
}

/// The merged data of a class's Secrets. Debug output contains only its keys.
#[derive(Clone, Default)]
pub struct SecretData(pub BTreeMap<String, ByteString>);

impl Debug for SecretData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The result of a successful call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Of a creation, an initialization, a status or a stop.
    Vm(VmIdentity),
    /// Of a deletion: the driver's last known state.
    Deleted(Option<String>),
    /// Of an update.
    Updated,
    /// Of a list.
    List(BTreeMap<ProviderId, MachineName>),
    /// Of volumes.
    VolumeIds(Vec<String>),
    /// Of a migration.
    Class(Box<MachineClass>),
}

impl Outcome {
    fn describe(&self) -> &'static str {
        match self {
            Self::Vm(_) => "a VM",
            Self::Deleted(_) => "a deletion",
            Self::Updated => "an update",
            Self::List(_) => "a list of VMs",
            Self::VolumeIds(_) => "volumes",
            Self::Class(_) => "a class",
        }
    }
}

impl Call {
    /// The name of the call.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "CreateMachine",
            Self::Initialize(_) => "InitializeMachine",
            Self::Delete(_) => "DeleteMachine",
            Self::Status(_) => "GetMachineStatus",
            Self::Update(..) => "UpdateMachine",
            Self::Stop(_) => "StopMachine",
            Self::List(..) => "ListMachines",
            Self::VolumeIds(_) => "GetVolumeIDs",
            Self::GenerateClass(..) => "GenerateMachineClass",
        }
    }

    /// The request of a call about one machine.
    pub fn request(&self) -> Option<&MachineRequest> {
        match self {
            Self::Create(request)
            | Self::Initialize(request)
            | Self::Delete(request)
            | Self::Status(request)
            | Self::Stop(request)
            | Self::Update(request, _) => Some(request),
            Self::List(..) | Self::VolumeIds(_) | Self::GenerateClass(..) => None,
        }
    }

    /// The class that the call concerns; `None` for volumes, and for a migration, whose class is not filled yet.
    pub fn class(&self) -> Option<&MachineClass> {
        match self {
            Self::List(class, _) => Some(class),
            other => other.request().map(|request| &request.class),
        }
    }

    /// The same as [`Self::class`], for drivers that change the class.
    pub fn class_mut(&mut self) -> Option<&mut MachineClass> {
        match self {
            Self::Create(request)
            | Self::Initialize(request)
            | Self::Delete(request)
            | Self::Status(request)
            | Self::Stop(request)
            | Self::Update(request, _) => Some(&mut request.class),
            Self::List(class, _) => Some(class),
            Self::VolumeIds(_) | Self::GenerateClass(..) => None,
        }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn send_to(self, driver: &(impl Driver + ?Sized)) -> Result<Outcome, DriverError> {
        match self {
            Self::Create(request) => driver.create_machine(*request).await.map(Outcome::Vm),
            Self::Initialize(request) => driver.initialize_machine(*request).await.map(Outcome::Vm),
            Self::Delete(request) => driver.delete_machine(*request).await.map(Outcome::Deleted),
            Self::Status(request) => driver.get_machine_status(*request).await.map(Outcome::Vm),
            Self::Stop(request) => driver.stop_machine(*request).await.map(Outcome::Vm),
            Self::Update(request, last_applied) => {
                let updated = driver.update_machine(*request, last_applied).await;
                updated.map(|()| Outcome::Updated)
            }
            Self::List(class, secret) => driver.list_machines(*class, secret.0).await.map(Outcome::List),
            Self::VolumeIds(specs) => driver.get_volume_ids(specs).await.map(Outcome::VolumeIds),
            Self::GenerateClass(provider_class, class) => {
                let filled = driver.generate_machine_class(provider_class, *class).await;
                filled.map(|class| Outcome::Class(Box::new(class)))
            }
        }
    }
}

/// A driver with one entry point for all calls. Every handler is a [`Driver`].
#[async_trait]
pub trait Handler: Debug + Send + Sync {
    /// Makes a call. An outcome of another kind than the call's becomes an error of the [`Driver`].
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError>;

    /// See [`Driver::attach`].
    fn attach_source(&self, _: Arc<dyn Source>) {}
}

#[async_trait]
impl Handler for Arc<dyn Driver> {
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        call.send_to(&**self).await
    }

    fn attach_source(&self, source: Arc<dyn Source>) {
        (**self).attach(source);
    }
}

fn unexpected<T>(call: &'static str, outcome: &Outcome) -> Result<T, DriverError> {
    let got = outcome.describe();
    Err(DriverError::new(
        Code::Internal,
        format!("the driver answered {call} with {got}, which violates the contract"),
    ))
}

/// Makes a call whose outcome is a VM.
async fn vm(handler: &impl Handler, call: Call) -> Result<VmIdentity, DriverError> {
    let name = call.name();
    match handler.handle(call).await? {
        Outcome::Vm(vm) => Ok(vm),
        other => unexpected(name, &other),
    }
}

#[async_trait]
impl<H: Handler> Driver for H {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        vm(self, Call::Create(Box::new(request))).await
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        vm(self, Call::Initialize(Box::new(request))).await
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        vm(self, Call::Status(Box::new(request))).await
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        vm(self, Call::Stop(Box::new(request))).await
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        match self.handle(Call::Delete(Box::new(request))).await? {
            Outcome::Deleted(last_known_state) => Ok(last_known_state),
            other => unexpected("DeleteMachine", &other),
        }
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        match self.handle(Call::Update(Box::new(request), last_applied)).await? {
            Outcome::Updated => Ok(()),
            other => unexpected("UpdateMachine", &other),
        }
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        match self.handle(Call::List(Box::new(class), SecretData(secret))).await? {
            Outcome::List(machines) => Ok(machines),
            other => unexpected("ListMachines", &other),
        }
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        match self.handle(Call::VolumeIds(specs)).await? {
            Outcome::VolumeIds(ids) => Ok(ids),
            other => unexpected("GetVolumeIDs", &other),
        }
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        match self
            .handle(Call::GenerateClass(provider_class, Box::new(class)))
            .await?
        {
            Outcome::Class(class) => Ok(*class),
            other => unexpected("GenerateMachineClass", &other),
        }
    }

    fn attach(&self, source: Arc<dyn Source>) {
        self.attach_source(source);
    }
}
