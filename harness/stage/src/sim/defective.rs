//! Planted defects that change only the inputs of mcm: its options and the responses of its driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use defects::defect;
use mcm_api::Code;
use mcm_api::cloud::DriverError;
use mcm_driver::call::{Call, Handler, Outcome};
use mcm_driver::registration::Source;
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;

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

impl DefectiveDriver {
    /// `RepeatedCreationIsAnother`: the cloud does not recognize a repeated creation.
    async fn create(&self, mut request: Box<MachineRequest>) -> Result<Outcome, DriverError> {
        let name = name(&request);
        let tries = self.creations.with_creation(&name, |creation| {
            creation.tries += 1;
            creation.tries
        });
        if defect!(RepeatedCreationIsAnother) && tries > 1 {
            request.machine.metadata.name = Some(format!("{name}-{tries}"));
        }
        Call::Create(request).send_to(&*self.driver).await
    }

    /// `EndedVmHidesLaterOnes`: after the VM of a machine was missing once, the driver finds no later VM of the
    /// machine.
    async fn status(&self, request: Box<MachineRequest>) -> Result<Outcome, DriverError> {
        let name = name(&request);
        let found = Call::Status(request).send_to(&*self.driver).await;
        let missed = self.creations.with_creation(&name, |creation| {
            creation.missed |= creation.tries > 0 && matches!(&found, Err(error) if error.code == Code::NotFound);
            creation.missed
        });
        if defect!(EndedVmHidesLaterOnes) && missed {
            return Err(DriverError::new(Code::NotFound, "the VM of the machine has ended"));
        }
        found
    }
}

#[async_trait]
impl Handler for DefectiveDriver {
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        match call {
            Call::Create(request) => self.create(request).await,
            Call::Status(request) => self.status(request).await,
            other => other.send_to(&*self.driver).await,
        }
    }

    fn attach_source(&self, source: Arc<dyn Source>) {
        self.driver.attach(source);
    }
}
