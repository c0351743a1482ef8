//! A [`Driver`] that calls a remote driver over gRPC.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::Body;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::cloud::{DriverError, VmIdentity};
use mcm_api::{MachineClass, MachineName, ProviderId};
use tonic::client::GrpcService;
use tonic::transport::Channel;

use crate::channel::{AddressError, patient};
use crate::proto::driver_client::DriverClient;
use crate::tls::Tls;
use crate::{Driver, MachineRequest, proto, wire};

type StdError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A driver behind any gRPC service: a channel, or a generated server struct in this process.
#[derive(Clone)]
pub struct GrpcDriver<T> {
    client: DriverClient<T>,
    peer: String,
}

impl<T> fmt::Debug for GrpcDriver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcDriver")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl GrpcDriver<Channel> {
    /// A driver at `grpc://HOST:PORT` on loopback. The first call establishes the connection, and the next call after a
    /// loss establishes it again. Must be called within a Tokio runtime. The caller limits the duration of calls.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn connect(address: &str) -> Result<Self, AddressError> {
        Ok(Self::named(patient(address, None)?, address))
    }

    /// A driver at `grpcs://HOST:PORT`, like [`Self::connect`]. The files of `tls` are read for every
    /// connection.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn connect_tls(address: &str, tls: Tls) -> Result<Self, AddressError> {
        Ok(Self::named(patient(address, Some(tls))?, address))
    }
}

impl<T> GrpcDriver<T>
where
    T: GrpcService<tonic::body::Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// A driver behind `service`, usually a generated server struct in this process.
    pub fn new(service: T) -> Self {
        Self::named(service, "in this process")
    }

    fn named(service: T, peer: &str) -> Self {
        Self {
            client: DriverClient::new(service),
            peer: peer.to_owned(),
        }
    }
}

impl<T> GrpcDriver<T> {
    fn failed(&self) -> impl Fn(tonic::Status) -> DriverError {
        |status| wire::decode_error(&status, &self.peer)
    }
}

#[async_trait]
impl<T> Driver for GrpcDriver<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let request = wire::encode_request(request)?;
        let response = self
            .client
            .clone()
            .create_machine(request)
            .await
            .map_err(self.failed())?;
        Ok(wire::decode_vm(response.into_inner()))
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let request = wire::encode_request(request)?;
        let response = self
            .client
            .clone()
            .initialize_machine(request)
            .await
            .map_err(self.failed())?;
        Ok(wire::decode_vm(response.into_inner()))
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        let request = wire::encode_request(request)?;
        let response = self
            .client
            .clone()
            .delete_machine(request)
            .await
            .map_err(self.failed())?;
        Ok(response.into_inner().last_known_state)
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let request = wire::encode_request(request)?;
        let response = self
            .client
            .clone()
            .get_machine_status(request)
            .await
            .map_err(self.failed())?;
        Ok(wire::decode_vm(response.into_inner()))
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        let request = proto::ListRequest {
            class: wire::to_json("class", &class)?,
            secret: wire::encode_secret(secret),
        };
        let response = self
            .client
            .clone()
            .list_machines(request)
            .await
            .map_err(self.failed())?;
        Ok(wire::decode_vms(response.into_inner().machines))
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let request = proto::UpdateRequest {
            machine: Some(wire::encode_request(request)?),
            last_applied: last_applied.map(String::into_bytes),
        };
        let response = self.client.clone().update_machine(request).await;
        response.map(|_| ()).map_err(self.failed())
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let request = wire::encode_request(request)?;
        let response = self.client.clone().stop_machine(request).await;
        Ok(wire::decode_vm(response.map_err(self.failed())?.into_inner()))
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        let request = proto::MigrationRequest {
            provider_class: wire::to_json("provider class", &provider_class)?,
            class: wire::to_json("class", &class)?,
        };
        let response = self.client.clone().generate_machine_class(request).await;
        wire::from_json("class", &response.map_err(self.failed())?.into_inner().class)
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        let specs = specs
            .iter()
            .map(|spec| wire::to_json("persistent volume spec", spec))
            .collect::<Result<_, _>>()?;
        let request = proto::VolumesRequest {
            persistent_volume_specs: specs,
        };
        let response = self
            .client
            .clone()
            .get_volume_ids(request)
            .await
            .map_err(self.failed())?;
        Ok(response.into_inner().ids)
    }
}

#[cfg(test)]
mod tests {
    use mcm_api::Machine;
    use mcm_api::cloud::Code;

    use super::*;

    #[tokio::test]
    async fn an_unreachable_driver_is_unavailable_and_named() {
        let driver = GrpcDriver::connect("grpc://127.0.0.1:1").unwrap();
        let request = MachineRequest {
            machine: Machine::default(),
            class: MachineClass::default(),
            secret: BTreeMap::new(),
        };
        let error = driver.get_machine_status(request).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        assert!(
            error.message.contains("grpc://127.0.0.1:1") && error.message.contains("refused"),
            "{error}"
        );
    }
}
