//! A cloud with a non-idempotent create call, as seen by the driver of one machine.

use std::collections::BTreeMap;

use mcm_api::{Code, DriverError, MachineName, NodeName, ProviderId, VmIdentity};
use mcm_core::machine::{Answer, CallKind, CloudCall};

/// The VMs of one machine, and the errors of the next calls.
#[derive(Default)]
pub struct Cloud {
    /// Provider ids of VMs that exist, and whether each is initialised.
    pub vms: BTreeMap<String, bool>,
    /// Errors of the next calls of each kind; `true`: the call fails after its effect.
    pub errors: Vec<(CallKind, Code, bool)>,
    /// A driver without GetMachineStatus, whose second creation fails with AlreadyExists.
    pub without_status: bool,
    created: usize,
}

impl Cloud {
    pub fn call(&mut self, call: &CloudCall) -> Answer {
        let index = self.errors.iter().position(|(kind, _, _)| *kind == call.kind);
        let error = index.map(|index| self.errors.remove(index));
        let effective = error.as_ref().is_none_or(|(_, _, after)| *after);
        let failure = error.map(|(_, code, _)| DriverError::new(code, "injected"));
        let machine = call.machine.metadata.name.as_deref().unwrap_or_default();
        match call.kind {
            CallKind::Status if self.without_status => Answer::Status(Err(DriverError::new(Code::Unimplemented, ""))),
            CallKind::Create if self.without_status && !self.vms.is_empty() => {
                Answer::Create(Err(DriverError::new(Code::AlreadyExists, "a VM of that name exists")))
            }
            CallKind::List => Answer::List(failure.map_or_else(|| Ok(self.listed(machine)), Err)),
            CallKind::Status => Answer::Status(failure.map_or_else(|| self.found(machine), Err)),
            CallKind::Create => {
                let vm = effective.then(|| self.create(machine));
                Answer::Create(failure.map_or_else(|| vm.ok_or(DriverError::new(Code::Internal, "")), Err))
            }
            CallKind::Initialize => {
                if effective {
                    self.vms.values_mut().for_each(|initialized| *initialized = true);
                }
                Answer::Initialize(failure.map_or_else(|| self.found(machine), Err))
            }
            CallKind::Update => Answer::Update {
                spec: call.class.provider_spec.to_string(),
                result: failure.map_or(Ok(()), Err),
            },
            CallKind::Stop => Answer::Stop(failure.map_or_else(|| self.found(machine), Err)),
            CallKind::Delete | CallKind::DeleteStale => {
                if effective {
                    self.vms.clear();
                }
                Answer::Delete(failure.map_or(Ok(None), Err))
            }
        }
    }

    fn create(&mut self, machine: &str) -> VmIdentity {
        self.created += 1;
        let provider_id = format!("fakecloud:///z1/vm-{}", self.created);
        self.vms.insert(provider_id.clone(), false);
        identity(provider_id, machine)
    }

    fn listed(&self, machine: &str) -> BTreeMap<ProviderId, MachineName> {
        let entry = |id: &String| Some((ProviderId::new(id.as_str())?, MachineName::new(machine)?));
        self.vms.keys().filter_map(entry).collect()
    }

    fn found(&self, machine: &str) -> Result<VmIdentity, DriverError> {
        let Some((provider_id, initialized)) = self.vms.iter().next() else {
            return Err(DriverError::new(Code::NotFound, "no VM"));
        };
        let vm = identity(provider_id.clone(), machine);
        if *initialized {
            return Ok(vm);
        }
        Err(DriverError {
            vm: Some(Box::new(vm)),
            ..DriverError::new(Code::Uninitialized, "not initialized")
        })
    }
}

/// Nodes have their machines' names.
fn identity(provider_id: String, machine: &str) -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new(provider_id),
        node_name: NodeName::new(machine),
        ..VmIdentity::default()
    }
}
