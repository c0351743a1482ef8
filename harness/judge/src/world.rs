//! The world as it was last seen, and what of its history expectations ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::Phase;
use mcm_api::keys;
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::kinds::{self, Kind};
use scenario::observation::{Observation, Seen};
use serde_json::Value;

use crate::interest::Interest;
use crate::object::{label, text};

/// Kind, namespace and name.
pub type ObjectKey = (&'static str, String, String);

/// How often each thing happened.
pub type PreservationCounts = BTreeMap<String, u64>;

/// The world as it was last seen.
#[derive(Clone, Debug, Default)]
pub struct WorldState {
    /// All watched objects.
    pub objects: BTreeMap<ObjectKey, Value>,
    /// What machines went through, by name; outlives the Machine.
    pub machines: BTreeMap<String, MachineHistory>,
    /// All VMs that ever were, by id.
    pub vms: BTreeMap<String, Vm>,
    /// Answered driver calls, by call and machine.
    pub calls: BTreeMap<(String, String), u64>,
    /// Hits of fault rules, by rule.
    pub faults: BTreeMap<String, u64>,
    /// Nodes that are not fakecloud's, as they were first seen.
    pub foreign_nodes: BTreeMap<String, Interest>,
    /// Who leads among the controllers, as their Lease says; `None`: there is no Lease.
    pub leadership: Option<Leadership>,
    /// What became of preservations, by kind.
    pub preserved: PreservationCounts,
}

/// What the Lease of the controllers says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// Whose it is; empty: nobody's.
    pub holder: String,
    /// When it was renewed last.
    pub renewed: Timestamp,
    /// How long it is valid from then on.
    pub duration: Duration,
}

impl Leadership {
    /// As a Lease says it; `None`: it lacks something.
    pub fn of(lease: &Value) -> Option<Self> {
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64()?;
        Some(Self {
            holder: text(lease, "/spec/holderIdentity").to_owned(),
            renewed: text(lease, "/spec/renewTime").parse().ok()?,
            duration: Duration::from_secs(seconds),
        })
    }
}

/// What one machine went through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineHistory {
    /// Its uid; another one begins the history anew.
    pub uid: String,
    /// Every phase and when it was first seen.
    pub phases: Vec<(Timestamp, Phase)>,
    /// Every provider id that it had.
    pub provider_ids: BTreeSet<String>,
    /// Whether the Machine is there.
    pub exists: bool,
}

/// The key of an object.
pub fn key(kind: &'static Kind, object: &Value) -> ObjectKey {
    (
        kind.kind,
        text(object, "/metadata/namespace").to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

impl WorldState {
    /// Takes an observation in; gives the object as it was before.
    pub fn absorb(&mut self, observation: &Observation) -> Option<Value> {
        match &observation.what {
            Seen::Applied(kind, lease) if kind.kind == "Lease" => {
                self.leadership = Leadership::of(lease);
                None
            }
            Seen::Deleted(kind, _) if kind.kind == "Lease" => {
                self.leadership = None;
                None
            }
            Seen::Applied(kind, object) => {
                if kind.kind == "Machine" {
                    self.machine_seen(observation.at, object);
                }
                if kind.kind == "Node"
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
                if kind.kind == "Node" {
                    self.foreign_nodes.remove(&key.2);
                }
                if kind.kind == "Machine"
                    && let Some(history) = self.machines.get_mut(&key.2)
                {
                    history.exists = false;
                }
                self.objects.remove(&key)
            }
            Seen::Cloud(CloudEvent::Vm(vm)) => {
                self.vm_seen(vm);
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

    /// Counts what became of preservations.
    pub fn count(&mut self, happened: impl IntoIterator<Item = String>) {
        for happened in happened {
            *self.preserved.entry(happened).or_default() += 1;
        }
    }

    fn machine_seen(&mut self, at: Timestamp, object: &Value) {
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

    /// Takes a VM's state in unless a newer one is known.
    pub fn vm_seen(&mut self, vm: &Vm) {
        let known = self.vms.get(&vm.id).map_or(0, |known| known.revision);
        if vm.revision >= known {
            self.vms.insert(vm.id.clone(), vm.clone());
        }
    }

    /// The object of that kind and name, in whatever namespace.
    pub fn object(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut key = (kinds::find(kind).ok()?.kind, String::new(), name.to_owned());
        loop {
            // The first object at or behind the name in a namespace: it, or another of that namespace, or of a later one.
            let ((of, namespace, called), object) = self.objects.range(&key..).next()?;
            if *of != key.0 {
                return None;
            }
            if called == name {
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

    /// The phase that a machine that is there was last seen in.
    pub fn phase(&self, machine: &str) -> Option<&Phase> {
        let history = self.machines.get(machine).filter(|history| history.exists)?;
        history.phases.last().map(|(_, phase)| phase)
    }
}

/// The Machines of a deployment: those with its name in their label.
pub fn machines_of<'a>(world: &'a WorldState, deployment: &'a str) -> impl Iterator<Item = &'a Value> {
    world
        .of_kind("Machine")
        .filter(move |machine| label(machine, keys::DEPLOYMENT_LABEL) == deployment)
}
