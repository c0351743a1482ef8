//! Planted defects that change only the inputs of mcm: its options and the responses of its driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use defects::defect;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::cloud::{DriverError, VmIdentity};
use mcm_api::{Code, MachineClass, MachineName, ProviderId};
use mcm_driver::registration::Source;
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;
use serde_json::Value;

/// Applies planted defects to the options.
pub(super) fn options(mut options: mcm::Options) -> mcm::Options {
    if defect!(LeadsWithoutLease) {
        options.leader_election.enabled = false;
    }
    options
}

/// The creations that the defective drivers of all replicas have recorded. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Creations(Arc<Mutex<BTreeMap<String, Creation>>>);

/// The creation of one machine's VM.
#[derive(Clone, Copy, Debug, Default)]
struct Creation {
    /// The number of requests.
    tries: u32,
    /// Whether a status request after the creation did not find the VM.
    missed: bool,
}

impl Creations {
    /// Wraps the driver in a defective one if such a defect is planted.
    pub(super) fn driver(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        match defect!(RepeatedCreationIsAnother | EndedVmHidesLaterOnes) {
            true => Arc::new(DefectiveDriver {
                driver,
                creations: self.clone(),
            }),
            false => driver,
        }
    }

    fn with_creation<T>(&self, machine: &str, update: impl FnOnce(&mut Creation) -> T) -> T {
        update(self.0.lock().entry(machine.to_owned()).or_default())
    }
}

#[derive(Debug)]
struct DefectiveDriver {
    driver: Arc<dyn Driver>,
    creations: Creations,
}

fn name(request: &MachineRequest) -> String {
    request.machine.metadata.name.clone().unwrap_or_default()
}

#[async_trait]
impl Driver for DefectiveDriver {
    /// `RepeatedCreationIsAnother`: the cloud does not recognize a repeated creation.
    async fn create_machine(&self, mut request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let name = name(&request);
        let tries = self.creations.with_creation(&name, |creation| {
            creation.tries += 1;
            creation.tries
        });
        if defect!(RepeatedCreationIsAnother) && tries > 1 {
            request.machine.metadata.name = Some(format!("{name}-{tries}"));
        }
        self.driver.create_machine(request).await
    }

    /// `EndedVmHidesLaterOnes`: after the VM of a machine was missing once, the driver finds no later VM of the
    /// machine.
    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let name = name(&request);
        let found = self.driver.get_machine_status(request).await;
        let missed = self.creations.with_creation(&name, |creation| {
            creation.missed |= creation.tries > 0 && matches!(&found, Err(error) if error.code == Code::NotFound);
            creation.missed
        });
        if defect!(EndedVmHidesLaterOnes) && missed {
            return Err(DriverError::new(Code::NotFound, "the VM of the machine has ended"));
        }
        found
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.driver.initialize_machine(request).await
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        self.driver.delete_machine(request).await
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        self.driver.list_machines(class, secret).await
    }

    fn attach(&self, source: Arc<dyn Source>) {
        self.driver.attach(source);
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        self.driver.update_machine(request, last_applied).await
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.driver.stop_machine(request).await
    }

    async fn generate_machine_class(
        &self,
        provider_class: Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        self.driver.generate_machine_class(provider_class, class).await
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        self.driver.get_volume_ids(specs).await
    }
}
