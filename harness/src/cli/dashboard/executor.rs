//! Performs the steps of faults with the clients of the world.

use apiserver::faults::Faults;
use dashboard::{Executor, PerformError};
use futures::FutureExt;
use futures::future::BoxFuture;
use scenario::step::{CloudRequest, Request};
use scenario::{Step, Timeouts};
use stage::cloud::{CloudClient, CloudError};

use super::crash;
use super::processes::{ProcessChange, Processes};

/// The clients of the world.
#[derive(Clone, Debug)]
pub(super) struct WorldExecutor {
    pub(super) cloud: CloudClient,
    /// The namespace of the Machines.
    pub(super) namespace: String,
    pub(super) timeouts: Timeouts,
    /// The fault rules of the API server; `None`: it is not one of drydock.
    pub(super) faults: Option<Faults>,
    pub(super) processes: Processes,
}

impl Executor for WorldExecutor {
    fn perform(&self, step: Step, vm: Option<String>) -> BoxFuture<'static, Result<(), PerformError>> {
        let executor = self.clone();
        async move { executor.execute(&step, vm.as_deref()).await }.boxed()
    }
}

impl WorldExecutor {
    async fn execute(&self, step: &Step, vm: Option<&str>) -> Result<(), PerformError> {
        match step.request() {
            Request::Cloud(request) => self.change_cloud(request, vm.unwrap_or_default(), step).await,
            Request::AddApiFault(fault) => {
                let faults = self
                    .faults
                    .as_ref()
                    .ok_or_else(|| unsupported(step, "its API server has no fault rules"))?;
                faults
                    .add(fault.rule.clone())
                    .map_err(|error| PerformError::Refused(error.to_string()))
            }
            Request::LiftApiFault(rule) => {
                let faults = self
                    .faults
                    .as_ref()
                    .ok_or_else(|| unsupported(step, "its API server has no fault rules"))?;
                // A rule that was removed in another way is gone, as it should be.
                faults.remove(rule);
                Ok(())
            }
            Request::Process(request) => {
                let change = ProcessChange::Action(request.action);
                self.processes.change(request.name, change).await
            }
            Request::CrashNext(next) => {
                let faults = self
                    .faults
                    .clone()
                    .ok_or_else(|| unsupported(step, "its API server has no fault rules"))?;
                crash::arm(self.processes.clone(), faults, *next)
            }
            Request::Pause(pause) => {
                let change = ProcessChange::Pause(pause.time.value(&self.timeouts));
                self.processes.change(pause.process, change).await
            }
            _ => Err(unsupported(step, "the dashboard has no such fault")),
        }
    }

    async fn change_cloud(&self, request: CloudRequest<'_>, vm: &str, step: &Step) -> Result<(), PerformError> {
        let done: Result<(), CloudError> = match request {
            CloudRequest::Inject(fault) => self.cloud.inject(fault, &self.timeouts).await,
            CloudRequest::Lift(rule) => self.cloud.lift(rule).await.map(drop),
            CloudRequest::FailZone(fail) => self.cloud.fail_zone(fail, &self.timeouts).await,
            CloudRequest::RestoreZone(zone) => self.cloud.restore_zone(zone).await,
            CloudRequest::Vm(step) => self.cloud.vm_action(vm, step, &self.timeouts).await,
            CloudRequest::Kubelet(action) => self.cloud.kubelet_action(vm, action).await,
            CloudRequest::CreateVm(create) => {
                self.cloud
                    .create_vm(&self.namespace, &create.machine, create.tagged)
                    .await
            }
            CloudRequest::SlowCreation(_) => return Err(unsupported(step, "the dashboard has no such fault")),
        };
        done.map_err(|error| PerformError::Refused(error.to_string()))
    }
}

fn unsupported(step: &Step, reason: &'static str) -> PerformError {
    PerformError::Unsupported {
        what: step.description(),
        reason,
    }
}
