//! The VMs of machines, as a remediation sees them, over the cloud's control API.

use tonic::Code;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};

use crate::proto;
use crate::proto::cloud_client::CloudClient;

/// The state of a machine's VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmPower {
    /// There is none.
    Absent,
    /// It runs, or boots.
    Running,
    /// It is stopped.
    Stopped,
    /// It is between two states.
    Changing,
}

/// A command that the cloud rejects.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {}", source.message())]
pub struct VmError {
    /// The command.
    command: &'static str,
    /// The cause.
    source: Box<tonic::Status>,
}

/// The conditions of a Node that a new disk ends.
const CONDITIONS: [&str; 3] = ["DiskPressure", "ReadonlyFilesystem", "KernelDeadlock"];

/// The commands of a remediation.
pub trait Vms: Send + Sync {
    /// The state of the machine's VM.
    fn state(&self, namespace: &str, machine: &str) -> impl Future<Output = Result<VmPower, VmError>> + Send;
    /// Power-cycles the running VM.
    fn reboot(&self, namespace: &str, machine: &str) -> impl Future<Output = Result<(), VmError>> + Send;
    /// Stops the VM.
    fn stop(&self, namespace: &str, machine: &str) -> impl Future<Output = Result<(), VmError>> + Send;
    /// Starts the stopped VM.
    fn start(&self, namespace: &str, machine: &str) -> impl Future<Output = Result<(), VmError>> + Send;
    /// Cleans the stopped VM, so that its kubelet has no fault any more, and starts it.
    fn rebuild(&self, namespace: &str, machine: &str) -> impl Future<Output = Result<(), VmError>> + Send;
}

/// VMs over the control API.
#[derive(Clone, Debug)]
pub struct ControlledVms<T>(CloudClient<T>);

impl<T> ControlledVms<T>
where
    T: GrpcService<Body> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    /// VMs over a gRPC service: a channel, or the server in the same process.
    pub fn new(service: T) -> Self {
        Self(CloudClient::new(service))
    }
}

fn reference(namespace: &str, machine: &str) -> proto::VmReference {
    proto::VmReference {
        by: Some(proto::vm_reference::By::Machine(format!("{namespace}/{machine}"))),
    }
}

fn rejected(command: &'static str) -> impl Fn(tonic::Status) -> VmError {
    move |status| VmError {
        command,
        source: Box::new(status),
    }
}

impl<T> Vms for ControlledVms<T>
where
    T: GrpcService<Body> + Clone + Send + Sync,
    T::Future: Send,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    async fn state(&self, namespace: &str, machine: &str) -> Result<VmPower, VmError> {
        let vm = match self.0.clone().get_vm(reference(namespace, machine)).await {
            Ok(vm) => vm.into_inner(),
            Err(status) if status.code() == Code::NotFound => return Ok(VmPower::Absent),
            Err(status) => return Err(rejected("GetVm")(status)),
        };
        Ok(match vm.state() {
            proto::VmState::Running => VmPower::Running,
            proto::VmState::Stopped => VmPower::Stopped,
            proto::VmState::Terminated => VmPower::Absent,
            _ => VmPower::Changing,
        })
    }

    async fn reboot(&self, namespace: &str, machine: &str) -> Result<(), VmError> {
        // A boot starts the kubelet. First, so that a failure here does not repeat the reboot.
        let reply = self.0.clone().start_kubelet(reference(namespace, machine)).await;
        reply.map(drop).map_err(rejected("StartKubelet"))?;
        let reply = self.0.clone().reboot_vm(reference(namespace, machine)).await;
        reply.map(drop).map_err(rejected("RebootVm"))
    }

    async fn stop(&self, namespace: &str, machine: &str) -> Result<(), VmError> {
        let reply = self.0.clone().stop_vm(reference(namespace, machine)).await;
        reply.map(drop).map_err(rejected("StopVm"))
    }

    async fn start(&self, namespace: &str, machine: &str) -> Result<(), VmError> {
        let reply = self.0.clone().start_vm(reference(namespace, machine)).await;
        reply.map(drop).map_err(rejected("StartVm"))
    }

    async fn rebuild(&self, namespace: &str, machine: &str) -> Result<(), VmError> {
        let request = proto::MendKubeletRequest {
            vm: Some(reference(namespace, machine)),
            kinds: Vec::new(),
        };
        let reply = self.0.clone().mend_kubelet(request).await;
        reply.map(drop).map_err(rejected("MendKubelet"))?;
        for type_ in CONDITIONS {
            let request = proto::ClearNodeConditionRequest {
                vm: Some(reference(namespace, machine)),
                r#type: type_.to_owned(),
            };
            match self.0.clone().clear_node_condition(request).await {
                // The condition was not set.
                Err(status) if status.code() == Code::InvalidArgument => {}
                reply => reply.map(drop).map_err(rejected("ClearNodeCondition"))?,
            }
        }
        let reply = self.0.clone().start_kubelet(reference(namespace, machine)).await;
        reply.map(drop).map_err(rejected("StartKubelet"))?;
        self.start(namespace, machine).await
    }
}
