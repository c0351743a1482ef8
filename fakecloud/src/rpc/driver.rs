//! The driver contract over the model. The effect commits when the call arrives; the reply is delayed as the model
//! requires.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_api::{MachineClass, MachineName, ProviderId};
use mcm_driver::{Driver, MachineRequest};

use super::migration::{self, PROVIDER};
use crate::Fakecloud;
use crate::model::{Cloud, Creation, Reply};

tokio::task_local! {
    static CLIENT: String;
}

/// Performs driver calls under the name of `client`, for the log and for fault rules.
pub async fn calling_as<F: Future>(client: String, calls: F) -> F::Output {
    CLIENT.scope(client, calls).await
}

/// The name of the current call's client; empty: none.
fn client_of_call() -> String {
    CLIENT.try_with(Clone::clone).unwrap_or_default()
}

/// A driver that calls a fake cloud in this process.
#[derive(Clone, Debug)]
pub struct FakeDriver {
    cloud: Fakecloud,
}

impl FakeDriver {
    pub(crate) fn new(cloud: Fakecloud) -> Self {
        Self { cloud }
    }

    async fn call<T>(&self, call: impl FnOnce(&mut Cloud, &str, Timestamp) -> Reply<T>) -> Result<T, DriverError> {
        let client = client_of_call();
        let reply = self.cloud.step(|cloud, now| call(cloud, &client, now));
        self.answer(reply).await
    }

    async fn answer<T>(&self, Reply { result, delay }: Reply<T>) -> Result<T, DriverError> {
        if !delay.is_zero() {
            self.cloud.clock().sleep(delay).await;
        }
        result
    }
}

/// Refuses the classes of other providers. Tools that call the cloud without a controller may leave the provider out.
fn check_provider(class: &MachineClass) -> Result<(), DriverError> {
    match class.provider.as_deref() {
        None | Some("" | PROVIDER) => Ok(()),
        Some(other) => Err(DriverError::new(
            Code::InvalidArgument,
            format!(
                "the machine class has provider {other:?}, and this driver serves {PROVIDER:?}: correct the provider"
            ),
        )),
    }
}

#[async_trait]
impl Driver for FakeDriver {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_provider(&request.class)?;
        let client = client_of_call();
        let begun = self
            .cloud
            .step(|cloud, now| cloud.begin_creation(&request, &client, now));
        let ticket = match begun {
            Creation::Done(reply) => return self.answer(reply).await,
            Creation::Later(ticket) => ticket,
        };
        self.cloud.clock().sleep_until(ticket.due).await;
        let ended = self.cloud.step(|cloud, now| cloud.end_creation(ticket, now));
        match ended {
            Some(reply) => self.answer(reply).await,
            None => Err(DriverError::new(
                Code::Internal,
                "the creation was in progress and has no result",
            )),
        }
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_provider(&request.class)?;
        self.call(|cloud, client, now| cloud.initialize_machine(&request, client, now))
            .await
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        check_provider(&request.class)?;
        self.call(|cloud, client, now| cloud.delete_machine(&request, client, now))
            .await
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_provider(&request.class)?;
        self.call(|cloud, client, now| cloud.machine_status(&request, client, now))
            .await
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        check_provider(&class)?;
        self.call(|cloud, client, now| cloud.list_machines(&class, &secret, client, now))
            .await
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        migration::fill(&provider_class, class)
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        self.call(|cloud, client, now| cloud.volume_ids(&specs, client, now))
            .await
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        check_provider(&request.class)?;
        let last_applied = last_applied.as_deref();
        self.call(|cloud, client, now| cloud.update_machine(&request, last_applied, client, now))
            .await
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_provider(&request.class)?;
        self.call(|cloud, client, now| cloud.stop_machine(&request, client, now))
            .await
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::its_own(Some("fakecloud"), true)]
    #[case::none(None, true)]
    #[case::empty(Some(""), true)]
    #[case::another(Some("aws"), false)]
    fn classes_of_other_providers_are_refused(#[case] provider: Option<&str>, #[case] accepted: bool) {
        let class = MachineClass {
            provider: provider.map(str::to_owned),
            ..MachineClass::default()
        };
        let code = check_provider(&class).map_err(|error| error.code);
        assert_eq!(code, if accepted { Ok(()) } else { Err(Code::InvalidArgument) });
    }
}
