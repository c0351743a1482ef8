//! The calls of the driver contract.
//!
//! The effect of a call commits when the call arrives; its reply may be delayed. A fault rule that hits answers instead
//! of the cloud, before or after the effect.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError, Power, VmIdentity};
use mcm_api::{MachineName, NodeName, ProviderId};
use mcm_driver::MachineRequest;

use super::faults::{CallInfo, Effect, Hit};
use super::update::VmUpdate;
use super::{
    Caller, Cloud, CloudCall, CommonError, DuplicateCreates, Owner, Partial, ProviderSpec, Record, RecordKind,
    UserData, Vm, VmState,
};
use crate::{API_TOKEN, CSI_DRIVER, EXPIRED_TOKEN};

/// Prefixes of the ownership tags, which identify the cluster and role of a VM.
const OWNERSHIP_TAGS: [&str; 4] = [
    "kubernetes.io/cluster/",
    "kubernetes.io/role/",
    "kubernetes-io-cluster-",
    "kubernetes-io-role-",
];

/// The reply to a call.
#[derive(Debug)]
pub struct Reply<T> {
    /// The result.
    pub result: Result<T, DriverError>,
    /// The delay of the reply.
    pub delay: Duration,
}

/// A call whose fault is determined.
#[derive(Debug)]
pub(super) struct BegunCall {
    pub(super) call: CloudCall,
    pub(super) machine: Option<String>,
    /// The name that the client gives; empty: none.
    pub(super) client: String,
    pub(super) hit: Option<Hit>,
}

impl Cloud {
    /// Initializes the machine's VM: sets the flags of its network interfaces as its class requests.
    pub fn initialize_machine(&mut self, request: &MachineRequest, client: &str, now: Timestamp) -> Reply<VmIdentity> {
        let begun = self.begin(CloudCall::InitializeMachine, request, client, now);
        let machine = owner(request).key();
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(&request.secret)?;
            let vm = cloud.only(&machine)?;
            if effect == Effect::Lie {
                return Ok(vm.identity());
            }
            let (ordinal, id) = (vm.ordinal, vm.id.clone());
            let spec = ProviderSpec::read(&request.class.provider_spec, &cloud.settings)?;
            let part = effect == Effect::Part(Partial::Nics);
            cloud.switch_nics(&machine, &id, &spec.nics, part);
            let vm = cloud.vms.get_mut(&ordinal).ok_or_else(|| not_found(&machine))?;
            vm.initialized |= !part;
            Ok(vm.identity())
        })
    }

    /// Deletes all VMs of the machine and all parts left behind for it.
    pub fn delete_machine(&mut self, request: &MachineRequest, client: &str, now: Timestamp) -> Reply<Option<String>> {
        self.advance(now);
        self.watch_call(CloudCall::DeleteMachine, request, client, now);
        let begun = self.begin(CloudCall::DeleteMachine, request, client, now);
        let machine = owner(request).key();
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(&request.secret)?;
            if effect == Effect::Lie {
                return Ok(None);
            }
            let delay = match effect {
                Effect::Stuck => None,
                Effect::Later(delay) => Some(delay),
                _ => Some(cloud.settings.termination_delay),
            };
            let vms = cloud.targets_of_deletion(request, &machine);
            if !targets_one_vm(request) {
                cloud.remove_parts(&machine, None, now);
            }
            for (ordinal, id) in vms {
                if effect == Effect::Part(Partial::Vm) {
                    cloud.leave_parts(&machine, &id);
                }
                cloud.remove_after(ordinal, delay, "it was deleted by DeleteMachine", Caller::Driver, now);
            }
            Ok(None)
        })
    }

    /// The VMs that a deletion targets, by ordinal and ID.
    fn targets_of_deletion(&self, request: &MachineRequest, machine: &str) -> Vec<(u64, String)> {
        let entry = |vm: &Vm| (vm.ordinal, vm.id.clone());
        if !targets_one_vm(request) {
            return self.live_of(machine).into_iter().map(entry).collect();
        }
        let live = self.live.values().flatten().filter_map(|ordinal| self.vms.get(ordinal));
        live.filter(|vm| vm.provider_id == request.machine.spec.provider_id)
            .map(entry)
            .collect()
    }

    /// Looks for the machine's VM.
    pub fn machine_status(&mut self, request: &MachineRequest, client: &str, now: Timestamp) -> Reply<VmIdentity> {
        let begun = self.begin(CloudCall::GetMachineStatus, request, client, now);
        let machine = owner(request).key();
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(&request.secret)?;
            let vm = match effect {
                Effect::Lie => return Err(not_found(&machine)),
                Effect::Stale(then) => {
                    let of_machine = cloud.vms.values().filter(|vm| vm.owner.key() == machine);
                    one_of(&machine, &of_machine.filter(|vm| vm.was_live(then)).collect::<Vec<_>>())?
                }
                _ => cloud.only(&machine)?,
            };
            if vm.initialized {
                return Ok(identity_of(vm, effect));
            }
            let mut error = DriverError::new(Code::Uninitialized, format!("VM {} is not initialized", vm.id));
            error.vm = Some(Box::new(vm.identity()));
            Err(error)
        })
    }

    /// The live VMs of a class: those with all of its ownership tags or, if it has none, those that were created from
    /// it.
    pub fn list_machines(
        &mut self,
        class: &MachineClass,
        secret: &BTreeMap<String, ByteString>,
        client: &str,
        now: Timestamp,
    ) -> Reply<BTreeMap<ProviderId, MachineName>> {
        self.advance(now);
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let hit = self.admit(&CallInfo {
            call: CloudCall::ListMachines,
            machine: None,
            class: name,
            zone: zone_of(class),
            client,
            now,
        });
        let begun = BegunCall {
            call: CloudCall::ListMachines,
            machine: None,
            client: client.to_owned(),
            hit,
        };
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(secret)?;
            let spec = ProviderSpec::read(&class.provider_spec, &cloud.settings)?;
            let tags: Vec<_> = spec
                .tags
                .into_iter()
                .filter(|(key, _)| OWNERSHIP_TAGS.iter().any(|prefix| key.starts_with(prefix)))
                .collect();
            let namespace = class.metadata.namespace.as_deref().unwrap_or_default();
            let belongs = |vm: &&Vm| {
                if tags.is_empty() {
                    vm.owner.class == name && vm.owner.namespace == namespace
                } else {
                    tags.iter().all(|(key, value)| vm.tags.get(key) == Some(value))
                }
            };
            let entry = |vm: &Vm| {
                let name = MachineName::new(vm.owner.name.as_str())?;
                Some((ProviderId::new(vm.provider_id.as_str())?, name))
            };
            match effect {
                Effect::Lie => Ok(BTreeMap::new()),
                Effect::Stale(then) => {
                    let then_live = cloud.vms.values().filter(|vm| vm.was_live(then));
                    Ok(then_live.filter(belongs).filter_map(entry).collect())
                }
                _ => {
                    let live = cloud.live.values().flatten();
                    let live = live.filter_map(|ordinal| cloud.vms.get(ordinal));
                    Ok(live.filter(belongs).filter_map(entry).collect())
                }
            }
        })
    }

    /// Sets the class's tags on the machine's VM, and the flags on its interfaces. Tags of the last spec that the new
    /// one does not contain are removed; all others stay.
    pub fn update_machine(
        &mut self,
        request: &MachineRequest,
        last_applied: Option<&str>,
        client: &str,
        now: Timestamp,
    ) -> Reply<()> {
        let begun = self.begin(CloudCall::UpdateMachine, request, client, now);
        let machine = owner(request).key();
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(&request.secret)?;
            let requested = ProviderSpec::read(&request.class.provider_spec, &cloud.settings)?;
            let last = last_applied.and_then(|spec| serde_json::from_str(spec).ok());
            let last = last.and_then(|spec| ProviderSpec::read(&spec, &cloud.settings).ok());
            let last = last.map(|spec| spec.tags).unwrap_or_default();
            let vm = cloud.only(&machine)?.clone();
            if effect == Effect::Lie {
                return Ok(());
            }
            let removed_tags = last.into_keys().filter(|key| !requested.tags.contains_key(key));
            let update = VmUpdate {
                remove_tags: removed_tags.collect(),
                set_tags: requested.tags,
                nics: BTreeMap::new(),
            };
            cloud.apply(&vm, &update, false)?;
            if effect != Effect::Part(Partial::Tags) {
                cloud.switch_nics(&machine, &vm.id, &requested.nics, false);
            }
            Ok(())
        })
    }

    /// Switches the machine's VM off. It keeps its disks and network interfaces.
    pub fn stop_machine(&mut self, request: &MachineRequest, client: &str, now: Timestamp) -> Reply<VmIdentity> {
        let begun = self.begin(CloudCall::StopMachine, request, client, now);
        let machine = owner(request).key();
        self.perform(begun, now, |cloud, effect| {
            cloud.check_credentials(&request.secret)?;
            let vm = cloud.only(&machine)?;
            if effect == Effect::Lie {
                let power = Some(Power::Stopped);
                return Ok(VmIdentity { power, ..vm.identity() });
            }
            let ordinal = vm.ordinal;
            if vm.state != VmState::Stopped {
                cloud.transition(
                    ordinal,
                    VmState::Stopped,
                    "it was stopped by StopMachine",
                    Caller::Driver,
                    now,
                );
            }
            cloud.only(&machine).map(Vm::identity)
        })
    }

    /// The volume handles of this cloud's volumes.
    pub fn volume_ids(&mut self, specs: &[PersistentVolumeSpec], client: &str, now: Timestamp) -> Reply<Vec<String>> {
        self.advance(now);
        let hit = self.admit(&CallInfo {
            call: CloudCall::GetVolumeIds,
            machine: None,
            class: "",
            zone: "",
            client,
            now,
        });
        let begun = BegunCall {
            call: CloudCall::GetVolumeIds,
            machine: None,
            client: client.to_owned(),
            hit,
        };
        self.perform(begun, now, |_, effect| {
            let own = specs
                .iter()
                .filter_map(|spec| spec.csi.as_ref())
                .filter(|csi| csi.driver == CSI_DRIVER && effect != Effect::Lie);
            Ok(own.map(|csi| csi.volume_handle.clone()).collect())
        })
    }

    /// Starts a call for one machine: advances time, and decides which fault hits the call.
    fn begin(&mut self, call: CloudCall, request: &MachineRequest, client: &str, now: Timestamp) -> BegunCall {
        self.advance(now);
        let machine = owner(request).key();
        let hit = self.admit(&CallInfo {
            call,
            machine: Some(&machine),
            class: class_of(request),
            zone: zone_of(&request.class),
            client,
            now,
        });
        BegunCall {
            call,
            machine: Some(machine),
            client: client.to_owned(),
            hit,
        }
    }

    /// Determines what hits a call, in this order: a failure of its zone, a rate limit, a fault rule.
    pub(super) fn admit(&mut self, info: &CallInfo<'_>) -> Option<Hit> {
        if let Some(hit) = self.zone_hit(info.zone) {
            return Some(hit);
        }
        if let Some(place) = self.over_rate(info.call, info.now) {
            return Some(Hit {
                id: format!("rate-limit/{place}"),
                code: CommonError::Throttled.code(),
                message: CommonError::Throttled.text().to_owned(),
                latency: Duration::ZERO,
                effect: Effect::Plain,
            });
        }
        self.faults.decide(info, &self.seed, self.opened)
    }

    /// Performs a call whose fault is determined: effect and log.
    pub(super) fn perform<T>(
        &mut self,
        begun: BegunCall,
        now: Timestamp,
        effect: impl FnOnce(&mut Self, Effect) -> Result<T, DriverError>,
    ) -> Reply<T> {
        let BegunCall {
            call,
            machine,
            client,
            hit,
        } = begun;
        let result = match &hit {
            None => effect(self, Effect::Plain),
            Some(hit) if hit.code == Code::Ok => effect(self, hit.effect),
            Some(hit) => {
                let effect_result = match hit.effect {
                    Effect::Done => effect(self, Effect::Plain).map(drop),
                    Effect::Part(part) => effect(self, Effect::Part(part)).map(drop),
                    _ => Ok(()),
                };
                effect_result.and_then(|()| Err(DriverError::new(hit.code, hit.message.clone())))
            }
        };
        let result = result.map_err(|error| self.with_vm(error, machine.as_deref()));
        let delay = self.settings.call_latency + hit.as_ref().map_or(Duration::ZERO, |hit| hit.latency);
        let mut record = Record::new(RecordKind::Call, Caller::Driver, call.rpc(), now);
        if let Some(vm) = machine.as_deref().and_then(|machine| self.only(machine).ok()) {
            record = record.about(vm);
        }
        record.machine = machine.unwrap_or_default();
        record.code = Some(result.as_ref().map_or_else(|error| error.code, |_| Code::Ok));
        record.message = result
            .as_ref()
            .map_or_else(|error| error.message.clone(), |_| String::new());
        record.latency = delay;
        record.fault = hit.map(|hit| hit.id);
        record.client = client;
        self.log.append(record);
        Reply { result, delay }
    }

    /// Adds the VM to an Uninitialized error, also to one of a fault rule.
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
        effect: Effect,
        now: Timestamp,
    ) -> Result<VmIdentity, DriverError> {
        self.check_credentials(&request.secret)?;
        if owner.name.is_empty() {
            return Err(DriverError::new(Code::InvalidArgument, "the machine has no name"));
        }
        let spec = ProviderSpec::read(&request.class.provider_spec, &self.settings)?;
        let machine = owner.key();
        if self.settings.duplicate_creates == DuplicateCreates::One && self.live.contains_key(&machine) {
            let vm = self.only(&machine)?;
            return match vm.difference(&spec) {
                None => Ok(vm.identity()),
                Some(difference) => Err(DriverError::new(
                    Code::AlreadyExists,
                    format!("VM {} of machine {machine} exists and differs: {difference}", vm.id),
                )),
            };
        }
        match effect {
            Effect::Lie => {
                return Ok(fictitious_vm(&owner, &spec));
            }
            Effect::Part(part) => {
                self.make_nics(&owner, &spec, now);
                if part == Partial::Disks {
                    self.make_disks(&owner, &spec, now);
                }
                return Ok(fictitious_vm(&owner, &spec));
            }
            _ => self.check_room_for(&spec)?,
        }
        let user_data = UserData::new(request.secret.get("userData").map_or(&[], |bytes| &bytes.0));
        let ordinal = self.create_from_parts(owner, spec, user_data, now);
        if effect == Effect::Stuck {
            self.unschedule(ordinal);
            if let Some(vm) = self.vms.get_mut(&ordinal) {
                vm.deadline = None;
            }
        }
        let identity = self.vms.get(&ordinal).map(|vm| identity_of(vm, effect));
        self.advance(now);
        identity.ok_or_else(|| not_found(&machine))
    }

    /// The only live VM of a machine.
    fn only(&self, machine: &str) -> Result<&Vm, DriverError> {
        one_of(machine, &self.live_of(machine))
    }

    /// Whether the cloud accepts the credentials in the class's Secret.
    fn check_credentials(&self, secret: &BTreeMap<String, ByteString>) -> Result<(), DriverError> {
        let refused = |code, text: &str| {
            let text = format!("the key {API_TOKEN} of the machine class's Secret {text}");
            Err(DriverError::new(code, text))
        };
        let Some(token) = secret.get(API_TOKEN).filter(|token| !token.0.is_empty()) else {
            return refused(
                Code::InvalidArgument,
                "is missing; any value is accepted, unless the cloud has a list of accepted tokens",
            );
        };
        if token.0 == EXPIRED_TOKEN.as_bytes() {
            return refused(Code::Unauthenticated, "has expired; put a new token into it");
        }
        let accepted = &self.settings.api_tokens;
        if !accepted.is_empty() && !accepted.iter().any(|accepted| accepted.is(&token.0)) {
            return refused(Code::Unauthenticated, "is unknown; use one that the cloud accepts");
        }
        Ok(())
    }
}

/// A VM in a reply.
fn identity_of(vm: &Vm, effect: Effect) -> VmIdentity {
    let mut identity = vm.identity();
    if effect == Effect::Nameless {
        identity.node_name = None;
    }
    identity
}

/// The reply of a creation that reports success without creating a VM.
fn fictitious_vm(owner: &Owner, spec: &ProviderSpec) -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new(format!("fakecloud:///{}/vm-{}", spec.zone, owner.name)),
        node_name: NodeName::new(format!("{}{}", spec.node_name_prefix, owner.name)),
        addresses: Vec::new(),
        last_known_state: None,
        power: Some(Power::Running),
    }
}

fn one_of<'a>(machine: &str, vms: &[&'a Vm]) -> Result<&'a Vm, DriverError> {
    match *vms {
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

fn not_found(machine: &str) -> DriverError {
    DriverError::new(Code::NotFound, format!("machine {machine} has no VM"))
}

/// Whether a deletion targets the one VM of a provider ID, regardless of its machine: the request has no uid. A
/// controller deletes orphans this way.
fn targets_one_vm(request: &MachineRequest) -> bool {
    request.machine.metadata.uid.is_none() && !request.machine.spec.provider_id.is_empty()
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

/// The name of the machine's class.
pub(super) fn class_of(request: &MachineRequest) -> &str {
    request.class.metadata.name.as_deref().unwrap_or_default()
}

/// The zone that a class names; empty when it names none.
pub(super) fn zone_of(class: &MachineClass) -> &str {
    class
        .provider_spec
        .get("zone")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
}
