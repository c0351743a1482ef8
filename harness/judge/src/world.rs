//! The last observed state of the world, and the part of its history that expectations need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::Phase;
use mcm_api::keys;
use scenario::ObjectReference;
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::kinds::{self, Kind, Kinds};
use scenario::observation::{Observation, Seen};
use scenario::workload::APP;
use serde_json::Value;

use crate::interest::Interest;
use crate::object::{label, text};

/// Key of the kind, namespace and name.
pub type ObjectKey = (&'static str, String, String);

/// Number of events by kind.
pub type EventCounts = BTreeMap<String, u64>;

/// The last observed state of the world.
#[derive(Clone, Debug, Default)]
pub struct WorldState {
    /// The kinds of the scenario.
    pub kinds: Kinds,
    /// Last observed version of each existing object.
    pub objects: BTreeMap<ObjectKey, Value>,
    /// History of each Machine by name; it outlives the Machine.
    pub machines: BTreeMap<String, MachineHistory>,
    /// All VMs that ever existed, by id.
    pub vms: BTreeMap<String, Vm>,
    /// Number of answered driver calls, by call and machine.
    pub calls: BTreeMap<(String, String), u64>,
    /// Number of hits by fault rule.
    pub faults: BTreeMap<String, u64>,
    /// Foreign nodes (not in the simulated cloud) as they were first observed.
    pub foreign_nodes: BTreeMap<String, Interest>,
    /// The leader among the controllers according to their Lease; `None`: no Lease exists.
    pub leadership: Option<Leadership>,
    /// Number of preservation events by kind.
    pub preserved: EventCounts,
    /// Number of events of health checks by kind.
    pub checked: EventCounts,
    /// The names of all objects that ever existed, by kind; without Events.
    names: BTreeMap<&'static str, BTreeSet<String>>,
    /// The workloads of all pods that ever existed: the values of their label `app`.
    pub(crate) workloads: BTreeSet<String>,
}

/// Content of the controllers' Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The holder's identity; empty: no holder.
    pub holder: String,
    /// Time of the last renewal.
    pub renewed: Timestamp,
    /// Validity after a renewal.
    pub duration: Duration,
}

impl Leadership {
    /// Parses a Lease; `None`: a field is missing or invalid.
    pub fn of(lease: &Value) -> Option<Self> {
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64()?;
        Some(Self {
            holder: text(lease, "/spec/holderIdentity").to_owned(),
            renewed: text(lease, "/spec/renewTime").parse().ok()?,
            duration: Duration::from_secs(seconds),
        })
    }
}

/// History of one Machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineHistory {
    /// Its uid; a new uid restarts the history.
    pub uid: String,
    /// Every phase and when it was first observed.
    pub phases: Vec<(Timestamp, Phase)>,
    /// Every provider ID that it had.
    pub provider_ids: BTreeSet<String>,
    /// Whether the Machine exists.
    pub exists: bool,
}

/// The key of an object.
pub fn key(kind: &'static Kind, object: &Value) -> ObjectKey {
    (
        kind.key,
        text(object, "/metadata/namespace").to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

impl WorldState {
    /// Applies an observation; returns the object's previous version.
    pub fn absorb(&mut self, observation: &Observation) -> Option<Value> {
        match &observation.what {
            Seen::Applied(kind, lease) if kind.key == "Lease" => {
                self.leadership = Leadership::of(lease);
                None
            }
            Seen::Deleted(kind, _) if kind.key == "Lease" => {
                self.leadership = None;
                None
            }
            Seen::Applied(kind, object) => {
                self.record_name(kind, object);
                if kind.key == "Machine" {
                    self.record_machine(observation.at, object);
                }
                if kind.key == "Node"
                    && let Some(interest) = Interest::in_foreign(object)
                {
                    self.foreign_nodes
                        .entry(text(object, "/metadata/name").to_owned())
                        .or_insert(interest);
                }
                self.objects.insert(key(kind, object), (**object).clone())
            }
            Seen::Deleted(kind, object) => {
                let key = key(kind, object);
                if kind.key == "Node" {
                    self.foreign_nodes.remove(&key.2);
                }
                if kind.key == "Machine"
                    && let Some(history) = self.machines.get_mut(&key.2)
                {
                    history.exists = false;
                }
                self.objects.remove(&key)
            }
            Seen::Cloud(CloudEvent::Vm(vm)) => {
                self.record_vm(vm);
                None
            }
            Seen::Cloud(CloudEvent::Call(call)) => {
                *self.calls.entry((call.call.clone(), call.machine.clone())).or_default() += 1;
                if let Some(rule) = &call.rule {
                    *self.faults.entry(rule.clone()).or_default() += 1;
                }
                None
            }
            Seen::Cloud(CloudEvent::Kubelet(_)) | Seen::Request(_) | Seen::Quiet(_) | Seen::Note(_) => None,
        }
    }

    /// Adds preservation events to the counts.
    pub fn count(&mut self, events: impl IntoIterator<Item = String>) {
        for event in events {
            *self.preserved.entry(event).or_default() += 1;
        }
    }

    /// Adds events of health checks to the counts.
    pub fn count_checked(&mut self, events: impl IntoIterator<Item = String>) {
        for event in events {
            *self.checked.entry(event).or_default() += 1;
        }
    }

    /// Whether an object of that kind and name ever existed.
    pub(crate) fn has_seen(&self, kind: &str, name: &str) -> bool {
        self.names.get(kind).is_some_and(|names| names.contains(name))
    }

    /// What has that name, for messages without names: the kind of an object that ever existed, or a VM or a fault
    /// rule.
    pub(crate) fn kind_of_name(&self, name: &str) -> Option<&'static str> {
        // A node has the name of its machine.
        if self.machines.contains_key(name) {
            return Some("Machine");
        }
        let mut kinds = self.names.iter().filter(|(_, names)| names.contains(name));
        if let Some((kind, _)) = kinds.next() {
            return Some(kind);
        }
        let mut vms = self.vms.values();
        let found = vms.find_map(|vm| match vm {
            vm if vm.id == name => Some("VM"),
            vm if vm.machine == name => Some("Machine"),
            vm if vm.node == name => Some("Node"),
            _ => None,
        });
        found.or_else(|| self.faults.contains_key(name).then_some("Fault"))
    }

    fn record_name(&mut self, kind: &'static Kind, object: &Value) {
        if kind.key == "Event" {
            return;
        }
        let insert = |names: &mut BTreeSet<String>, name: &str| {
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        };
        insert(self.names.entry(kind.key).or_default(), text(object, "/metadata/name"));
        if kind.key == "Pod" {
            insert(&mut self.workloads, label(object, APP));
        }
    }

    fn record_machine(&mut self, at: Timestamp, object: &Value) {
        let uid = text(object, "/metadata/uid");
        let history = self
            .machines
            .entry(text(object, "/metadata/name").to_owned())
            .or_default();
        if history.uid != uid {
            *history = MachineHistory {
                uid: uid.to_owned(),
                ..MachineHistory::default()
            };
        }
        history.exists = true;
        let phase = text(object, "/status/currentStatus/phase");
        if !phase.is_empty() && history.phases.last().is_none_or(|(_, last)| last.as_str() != phase) {
            history.phases.push((at, Phase::from(phase)));
        }
        let provider_id = text(object, "/spec/providerID");
        if !provider_id.is_empty() {
            history.provider_ids.insert(provider_id.to_owned());
        }
    }

    /// Stores a VM's state unless a newer revision is known.
    pub fn record_vm(&mut self, vm: &Vm) {
        let known = self.vms.get(&vm.id).map_or(0, |known| known.revision);
        if vm.revision >= known {
            self.vms.insert(vm.id.clone(), vm.clone());
        }
    }

    /// A world with the kinds of a scenario.
    pub fn of_kinds(kinds: Kinds) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// The object of that kind and name in any namespace, for the kinds that the harness works with.
    pub fn object(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_key(kinds::find(kind).ok()?.key, name)
    }

    /// The object that a condition names, in any namespace.
    pub fn named(&self, api_version: Option<&str>, kind: &str, name: &str) -> Option<&Value> {
        self.of_key(self.kinds.find(api_version, kind).ok()?.key, name)
    }

    /// The object that a condition refers to, in any namespace.
    pub fn referenced(&self, object: &ObjectReference) -> Option<&Value> {
        self.named(object.api_version.as_deref(), &object.kind, &object.name)
    }

    fn of_key(&self, key: &'static str, name: &str) -> Option<&Value> {
        let mut key = (key, String::new(), name.to_owned());
        loop {
            // First object at or after the name in a namespace: the object itself, another one of that namespace, or
            // one of a later namespace.
            let ((of, namespace, found), object) = self.objects.range(&key..).next()?;
            if *of != key.0 {
                return None;
            }
            if found == name {
                return Some(object);
            }
            key.1 = if *namespace == key.1 {
                format!("{namespace}\0")
            } else {
                namespace.clone()
            };
        }
    }

    /// All objects of that kind.
    pub fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        let first = (kind, String::new(), String::new());
        self.objects
            .range(first..)
            .take_while(move |((of, _, _), _)| *of == kind)
            .map(|(_, object)| object)
    }

    /// The VMs of a machine that are not terminated.
    pub fn vms_of<'a>(&'a self, machine: &'a str) -> impl Iterator<Item = &'a Vm> {
        self.vms
            .values()
            .filter(move |vm| vm.machine == machine && vm.state != VmState::Terminated)
    }

    /// The last observed phase of an existing machine.
    pub fn phase(&self, machine: &str) -> Option<&Phase> {
        let history = self.machines.get(machine).filter(|history| history.exists)?;
        history.phases.last().map(|(_, phase)| phase)
    }
}

/// The Machines of a deployment, by their label.
pub fn machines_of<'a>(world: &'a WorldState, deployment: &'a str) -> impl Iterator<Item = &'a Value> {
    world
        .of_kind("Machine")
        .filter(move |machine| label(machine, keys::DEPLOYMENT_LABEL) == deployment)
}
