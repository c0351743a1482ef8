//! The contract with clouds: the [`Driver`] trait and its gRPC form, as client and as server.
//!
//! What lives here: the calls, their requests, and adapters between trait and wire, and connections. What must
//! not: when a call is made or repeated (that is decided in `mcm-core`), and any cloud.

pub mod channel;
pub mod client;
pub mod incoming;
pub mod of_provider;
pub mod registration;
pub mod server;
pub mod tls;
mod wire;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
pub use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_api::{Machine, MachineClass, MachineName, ProviderId};

/// The generated messages, client and server of `proto/driver.proto`.
#[allow(clippy::all, clippy::pedantic, missing_docs, missing_debug_implementations)]
#[rustfmt::skip]
pub mod proto {
    include!("proto/drydock.driver.v1.rs");
}

/// `proto/driver.proto` as an encoded `FileDescriptorSet`, for reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("proto/descriptor.bin");

/// What a call about one machine is given.
#[derive(Clone)]
pub struct MachineRequest {
    /// The machine.
    pub machine: Machine,
    /// Its class.
    pub class: MachineClass,
    /// The data of the class's Secrets, merged, with the user data filled in.
    pub secret: BTreeMap<String, ByteString>,
}

/// Shows the secret's keys only: credentials and user data stay out of logs.
impl Debug for MachineRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineRequest")
            .field("machine", &self.machine.metadata.name)
            .field("class", &self.class.metadata.name)
            .field("secret", &self.secret.keys())
            .finish_non_exhaustive()
    }
}

/// The plug-in for one cloud. Every call can be repeated; none may wait for a VM to boot.
#[async_trait]
pub trait Driver: Debug + Send + Sync {
    /// Makes the VM, or returns the one that this machine has already.
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// Finishes a VM after its creation. A driver without it answers [`Code::Unimplemented`].
    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// Deletes the VM and all that was made with it; succeeds when there is none. Returns the
    /// driver's memory.
    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError>;

    /// Looks for the VM. [`Code::NotFound`]: none; [`Code::OutOfRange`]: several;
    /// [`Code::Uninitialized`]: one that is not initialised, which the error names.
    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError>;

    /// All VMs of the class that carry this cluster's tags, with the names of their machines.
    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError>;

    /// Hands over where classes and Secrets are found. Of use to drivers that fetch them by themselves alone.
    fn attach(&self, _: Arc<dyn registration::Source>) {}
    /// Applies the class's provider spec to the machine's VM, all of it or as much as it can. `last_applied` is the JSON of
    /// the spec that was applied last, for what has to go; what stems from no provider spec, such as other people's tags,
    /// stays. Called again until it succeeds. A driver without it answers [`Code::Unimplemented`].
    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let _ = (request, last_applied);
        Err(DriverError::new(Code::Unimplemented, "the driver has no UpdateMachine"))
    }

    /// Fills `class`, a MachineClass, from `provider_class`, the JSON of a class of the provider's own kind, as was usual
    /// once (GenerateMachineClassForMigration). A driver without it answers [`Code::Unimplemented`].
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

    /// The cloud's names of the volumes behind these specs; nothing for foreign ones.
    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError>;
}
