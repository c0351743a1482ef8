//! A [`Driver`](crate::Driver) that calls a remote driver over gRPC.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::Body;
use mcm_api::cloud::DriverError;
use tonic::Response;
use tonic::client::GrpcService;
use tonic::transport::Channel;

use crate::call::{Call, Handler, Outcome};
use crate::channel::{AddressError, patient};
use crate::proto::driver_client::DriverClient;
use crate::tls::Tls;
use crate::{proto, wire};

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
impl<T> Handler for GrpcDriver<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        let mut client = self.client.clone();
        let failed = self.failed();
        match call {
            Call::Create(request) => {
                let response = client.create_machine(wire::encode_request(*request)?).await;
                response.map(vm).map_err(failed)
            }
            Call::Initialize(request) => {
                let response = client.initialize_machine(wire::encode_request(*request)?).await;
                response.map(vm).map_err(failed)
            }
            Call::Status(request) => {
                let response = client.get_machine_status(wire::encode_request(*request)?).await;
                response.map(vm).map_err(failed)
            }
            Call::Stop(request) => {
                let response = client.stop_machine(wire::encode_request(*request)?).await;
                response.map(vm).map_err(failed)
            }
            Call::Delete(request) => {
                let response = client.delete_machine(wire::encode_request(*request)?).await;
                let deleted = response.map_err(failed)?.into_inner();
                Ok(Outcome::Deleted(deleted.last_known_state))
            }
            Call::Update(request, last_applied) => {
                let request = proto::UpdateRequest {
                    machine: Some(wire::encode_request(*request)?),
                    last_applied: last_applied.map(String::into_bytes),
                };
                let response = client.update_machine(request).await;
                response.map(|_| Outcome::Updated).map_err(failed)
            }
            Call::List(class, secret) => {
                let request = proto::ListRequest {
                    class: wire::to_json("class", &class)?,
                    secret: wire::encode_secret(secret.0),
                };
                let list = client.list_machines(request).await.map_err(failed)?.into_inner();
                Ok(Outcome::List(wire::decode_vms(list.machines)))
            }
            Call::VolumeIds(specs) => {
                let request = proto::VolumesRequest {
                    persistent_volume_specs: wire::encode_specs(&specs)?,
                };
                let volumes = client.get_volume_ids(request).await.map_err(failed)?.into_inner();
                Ok(Outcome::VolumeIds(volumes.ids))
            }
            Call::GenerateClass(provider_class, class) => {
                let request = wire::encode_migration(&provider_class, &class)?;
                let generated = client.generate_machine_class(request).await.map_err(failed)?;
                let class = wire::from_json("class", &generated.into_inner().class)?;
                Ok(Outcome::Class(class))
            }
        }
    }
}

fn vm(response: Response<proto::Vm>) -> Outcome {
    Outcome::Vm(wire::decode_vm(response.into_inner()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mcm_api::cloud::Code;
    use mcm_api::{Machine, MachineClass};

    use super::*;
    use crate::{Driver, MachineRequest};

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
