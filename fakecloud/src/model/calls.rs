//! The calls of the driver contract.
//!
//! The effect of a call commits when it arrives; its reply may come later. A fault rule that fires
//! answers instead of the cloud, before or after the effect.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_driver::MachineRequest;

use super::fault::Fired;
use super::{Caller, Cloud, DuplicateCreates, Operation, Owner, ProviderSpec, Record, RecordKind, UserData, Vm};
use crate::{API_TOKEN, CSI_DRIVER, EXPIRED_TOKEN};

/// The prefixes of the tags that say to which cluster and role a VM belongs.
const OWNERSHIP_TAGS: [&str; 4] = [
    "kubernetes.io/cluster/",
    "kubernetes.io/role/",
    "kubernetes-io-cluster-",
    "kubernetes-io-role-",
];

/// What a call answers, and when.
#[derive(Debug)]
pub struct Reply<T> {
    /// The answer.
    pub result: Result<T, DriverError>,
    /// How long it is on its way.
    pub delay: Duration,
}

/// A call: which, about which machine, by whom, and the fault that strikes it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) machine: Option<String>,
    /// Empty where it is not known.
    pub(super) client: String,
    pub(super) fired: Option<Fired>,
}

impl Cloud {
    /// Makes the machine's VM at once, also where a rule would have it made later.
    pub fn create_machine(&mut self, request: &MachineRequest, now: Timestamp) -> Reply<VmIdentity> {
        let owner = owner(request);
        self.call(Operation::Create, Some(owner.key()), now, |cloud| {
            cloud.create(owner, request, now)
        })
    }

    /// Finishes the machine's VM.
    pub fn initialize_machine(&mut self, request: &MachineRequest, now: Timestamp) -> Reply<VmIdentity> {
        let machine = owner(request).key();
        self.call(Operation::Initialize, Some(machine.clone()), now, |cloud| {
            check_credentials(&request.secret)?;
            let ordinal = cloud.only(&machine)?.ordinal;
            let vm = cloud.vms.get_mut(&ordinal).ok_or_else(|| not_found(&machine))?;
            vm.initialized = true;
            Ok(vm.identity())
        })
    }

    /// Deletes all VMs of the machine.
    pub fn delete_machine(&mut self, request: &MachineRequest, now: Timestamp) -> Reply<Option<String>> {
        self.delete_machine_as(request, "", now)
    }

    /// The same, and the log says that `client` did it.
    pub fn delete_machine_as(
        &mut self,
        request: &MachineRequest,
        client: &str,
        now: Timestamp,
    ) -> Reply<Option<String>> {
        let machine = owner(request).key();
        self.advance(now);
        let call = Call {
            operation: Operation::Delete,
            machine: Some(machine.clone()),
            client: client.to_owned(),
            fired: self.faults.decide(Operation::Delete, Some(&machine)),
        };
        self.perform(call, now, |cloud| {
            check_credentials(&request.secret)?;
            let ordinals: Vec<u64> = cloud.live_of(&machine).into_iter().map(|vm| vm.ordinal).collect();
            for ordinal in ordinals {
                cloud.remove(ordinal, "it was deleted by DeleteMachine", Caller::Driver, now);
            }
            Ok(None)
        })
    }

    /// Looks for the machine's VM.
    pub fn machine_status(&mut self, request: &MachineRequest, now: Timestamp) -> Reply<VmIdentity> {
        let machine = owner(request).key();
        self.call(Operation::GetStatus, Some(machine.clone()), now, |cloud| {
            check_credentials(&request.secret)?;
            let vm = cloud.only(&machine)?;
            if vm.initialized {
                return Ok(vm.identity());
            }
            let mut error = DriverError::new(Code::Uninitialized, format!("VM {} is not initialized", vm.id));
            error.vm = Some(Box::new(vm.identity()));
            Err(error)
        })
    }

    /// The live VMs that belong to a class: those with all of its ownership tags or, when it has
    /// none, those that were made from it.
    pub fn list_machines(
        &mut self,
        class: &MachineClass,
        secret: &BTreeMap<String, ByteString>,
        now: Timestamp,
    ) -> Reply<BTreeMap<String, String>> {
        self.call(Operation::List, None, now, |cloud| {
            check_credentials(secret)?;
            let spec = ProviderSpec::read(&class.provider_spec, &cloud.config)?;
            let tags: Vec<_> = spec
                .tags
                .into_iter()
                .filter(|(key, _)| OWNERSHIP_TAGS.iter().any(|prefix| key.starts_with(prefix)))
                .collect();
            let name = class.metadata.name.as_deref().unwrap_or_default();
            let namespace = class.metadata.namespace.as_deref().unwrap_or_default();
            let belongs = |vm: &&Vm| {
                if tags.is_empty() {
                    vm.owner.class == name && vm.owner.namespace == namespace
                } else {
                    tags.iter().all(|(key, value)| vm.tags.get(key) == Some(value))
                }
            };
            let live = cloud
                .live
                .values()
                .flatten()
                .filter_map(|ordinal| cloud.vms.get(ordinal));
            Ok(live
                .filter(belongs)
                .map(|vm| (vm.provider_id.clone(), vm.owner.name.clone()))
                .collect())
        })
    }

    /// Gives the machine's VM the tags of the class. Tags that the last spec gave and this one does not go; all others
    /// stay.
    pub fn update_machine(
        &mut self,
        request: &MachineRequest,
        last_applied: Option<&str>,
        now: Timestamp,
    ) -> Reply<()> {
        let machine = owner(request).key();
        self.call(Operation::Update, Some(machine.clone()), now, |cloud| {
            check_credentials(&request.secret)?;
            let wanted = ProviderSpec::read(&request.class.provider_spec, &cloud.config)?.tags;
            let last = last_applied.and_then(|spec| serde_json::from_str(spec).ok());
            let last = last.and_then(|spec| ProviderSpec::read(&spec, &cloud.config).ok());
            let last = last.map(|spec| spec.tags).unwrap_or_default();
            let ordinal = cloud.only(&machine)?.ordinal;
            let vm = cloud.vms.get_mut(&ordinal).ok_or_else(|| not_found(&machine))?;
            vm.tags
                .retain(|key, _| !last.contains_key(key) || wanted.contains_key(key));
            vm.tags.extend(wanted);
            Ok(())
        })
    }

    /// The volume handles of this cloud's own volumes.
    pub fn volume_ids(&mut self, specs: &[PersistentVolumeSpec], now: Timestamp) -> Reply<Vec<String>> {
        self.call(Operation::Volumes, None, now, |_| {
            let own = specs
                .iter()
                .filter_map(|spec| spec.csi.as_ref())
                .filter(|csi| csi.driver == CSI_DRIVER);
            Ok(own.map(|csi| csi.volume_handle.clone()).collect())
        })
    }

    /// One call: time, fault rules, effect, log.
    fn call<T>(
        &mut self,
        operation: Operation,
        machine: Option<String>,
        now: Timestamp,
        effect: impl FnOnce(&mut Self) -> Result<T, DriverError>,
    ) -> Reply<T> {
        self.advance(now);
        let call = Call {
            operation,
            fired: self.faults.decide(operation, machine.as_deref()),
            machine,
            client: String::new(),
        };
        self.perform(call, now, effect)
    }

    /// A call whose fault is decided: effect and log.
    pub(super) fn perform<T>(
        &mut self,
        call: Call,
        now: Timestamp,
        effect: impl FnOnce(&mut Self) -> Result<T, DriverError>,
    ) -> Reply<T> {
        let Call {
            operation,
            machine,
            client,
            fired,
        } = call;
        let result = match fired.as_ref().filter(|fired| fired.code != Code::Ok) {
            None => effect(self),
            Some(fired) => {
                let done = fired.effect_before_error.then(|| effect(self)).transpose();
                done.and_then(|_| Err(DriverError::new(fired.code, fired.message.clone())))
            }
        };
        let result = result.map_err(|error| self.with_vm(error, machine.as_deref()));
        let delay = self.config.call_latency.0 + fired.as_ref().map_or(Duration::ZERO, |fired| fired.latency);
        let mut record = Record::new(RecordKind::Call, Caller::Driver, operation.name(), now);
        if let Some(vm) = machine.as_deref().and_then(|machine| self.only(machine).ok()) {
            record = record.about(vm);
        }
        record.machine = machine.unwrap_or_default();
        record.code = Some(result.as_ref().map_or_else(|error| error.code, |_| Code::Ok));
        record.message = result
            .as_ref()
            .map_or_else(|error| error.message.clone(), |_| String::new());
        record.latency = delay;
        record.fault = fired.map(|fired| fired.id);
        record.client = client;
        self.log.append(record);
        Reply { result, delay }
    }

    /// An Uninitialized error always names the VM, also when a fault rule made it.
    fn with_vm(&self, mut error: DriverError, machine: Option<&str>) -> DriverError {
        if error.code == Code::Uninitialized && error.vm.is_none() {
            error.vm = machine
                .and_then(|machine| self.only(machine).ok())
                .map(|vm| Box::new(vm.identity()));
        }
        error
    }

    pub(super) fn create(
        &mut self,
        owner: Owner,
        request: &MachineRequest,
        now: Timestamp,
    ) -> Result<VmIdentity, DriverError> {
        check_credentials(&request.secret)?;
        if owner.name.is_empty() {
            return Err(DriverError::new(Code::InvalidArgument, "the machine has no name"));
        }
        let spec = ProviderSpec::read(&request.class.provider_spec, &self.config)?;
        let machine = owner.key();
        if self.config.duplicate_creates == DuplicateCreates::One && self.live.contains_key(&machine) {
            let vm = self.only(&machine)?;
            return match vm.difference(&spec) {
                None => Ok(vm.identity()),
                Some(difference) => Err(DriverError::new(
                    Code::AlreadyExists,
                    format!("VM {} of machine {machine} exists and differs: {difference}", vm.id),
                )),
            };
        }
        let user_data = UserData::new(request.secret.get("userData").map_or(&[], |bytes| &bytes.0));
        let ordinal = self.make(owner, spec, user_data, now);
        let identity = self.vms.get(&ordinal).map(Vm::identity);
        self.advance(now);
        identity.ok_or_else(|| not_found(&machine))
    }

    /// The only live VM of a machine.
    fn only(&self, machine: &str) -> Result<&Vm, DriverError> {
        match *self.live_of(machine) {
            [] => Err(not_found(machine)),
            [vm] => Ok(vm),
            ref several => {
                let ids: Vec<_> = several.iter().map(|vm| vm.id.as_str()).collect();
                Err(DriverError::new(
                    Code::OutOfRange,
                    format!("machine {machine} has {} VMs: {}", ids.len(), ids.join(", ")),
                ))
            }
        }
    }
}

fn not_found(machine: &str) -> DriverError {
    DriverError::new(Code::NotFound, format!("machine {machine} has no VM"))
}

pub(super) fn owner(request: &MachineRequest) -> Owner {
    let metadata = &request.machine.metadata;
    Owner {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        class: request.class.metadata.name.clone().unwrap_or_default(),
    }
}

fn check_credentials(secret: &BTreeMap<String, ByteString>) -> Result<(), DriverError> {
    match secret.get(API_TOKEN) {
        Some(token) if token.0 == EXPIRED_TOKEN.as_bytes() => Err(DriverError::new(
            Code::Unauthenticated,
            format!("the key {API_TOKEN} of the machine class's Secret has expired; put a new token there"),
        )),
        Some(token) if !token.0.is_empty() => Ok(()),
        _ => Err(DriverError::new(
            Code::InvalidArgument,
            format!("the key {API_TOKEN} of the machine class's Secret is missing; any value will do"),
        )),
    }
}
