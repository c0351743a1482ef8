//! The calls of a job.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use mcm_api::cloud::Power;
use mcm_api::{Code, DriverError, GoDuration, Machine, MachineName, ProviderId, VmIdentity, keys};
use mcm_driver::{CALL_LIMIT, CREATE_LIMIT, Driver, MachineRequest};
use request_files::{Data, redact};

use super::error::VmError;
use super::input::{Action, Job};

/// The result of a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// A VM exists.
    Vm {
        verb: &'static str,
        machine: String,
        vm: VmIdentity,
    },
    /// The VMs of a class.
    List {
        class: String,
        vms: BTreeMap<ProviderId, MachineName>,
    },
    /// There is no VM any more.
    Deleted {
        machine: String,
        /// `None`: the driver knew no VM.
        provider_id: Option<String>,
        /// The driver's new state.
        last_known_state: Option<String>,
    },
}

/// Performs the calls of a job; each may take `timeout`.
pub(super) fn perform(
    driver: &dyn Driver,
    job: Job,
    timeout: Option<Duration>,
) -> BoxFuture<'_, Result<Outcome, VmError>> {
    Box::pin(outcome(driver, job, timeout))
}

async fn outcome(driver: &dyn Driver, job: Job, timeout: Option<Duration>) -> Result<Outcome, VmError> {
    let calls = Calls {
        driver,
        secret: job.request.secret.clone(),
        timeout,
    };
    let machine = job.request.machine.metadata.name.clone().unwrap_or_default();
    let request = job.request;
    match job.action {
        Action::Create => {
            let vm = calls
                .within("CreateMachine", CREATE_LIMIT, driver.create_machine(request))
                .await?;
            Ok(Outcome::Vm {
                verb: "created",
                machine,
                vm,
            })
        }
        Action::Status => {
            let vm = calls.status(request).await.map_err(with_vm)?;
            Ok(Outcome::Vm {
                verb: "found",
                machine,
                vm,
            })
        }
        Action::Initialize => {
            let request = calls.located(request).await?;
            let vm = calls
                .within("InitializeMachine", CALL_LIMIT, driver.initialize_machine(request))
                .await?;
            Ok(Outcome::Vm {
                verb: "initialized",
                machine,
                vm,
            })
        }
        Action::Stop => {
            let request = calls.located(request).await?;
            let vm = calls
                .within("StopMachine", CALL_LIMIT, driver.stop_machine(request))
                .await?;
            let verb = match vm.power {
                Some(Power::Stopped) => "stopped",
                Some(Power::Running) | None => "stopping; repeat the command",
            };
            Ok(Outcome::Vm { verb, machine, vm })
        }
        Action::List => {
            let class = request.class.metadata.name.clone().unwrap_or_default();
            let vms = driver.list_machines(request.class, request.secret);
            let vms = calls.within("ListMachines", CALL_LIMIT, vms).await?;
            Ok(Outcome::List { class, vms })
        }
        Action::Delete => calls.delete(request, machine).await,
    }
}

/// Calls with a timeout, whose errors contain no secret data.
struct Calls<'a> {
    driver: &'a dyn Driver,
    secret: Data,
    timeout: Option<Duration>,
}

impl Calls<'_> {
    async fn status(&self, request: MachineRequest) -> Result<VmIdentity, VmError> {
        self.within("GetMachineStatus", CALL_LIMIT, self.driver.get_machine_status(request))
            .await
    }

    /// A driver deletes everything of a machine with a uid, and of another one only the VM of its provider id, which
    /// must therefore be known.
    async fn delete(&self, request: MachineRequest, machine: String) -> Result<Outcome, VmError> {
        let located = match request.machine.metadata.uid {
            Some(_) => Ok(request),
            None => self.located(request).await,
        };
        let request = match located {
            Ok(request) => request,
            Err(error) if has_code(&error, &[Code::NotFound]) => {
                return Ok(Outcome::Deleted {
                    machine,
                    provider_id: None,
                    last_known_state: None,
                });
            }
            Err(error) if has_code(&error, &[Code::Unimplemented, Code::OutOfRange]) => {
                return Err(with_hint(error, "give the VM's --provider-id, which mcm vm list shows"));
            }
            Err(error) => return Err(error),
        };
        let provider_id = Some(request.machine.spec.provider_id.clone()).filter(|id| !id.is_empty());
        let deleted = self.driver.delete_machine(request);
        let last_known_state = self.within("DeleteMachine", CALL_LIMIT, deleted).await?;
        Ok(Outcome::Deleted {
            machine,
            provider_id,
            last_known_state,
        })
    }

    /// The request with the VM's provider id, node name and state, as the controller records them in the Machine.
    async fn located(&self, mut request: MachineRequest) -> Result<MachineRequest, VmError> {
        if !request.machine.spec.provider_id.is_empty() {
            return Ok(request);
        }
        let vm = match self.status(request.clone()).await {
            Err(VmError::Call { error, .. }) if error.code == Code::Uninitialized && error.vm.is_some() => {
                error.vm.map(|vm| *vm).unwrap_or_default()
            }
            result => result?,
        };
        record(&mut request.machine, vm);
        Ok(request)
    }

    async fn within<T>(
        &self,
        call: &'static str,
        default: Duration,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, VmError> {
        let limit = self.timeout.unwrap_or(default);
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(DriverError::new(
                Code::DeadlineExceeded,
                format!(
                    "the driver did not answer within {}: check it, or choose a longer --timeout; the call may still take effect",
                    GoDuration(limit)
                ),
            ))
        });
        answer.map_err(|mut error| {
            error.message = redact(&error.message, &self.secret, "");
            VmError::Call {
                call,
                error: Box::new(error),
            }
        })
    }
}

fn record(machine: &mut Machine, vm: VmIdentity) {
    machine.spec.provider_id = vm.provider_id.map(String::from).unwrap_or_default();
    if let Some(node) = vm.node_name {
        let labels = machine.metadata.labels.get_or_insert_default();
        labels.insert(keys::NODE_LABEL.to_owned(), node.into());
    }
    if let Some(state) = vm.last_known_state {
        machine.status.last_known_state = state;
    }
}

fn has_code(error: &VmError, codes: &[Code]) -> bool {
    matches!(error, VmError::Call { error, .. } if codes.contains(&error.code))
}

fn with_hint(error: VmError, hint: &str) -> VmError {
    match error {
        VmError::Call { call, mut error } => {
            error.message = format!("{}; {hint}", error.message);
            VmError::Call { call, error }
        }
        other => other,
    }
}

/// An error about a VM that exists names the VM.
fn with_vm(error: VmError) -> VmError {
    let VmError::Call { error: failure, .. } = &error else {
        return error;
    };
    match failure.vm.as_ref().and_then(|vm| vm.provider_id.clone()) {
        Some(id) => with_hint(error, &format!("the VM is {id}")),
        None => error,
    }
}
