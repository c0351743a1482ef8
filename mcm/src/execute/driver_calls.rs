//! Driver calls, with metrics and timeouts.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use kube::ResourceExt;
use mcm_api::{Code, DriverError, MachineClass};
use mcm_core::machine::{Answer, CallKind, CloudCall};
use mcm_driver::{CALL_LIMIT, CREATE_LIMIT, MachineRequest};

use super::ActionExecutor;

impl ActionExecutor {
    /// The cloud's names of volumes; empty if the driver returns none. A drain does not wait for the detachment of such
    /// a volume.
    pub(super) async fn volume_ids(
        &self,
        volumes: &BTreeMap<String, PersistentVolumeSpec>,
    ) -> BTreeMap<String, String> {
        let calls = volumes.iter().map(|(name, spec)| async move {
            let call = self.driver.get_volume_ids(vec![spec.clone()]);
            let ids = match tokio::time::timeout(CALL_LIMIT, call).await {
                Ok(Ok(ids)) => ids,
                Ok(Err(error)) => {
                    tracing::info!(volume = name, %error, "the driver did not name the volume");
                    Vec::new()
                }
                Err(_) => {
                    tracing::info!(volume = name, "the driver did not name the volume in time");
                    Vec::new()
                }
            };
            (name.clone(), ids.into_iter().next().unwrap_or_default())
        });
        futures::future::join_all(calls).await.into_iter().collect()
    }

    pub(super) async fn call(&self, call: &CloudCall) -> Answer {
        let request = MachineRequest {
            machine: call.machine.clone(),
            class: call.class.clone(),
            secret: call.secret.0.clone(),
        };
        let driver = &self.driver;
        match call.kind {
            CallKind::Status => Answer::Status(self.timed(call, driver.get_machine_status(request)).await),
            CallKind::Create => Answer::Create(self.timed(call, driver.create_machine(request)).await),
            CallKind::Initialize => Answer::Initialize(self.timed(call, driver.initialize_machine(request)).await),
            CallKind::Stop => Answer::Stop(self.timed(call, driver.stop_machine(request)).await),
            CallKind::Delete => Answer::Delete(self.timed(call, driver.delete_machine(request)).await),
            CallKind::DeleteStale => Answer::DeleteStale(self.timed(call, driver.delete_machine(request)).await),
            CallKind::List => Answer::List(
                self.timed(call, driver.list_machines(request.class, request.secret))
                    .await,
            ),
            CallKind::Update => Answer::Update {
                spec: call.class.provider_spec.to_string(),
                result: self
                    .timed(call, driver.update_machine(request, call.last_applied.clone()))
                    .await,
            },
        }
    }

    /// Performs a call about a machine, with metrics and a timeout.
    async fn timed<T>(
        &self,
        call: &CloudCall,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let limit = match call.kind {
            CallKind::Create => CREATE_LIMIT,
            _ => CALL_LIMIT,
        };
        self.limited_call(
            &call.class,
            operation(call.kind),
            &call.machine.name_any(),
            limit,
            answer,
        )
        .await
    }

    /// Performs a call about a class, or about a VM without a Machine, with metrics and a timeout.
    pub(crate) async fn timed_call<T>(
        &self,
        class: &MachineClass,
        operation: &'static str,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        self.limited_call(class, operation, "", CALL_LIMIT, answer).await
    }

    async fn limited_call<T>(
        &self,
        class: &MachineClass,
        operation: &'static str,
        machine: &str,
        limit: Duration,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let started = self.clock.now();
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let text = format!("the driver did not answer {operation} within {} s", limit.as_secs());
            Err(DriverError::new(Code::DeadlineExceeded, text))
        });
        let took = Duration::try_from(self.clock.now().duration_since(started)).unwrap_or_default();
        let failure = answer.as_ref().err();
        let provider = class.provider.as_deref().unwrap_or_default();
        self.metrics
            .observe_call(provider, operation, took, failure.map(|error| error.code));
        match failure {
            None => tracing::info!(machine, operation, "the driver succeeded"),
            Some(error) => tracing::info!(machine, operation, %error, "the driver failed"),
        }
        answer
    }
}

fn operation(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Status => "GetMachineStatus",
        CallKind::Create => "CreateMachine",
        CallKind::Initialize => "InitializeMachine",
        CallKind::Delete | CallKind::DeleteStale => "DeleteMachine",
        CallKind::List => "ListMachines",
        CallKind::Update => "UpdateMachine",
        CallKind::Stop => "StopMachine",
    }
}
