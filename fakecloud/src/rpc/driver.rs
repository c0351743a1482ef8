//! The driver contract over the model. The effect commits when the call arrives; the reply waits
//! for as long as the model says.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::MachineClass;
use mcm_api::cloud::{DriverError, VmIdentity};
use mcm_driver::{Driver, MachineRequest};

use crate::Fakecloud;
use crate::model::{Cloud, Reply};

/// A driver that calls a fake cloud in this process.
#[derive(Clone, Debug)]
pub struct FakeDriver {
    cloud: Fakecloud,
}

impl FakeDriver {
    pub(crate) fn new(cloud: Fakecloud) -> Self {
        Self { cloud }
    }

    async fn call<T>(&self, call: impl FnOnce(&mut Cloud, Timestamp) -> Reply<T>) -> Result<T, DriverError> {
        let Reply { result, delay } = self.cloud.step(call);
        if !delay.is_zero() {
            self.cloud.clock().sleep(delay).await;
        }
        result
    }
}

#[async_trait]
impl Driver for FakeDriver {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call(|cloud, now| cloud.create_machine(&request, now)).await
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call(|cloud, now| cloud.initialize_machine(&request, now)).await
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        self.call(|cloud, now| cloud.delete_machine(&request, now)).await
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.call(|cloud, now| cloud.machine_status(&request, now)).await
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<String, String>, DriverError> {
        self.call(|cloud, now| cloud.list_machines(&class, &secret, now)).await
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        self.call(|cloud, now| cloud.volume_ids(&specs, now)).await
    }
}
