//! Drivers with one planted fault each, as decorators of a correct driver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::{MachineClass, MachineName, ProviderId};
use mcm_driver::{Code, Driver, DriverError, MachineRequest, Power, VmIdentity};
use parking_lot::Mutex;

/// A way to break the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every CreateMachine creates a VM.
    SecondVm,
    /// CreateMachine remembers the VM only shortly after its creation: a client that gives up or repeats the call before
    /// that gets a second VM.
    RemembersLate,
    /// GetMachineStatus fails with Internal if there is no VM.
    StatusInternal,
    /// ListMachines ignores the tags.
    ListIgnoresTags,
    /// DeleteMachine fails if there is no VM.
    DeleteMissingFails,
    /// DeleteMachine succeeds and leaves the VM.
    DeleteLeavesVm,
    /// DeleteMachine ignores the provider id and deletes the VM of the machine's name.
    DeleteByName,
    /// The provider ID of a request identifies its VM.
    TrustsProviderId,
    /// The error of CreateMachine quotes the Secret.
    SecretInError,
    /// An invalid class fails with Unknown.
    UnknownForInvalidClass,
    /// Classes of other providers are accepted.
    AcceptsOtherProviders,
    /// GetMachineStatus never answers if there is no VM.
    NoAnswer,
    /// GetVolumeIds returns every volume.
    ForeignVolumes,
    /// CreateMachine returns no node name.
    NoNodeName,
    /// GetMachineStatus returns another node name.
    OtherNodeName,
    /// ListMachines names the node instead of the machine.
    ListNamesVms,
    /// A second InitializeMachine fails.
    InitializeOnce,
    /// UpdateMachine fails if nothing changes.
    UpdateRefusesSame,
    /// StopMachine does not say whether the VM is stopped.
    StopWithoutPower,
    /// StopMachine reports a stopped VM, which runs on.
    StopWithoutEffect,
    /// StopMachine succeeds if there is no VM.
    StopOfNothing,
}

/// A driver with a fault.
#[derive(Debug)]
pub struct Planted {
    fault: Fault,
    inner: Arc<dyn Driver>,
    /// How many additional VMs each machine has; `inner` creates each of them for a separate machine.
    copies: Mutex<BTreeMap<String, u32>>,
    /// The machines whose VM is remembered, and which of its VMs it is.
    remembered: Mutex<BTreeMap<String, u32>>,
    initialized: AtomicU32,
    tagged: Mutex<Option<MachineClass>>,
}

impl Planted {
    pub fn new(fault: Fault, inner: Arc<dyn Driver>) -> Self {
        Self {
            fault,
            inner,
            copies: Mutex::default(),
            remembered: Mutex::default(),
            initialized: AtomicU32::new(0),
            tagged: Mutex::default(),
        }
    }

    /// The number of the machine's next VM, from 0.
    fn next_copy(&self, machine: &str) -> u32 {
        let mut copies = self.copies.lock();
        *copies
            .entry(machine.to_owned())
            .and_modify(|count| *count += 1)
            .or_insert(0)
    }

    async fn create_and_remember_late(&self, mut request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let machine = name(&request);
        let known = self.remembered.lock().get(&machine).copied();
        let copy = known.unwrap_or_else(|| self.next_copy(&machine));
        rename(&mut request, copy);
        let answer = self.inner.create_machine(request).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.remembered.lock().insert(machine, copy);
        answer
    }

    async fn has_vm(&self, request: &MachineRequest) -> bool {
        let status = self.inner.get_machine_status(request.clone()).await;
        !matches!(status, Err(error) if error.code == Code::NotFound)
    }
}

/// The separator between a machine's name and the number of its copy.
const COPY: &str = "-copy";

fn name(request: &MachineRequest) -> String {
    request.machine.metadata.name.clone().unwrap_or_default()
}

/// Makes a request that of the machine's VM with this number.
fn rename(request: &mut MachineRequest, copy: u32) {
    if copy > 0 {
        request.machine.metadata.name = Some(format!("{}{COPY}{copy}", name(request)));
    }
}

/// Decoration of one call; otherwise the inner driver answers.
#[async_trait]
impl Driver for Planted {
    async fn create_machine(&self, mut request: MachineRequest) -> Result<VmIdentity, DriverError> {
        match self.fault {
            Fault::SecondVm => {
                let copy = self.next_copy(&name(&request));
                rename(&mut request, copy);
            }
            Fault::RemembersLate => return self.create_and_remember_late(request).await,
            Fault::AcceptsOtherProviders => request.class.provider = None,
            _ => {}
        }
        let secret = request.secret.clone();
        self.tagged.lock().get_or_insert(request.class.clone());
        let mut answer = self.inner.create_machine(request).await;
        match (&mut answer, self.fault) {
            (Ok(vm), Fault::NoNodeName) => vm.node_name = None,
            (Err(error), Fault::SecretInError) => {
                let token = secret.get("apiToken").map(|value| String::from_utf8_lossy(&value.0));
                error.message += &format!(" (with token {token:?})");
            }
            (Err(error), Fault::UnknownForInvalidClass) => error.code = Code::Unknown,
            _ => {}
        }
        answer
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        if self.fault == Fault::InitializeOnce && self.initialized.fetch_add(1, Ordering::Relaxed) == 1 {
            return Err(DriverError::new(Code::AlreadyExists, "already initialized"));
        }
        self.inner.initialize_machine(request).await
    }

    async fn delete_machine(&self, mut request: MachineRequest) -> Result<Option<String>, DriverError> {
        match self.fault {
            Fault::DeleteMissingFails if !self.has_vm(&request).await => {
                return Err(DriverError::new(Code::NotFound, "there is no VM to delete"));
            }
            Fault::DeleteLeavesVm => return Ok(None),
            Fault::TrustsProviderId if !request.machine.spec.provider_id.is_empty() => {
                request.machine.metadata.uid = None
            }
            Fault::DeleteByName => request.machine.metadata.uid = Some("any".to_owned()),
            _ => {}
        }
        self.inner.delete_machine(request).await
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let mut answer = self.inner.get_machine_status(request).await;
        match (&mut answer, self.fault) {
            (Err(error), Fault::StatusInternal) if error.code == Code::NotFound => error.code = Code::Internal,
            (Err(error), Fault::NoAnswer) if error.code == Code::NotFound => std::future::pending().await,
            (Ok(vm), Fault::OtherNodeName) => vm.node_name = "another".try_into().ok(),
            _ => {}
        }
        answer
    }

    async fn list_machines(
        &self,
        mut class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        if let (Fault::ListIgnoresTags, Some(tagged)) = (self.fault, &*self.tagged.lock()) {
            class = tagged.clone();
        }
        let listed = self.inner.list_machines(class, secret).await?;
        let rename = |machine: MachineName| match self.fault {
            Fault::ListNamesVms => MachineName::new(format!("vm-of-{machine}")),
            _ => MachineName::new(machine.split(COPY).next().unwrap_or_default()),
        };
        Ok(listed
            .into_iter()
            .filter_map(|(id, machine)| Some((id, rename(machine)?)))
            .collect())
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        if self.fault == Fault::UpdateRefusesSame && last_applied.is_some() {
            return Err(DriverError::new(Code::InvalidArgument, "nothing to change"));
        }
        self.inner.update_machine(request, last_applied).await
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        match self.fault {
            Fault::StopWithoutPower => {
                let vm = self.inner.stop_machine(request).await?;
                Ok(VmIdentity { power: None, ..vm })
            }
            Fault::StopWithoutEffect => {
                let vm = self.inner.get_machine_status(request).await?;
                let power = Some(Power::Stopped);
                Ok(VmIdentity { power, ..vm })
            }
            Fault::StopOfNothing if !self.has_vm(&request).await => Ok(VmIdentity::default()),
            _ => self.inner.stop_machine(request).await,
        }
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        if self.fault == Fault::ForeignVolumes {
            return Ok(specs
                .into_iter()
                .filter_map(|spec| spec.csi)
                .map(|csi| csi.volume_handle)
                .collect());
        }
        self.inner.get_volume_ids(specs).await
    }
}
