//! Restricts a driver to the classes of one provider, so that it receives no other provider's classes and Secrets.

use std::sync::Arc;

use async_trait::async_trait;
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};

use crate::Driver;
use crate::call::{Call, Handler, Outcome};
use crate::source::Source;

/// A driver that serves the classes of one provider. Calls about others fail with [`Code::InvalidArgument`].
#[derive(Debug)]
pub struct OfProvider<D> {
    provider: String,
    driver: D,
}

impl<D> OfProvider<D> {
    /// Restricts `driver` to classes with this `provider`.
    pub fn new(provider: &str, driver: D) -> Self {
        Self {
            provider: provider.to_owned(),
            driver,
        }
    }

    fn check(&self, class: &MachineClass) -> Result<(), DriverError> {
        let provider = class.provider.as_deref().unwrap_or_default();
        if provider == self.provider {
            return Ok(());
        }
        let name = class.metadata.name.as_deref().unwrap_or_default();
        Err(DriverError::new(
            Code::InvalidArgument,
            format!(
                "the machine class {name} has provider {provider:?}, and this driver serves {:?}: \
                 correct the class's provider, or run a controller for that provider",
                self.provider
            ),
        ))
    }
}

#[async_trait]
impl<D: Driver> Handler for OfProvider<D> {
    /// Volumes have no class: the driver returns the names of its own volumes. A migration fills in the class's
    /// provider, which must be the driver's own.
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        if let Some(class) = call.class() {
            self.check(class)?;
        }
        let outcome = call.send_to(&self.driver).await?;
        if let Outcome::Class(filled) = &outcome {
            self.check(filled)?;
        }
        Ok(outcome)
    }

    fn attach_source(&self, source: Arc<dyn Source>) {
        self.driver.attach(source);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::PersistentVolumeSpec;
    use mcm_api::cloud::VmIdentity;
    use mcm_api::{Machine, MachineName, ProviderId};
    use serde_json::json;

    use super::*;
    use crate::MachineRequest;

    /// A driver whose calls all succeed.
    #[derive(Debug)]
    struct AlwaysSucceeds;

    #[async_trait]
    impl Driver for AlwaysSucceeds {
        async fn create_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
            Ok(VmIdentity::default())
        }
        async fn initialize_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
            Ok(VmIdentity::default())
        }
        async fn delete_machine(&self, _: MachineRequest) -> Result<Option<String>, DriverError> {
            Ok(None)
        }
        async fn get_machine_status(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
            Ok(VmIdentity::default())
        }
        async fn list_machines(
            &self,
            _: MachineClass,
            _: BTreeMap<String, ByteString>,
        ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
            Ok(BTreeMap::new())
        }
        async fn update_machine(&self, _: MachineRequest, _: Option<String>) -> Result<(), DriverError> {
            Ok(())
        }
        async fn stop_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
            Ok(VmIdentity::default())
        }
        async fn generate_machine_class(
            &self,
            filled: serde_json::Value,
            _: MachineClass,
        ) -> Result<MachineClass, DriverError> {
            Ok(serde_json::from_value(filled).unwrap())
        }
        async fn get_volume_ids(&self, _: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
            Ok(Vec::new())
        }
    }

    fn class(provider: &str) -> MachineClass {
        MachineClass {
            provider: Some(provider.to_owned()),
            ..MachineClass::default()
        }
    }

    /// Which calls about a class of that provider reach the driver.
    async fn forwarded_calls(provider: &str) -> Vec<bool> {
        let driver = OfProvider::new("own", AlwaysSucceeds);
        let request = || MachineRequest {
            machine: Machine::default(),
            class: class(provider),
            secret: BTreeMap::new(),
        };
        let filled = json!({ "metadata": {}, "provider": provider, "providerSpec": {} });
        vec![
            driver.create_machine(request()).await.is_ok(),
            driver.initialize_machine(request()).await.is_ok(),
            driver.delete_machine(request()).await.is_ok(),
            driver.get_machine_status(request()).await.is_ok(),
            driver.list_machines(class(provider), BTreeMap::new()).await.is_ok(),
            driver.update_machine(request(), None).await.is_ok(),
            driver.stop_machine(request()).await.is_ok(),
            driver
                .generate_machine_class(filled, MachineClass::default())
                .await
                .is_ok(),
        ]
    }

    #[tokio::test]
    async fn a_driver_receives_only_calls_for_classes_of_its_provider() {
        assert_eq!(forwarded_calls("own").await, [true; 8]);
        assert_eq!(forwarded_calls("another").await, [false; 8]);
        assert_eq!(forwarded_calls("").await, [false; 8]);
    }
}
