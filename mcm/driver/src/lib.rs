//! The contract with clouds: the [`Driver`] trait and its gRPC form, as client and as server.
//!
//! It contains the calls, their requests, connections, and the adapters between trait and wire. It must not contain
//! code for a specific cloud, nor decide when a call is made or repeated (`mcm-core` does).

pub mod call;
pub mod channel;
pub mod client;
mod connect_error;
pub mod incoming;
pub mod of_provider;
pub mod registration;
pub mod server;
mod source;
pub mod tls;
mod tunnel;
mod wire;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
pub use mcm_api::cloud::{Code, DriverError, Power, VmIdentity};
use mcm_api::{Machine, MachineClass, MachineName, ProviderId};

/// The generated messages, client and server of `proto/driver.proto`.
#[allow(clippy::all, clippy::pedantic, missing_docs, missing_debug_implementations)]
#[rustfmt::skip]
pub mod proto {
    include!("proto/drydock.driver.v1.rs");
}

/// `proto/driver.proto` as an encoded `FileDescriptorSet`, for reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("proto/descriptor.bin");

/// How long a client waits for CreateMachine, since some clouds take minutes. The call then counts as DeadlineExceeded, and
/// may still take effect.
pub const CREATE_LIMIT: Duration = Duration::from_mins(10);

/// How long a client waits for every other call.
pub const CALL_LIMIT: Duration = Duration::from_mins(2);

/// The input of a call about one machine.
#[derive(Clone)]
pub struct MachineRequest {
    /// The machine.
    pub machine: Machine,
    /// Its class.
    pub class: MachineClass,
    /// The data of the class's Secrets, merged, with the user data filled in.
    pub secret: BTreeMap<String, ByteString>,
}

/// Prints only the secret's keys, so that logs contain neither credentials nor user data.
impl Debug for MachineRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineRequest")
            .field("machine", &self.machine.metadata.name)
            .field("class", &self.class.metadata.name)
            .field("secret", &self.secret.keys())
            .finish_non_exhaustive()
    }
}

/// The plug-in for one cloud. Every call is idempotent; none may wait for a VM to boot.
#[async_trait]
pub trait Driver: Debug + Send + Sync {
    /// Creates the VM, or returns the existing VM of this machine.
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// Completes a VM after its creation. A driver without this call returns [`Code::Unimplemented`].
    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// Deletes the VM and everything that was created with it; succeeds if there is none. Returns the
    /// driver's new last known state.
    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError>;

    /// Looks up the VM. [`Code::NotFound`]: there is none; [`Code::OutOfRange`]: several;
    /// [`Code::Uninitialized`]: it is not initialised; the error contains its identity.
    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// All VMs of the class that carry this cluster's tags, with the names of their machines.
    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError>;

    /// Provides the source of classes and Secrets. Only drivers that fetch them themselves need it.
    fn attach(&self, _: Arc<dyn registration::Source>) {}

    /// Applies the class's provider spec to the machine's VM, completely or as far as possible. `last_applied` is the
    /// JSON of the spec that was applied last: settings that only it contains are removed, and settings from other
    /// sources, such as foreign tags, are kept. Called until it succeeds. A driver without this call returns
    /// [`Code::Unimplemented`].
    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let _ = (request, last_applied);
        Err(DriverError::new(Code::Unimplemented, "the driver has no UpdateMachine"))
    }

    /// Switches the machine's VM off and keeps it with its disks; succeeds if it is switched off. The returned
    /// [`VmIdentity::power`] is [`Power::Stopped`] once nothing runs on the VM; otherwise the call is repeated.
    /// [`Code::NotFound`]: there is none. A driver without this call returns [`Code::Unimplemented`].
    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let _ = request;
        Err(DriverError::new(Code::Unimplemented, "the driver has no StopMachine"))
    }

    /// Fills `class`, a MachineClass, from `provider_class`, the JSON of a class of a former, provider-specific kind
    /// (GenerateMachineClassForMigration). A driver without this call returns [`Code::Unimplemented`].
    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        let _ = (provider_class, class);
        Err(DriverError::new(
            Code::Unimplemented,
            "the driver has no GenerateMachineClassForMigration",
        ))
    }

    /// The cloud's names of the volumes behind these specs; none for volumes of other providers.
    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError>;
}
