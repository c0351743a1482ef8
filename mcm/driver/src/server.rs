//! Adapts any [`Driver`] to the generated gRPC server trait.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::proto::driver_server::{self, DriverServer};
use crate::{Driver, proto, wire};

/// Serves gRPC calls with a [`Driver`]. Convert it with [`DriverService::into_server`].
#[derive(Debug)]
pub struct DriverService<D> {
    driver: Arc<D>,
}

impl<D> Clone for DriverService<D> {
    fn clone(&self) -> Self {
        Self {
            driver: Arc::clone(&self.driver),
        }
    }
}

impl<D: Driver + 'static> DriverService<D> {
    /// A service over `driver`.
    pub fn new(driver: D) -> Self {
        Self {
            driver: Arc::new(driver),
        }
    }

    /// The generated server struct, to be served by a listener or called in process with
    /// [`crate::client::GrpcDriver::new`].
    pub fn into_server(self) -> DriverServer<Self> {
        DriverServer::new(self)
    }
}

#[tonic::async_trait]
impl<D: Driver + 'static> driver_server::Driver for DriverService<D> {
    async fn create_machine(&self, request: Request<proto::MachineRequest>) -> Result<Response<proto::Vm>, Status> {
        let request = wire::decode_request(request.into_inner()).map_err(wire::encode_error)?;
        let vm = self.driver.create_machine(request).await.map_err(wire::encode_error)?;
        Ok(Response::new(wire::encode_vm(vm)))
    }

    async fn initialize_machine(&self, request: Request<proto::MachineRequest>) -> Result<Response<proto::Vm>, Status> {
        let request = wire::decode_request(request.into_inner()).map_err(wire::encode_error)?;
        let vm = self
            .driver
            .initialize_machine(request)
            .await
            .map_err(wire::encode_error)?;
        Ok(Response::new(wire::encode_vm(vm)))
    }

    async fn delete_machine(
        &self,
        request: Request<proto::MachineRequest>,
    ) -> Result<Response<proto::Deleted>, Status> {
        let request = wire::decode_request(request.into_inner()).map_err(wire::encode_error)?;
        let last_known_state = self.driver.delete_machine(request).await.map_err(wire::encode_error)?;
        Ok(Response::new(proto::Deleted { last_known_state }))
    }

    async fn get_machine_status(&self, request: Request<proto::MachineRequest>) -> Result<Response<proto::Vm>, Status> {
        let request = wire::decode_request(request.into_inner()).map_err(wire::encode_error)?;
        let vm = self
            .driver
            .get_machine_status(request)
            .await
            .map_err(wire::encode_error)?;
        Ok(Response::new(wire::encode_vm(vm)))
    }

    async fn list_machines(&self, request: Request<proto::ListRequest>) -> Result<Response<proto::VmList>, Status> {
        let request = request.into_inner();
        let class = wire::from_json("class", &request.class).map_err(wire::encode_error)?;
        let secret = wire::decode_secret(request.secret);
        let machines = self
            .driver
            .list_machines(class, secret)
            .await
            .map_err(wire::encode_error)?;
        Ok(Response::new(proto::VmList {
            machines: wire::encode_vms(machines),
        }))
    }

    async fn update_machine(&self, request: Request<proto::UpdateRequest>) -> Result<Response<proto::Updated>, Status> {
        let proto::UpdateRequest { machine, last_applied } = request.into_inner();
        let request = wire::decode_request(machine.unwrap_or_default()).map_err(wire::encode_error)?;
        let last_applied = last_applied.map(|spec| wire::text("last_applied", spec)).transpose();
        let last_applied = last_applied.map_err(wire::encode_error)?;
        self.driver
            .update_machine(request, last_applied)
            .await
            .map_err(wire::encode_error)?;
        Ok(Response::new(proto::Updated {}))
    }

    async fn stop_machine(&self, request: Request<proto::MachineRequest>) -> Result<Response<proto::Vm>, Status> {
        let request = wire::decode_request(request.into_inner()).map_err(wire::encode_error)?;
        let vm = self.driver.stop_machine(request).await.map_err(wire::encode_error)?;
        Ok(Response::new(wire::encode_vm(vm)))
    }

    async fn generate_machine_class(
        &self,
        request: Request<proto::MigrationRequest>,
    ) -> Result<Response<proto::GeneratedClass>, Status> {
        let (provider_class, class) = wire::decode_migration(request.get_ref()).map_err(wire::encode_error)?;
        let filled = self.driver.generate_machine_class(provider_class, class).await;
        let class = wire::to_json("class", &filled.map_err(wire::encode_error)?).map_err(wire::encode_error)?;
        Ok(Response::new(proto::GeneratedClass { class }))
    }

    async fn get_volume_ids(
        &self,
        request: Request<proto::VolumesRequest>,
    ) -> Result<Response<proto::VolumeIds>, Status> {
        let specs = wire::decode_specs(&request.get_ref().persistent_volume_specs).map_err(wire::encode_error)?;
        let ids = self.driver.get_volume_ids(specs).await.map_err(wire::encode_error)?;
        Ok(Response::new(proto::VolumeIds { ids }))
    }
}

#[cfg(test)]
mod tests;
