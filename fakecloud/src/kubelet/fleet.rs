//! All simulated kubelets as one pure model.
//!
//! It gets events of the cloud, the API server and time, and returns API calls to make. `outages` holds starts, outages
//! and stops of kubelets, `join` joining, `duties` leases and Node status, `pods` pods, `calls` calls, and `objects`
//! the content of objects.

use std::collections::{BTreeMap, BTreeSet};

use clock::Pulses;
use jiff::Timestamp;

use super::calls::{Effect, Outcome, Request, Run};
use super::facts::NodeFacts;
use super::objects::Host;
use super::settings::Settings;
use super::token::{self, Credentials, Token};
use super::tracked::Pods;
use crate::model::{Availability, KubeletFaults, NodeCondition, Vm, VmState};
use runtime::timers::Timers;

/// What is due at a deadline; VMs and pods by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A scheduled outage begins or ends.
    Outage(u64),
    /// Start joining, or retry.
    Join(u64),
    /// Renew the Lease.
    Lease(u64),
    /// Write the Node's status.
    Status(u64),
    /// The recovery ends.
    Recovered(u64),
    /// A step of a pod is due.
    Pod(u64),
    /// A delayed call of a slow kubelet is sent.
    Send(u64),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// It does not run.
    Off,
    /// Not registered yet, or rejected.
    Joining,
    /// A call for joining is in flight, possibly with the token that it checks.
    Calling(Option<Token>),
    /// Registered as this Node.
    Registered(Box<NodeFacts>),
    /// The Node of the running kubelet was deleted; the kubelet's next start registers it again.
    NodeGone,
}

#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) join: u32,
    pub(super) lease: u32,
    pub(super) status: u32,
}

#[derive(Debug)]
pub(crate) struct Kubelet {
    pub(super) run: Run,
    pub(super) host: Host,
    pub(super) faults: KubeletFaults,
    pub(super) conditions: BTreeMap<String, Option<NodeCondition>>,
    pub(super) availability: Availability,
    pub(super) stage: Stage,
    pub(super) joined: bool,
    pub(super) credentials: Credentials,
    /// Why it was rejected; reported once.
    pub(super) refused: Option<String>,
    pub(super) failures: Failures,
    pub(super) lease_known: bool,
    pub(super) lease_under_way: bool,
    pub(super) status_written: Option<Timestamp>,
    /// The last written status without its times; in virtual time only.
    pub(super) status_content: Option<String>,
    pub(super) status_under_way: bool,
    /// Whether something changed since the status write in flight was built.
    pub(super) status_due: bool,
    pub(super) recovering: bool,
    /// Outcomes and events that arrived while it was frozen.
    pub(super) held: Vec<(Request, Outcome)>,
    /// Whether its Node was deleted while it could not observe that.
    pub(super) unseen_end: bool,
}

/// All kubelets.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(super) settings: Settings,
    /// The ID of the cloud.
    pub(super) cloud: String,
    pub(super) kubelets: BTreeMap<u64, Kubelet>,
    /// VMs whose kubelets register with this Node name.
    pub(super) nodes: BTreeMap<String, BTreeSet<u64>>,
    pub(super) pods: Pods,
    pub(super) timers: Timers<Timer>,
    pub(super) effects: Vec<Effect>,
    /// Delayed calls of slow kubelets.
    pub(super) slow: BTreeMap<u64, (Run, Request)>,
    /// Calls of kubelets that cannot reach the API server.
    pub(super) unreachable: Vec<(Run, Request)>,
    pub(super) numbers: u64,
    /// Where healthy kubelets announce pulses instead of renewing their Leases; `None`: they renew every time.
    pub(super) pulses: Option<Pulses>,
}

impl Fleet {
    pub(super) fn new(settings: Settings, cloud: String) -> Self {
        Self {
            pulses: None,
            settings,
            cloud,
            kubelets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: Pods::default(),
            timers: Timers::default(),
            effects: Vec::new(),
            slow: BTreeMap::new(),
            unreachable: Vec::new(),
            numbers: 0,
        }
    }

    /// The effects since the last call.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Time of the next deadline.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Applies the state of a VM: its kubelet starts, continues, restarts or stops.
    pub(super) fn vm(&mut self, vm: &Vm, host: impl FnOnce(&Vm) -> Host, now: Timestamp) {
        let number = vm.ordinal;
        let powered = vm.state == VmState::Running;
        let reboots = self
            .kubelets
            .get(&number)
            .is_some_and(|kubelet| !powered || kubelet.host.boot_id != vm.boot_id);
        if reboots {
            self.power_off(number, now);
        }
        if !powered {
            if vm.state == VmState::Terminated {
                self.forget(number);
            }
            return;
        }
        let kubelet = match self.kubelets.entry(number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let host = host(vm);
                self.nodes.entry(host.node.clone()).or_default().insert(number);
                entry.insert(Kubelet::new(host, token::find(vm.user_data.reveal())))
            }
        };
        kubelet.joined |= vm.joined;
        kubelet.host.boot_id.clone_from(&vm.boot_id);
        if kubelet.faults != vm.kubelet {
            kubelet.faults.clone_from(&vm.kubelet);
            self.end_pulse(number, now);
        }
        let Some(kubelet) = self.kubelets.get_mut(&number) else {
            return;
        };
        if kubelet.conditions != vm.conditions {
            kubelet.conditions.clone_from(&vm.conditions);
            self.status_soon(number, now);
        }
        self.follow_outage(number, now);
    }

    /// Processes overdue deadlines.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Outage(vm) => self.follow_outage(vm, now),
                Timer::Pod(pod) => self.pod_due(pod, now),
                Timer::Send(number) => {
                    if let Some((run, request)) = self.slow.remove(&number) {
                        self.send(run, request);
                    }
                }
                // A frozen kubelet catches up when it continues.
                Timer::Join(vm) | Timer::Lease(vm) | Timer::Status(vm) | Timer::Recovered(vm) if self.is_frozen(vm) => {
                }
                Timer::Join(vm) => self.join(vm, now),
                Timer::Lease(vm) => self.renew_lease(vm, now),
                Timer::Status(vm) => self.write_status(vm, now),
                Timer::Recovered(vm) => self.recovered(vm, now),
            }
        }
        for (run, request) in std::mem::take(&mut self.unreachable) {
            self.done(
                run,
                &request,
                Outcome::Failed("the API server is unreachable".to_owned()),
                now,
            );
        }
    }

    /// Records a Node.
    pub(super) fn node_seen(&mut self, name: &str, facts: &NodeFacts, now: Timestamp) {
        let vms: Vec<u64> = self.nodes.get(name).into_iter().flatten().copied().collect();
        for vm in vms {
            let Some(kubelet) = self.kubelets.get_mut(&vm) else {
                continue;
            };
            let Stage::Registered(known) = &mut kubelet.stage else {
                continue;
            };
            if known.uid != facts.uid {
                continue;
            }
            let attached = known.attached != facts.attached;
            (**known).clone_from(facts);
            if kubelet.availability == Availability::Up {
                if attached {
                    self.volumes_changed(name, now);
                }
                self.revert_status(vm, now);
            }
        }
    }

    /// Records the removal of a Node.
    pub(super) fn node_gone(&mut self, name: &str, uid: &str, now: Timestamp) {
        if let Some(pulses) = &self.pulses {
            pulses.forget(uid);
        }
        let vms: Vec<u64> = self.nodes.get(name).into_iter().flatten().copied().collect();
        for vm in vms {
            let Some(kubelet) = self.kubelets.get_mut(&vm) else {
                continue;
            };
            match &kubelet.stage {
                Stage::Registered(known) if known.uid == uid => {}
                _ => continue,
            }
            if kubelet.availability == Availability::Up {
                self.lose_node(vm, now);
            } else {
                kubelet.unseen_end = true;
            }
        }
    }

    /// Name and uid of the Nodes that kubelets are registered as.
    pub(super) fn registrations(&self) -> Vec<(String, String)> {
        let registration = |kubelet: &Kubelet| {
            let known = kubelet.registered()?;
            Some((kubelet.host.node.clone(), known.uid.clone()))
        };
        self.kubelets.values().filter_map(registration).collect()
    }

    /// The kubelet that is registered as a Node.
    pub(super) fn kubelet_of(&self, node: &str) -> Option<&Kubelet> {
        let kubelets = self.nodes.get(node)?.iter().filter_map(|vm| self.kubelets.get(vm));
        kubelets.into_iter().find(|kubelet| kubelet.registered().is_some())
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Removes the kubelet of a terminated VM.
    fn forget(&mut self, vm: u64) {
        let Some(kubelet) = self.kubelets.remove(&vm) else {
            return;
        };
        if let Some(vms) = self.nodes.get_mut(&kubelet.host.node) {
            vms.remove(&vm);
            if vms.is_empty() {
                self.nodes.remove(&kubelet.host.node);
                self.drop_unobserved_removals(&kubelet.host.node);
            }
        }
    }

    pub(super) fn report(&mut self, vm: u64, operation: &'static str, message: &str) {
        if let Some(kubelet) = self.kubelets.get(&vm) {
            self.effects.push(Effect::Report {
                vm: kubelet.host.vm.clone(),
                operation,
                message: message.to_owned(),
            });
        }
    }
}

impl Kubelet {
    fn new(host: Host, credentials: Credentials) -> Self {
        Self {
            run: Run {
                vm: host.ordinal,
                number: 0,
            },
            host,
            faults: KubeletFaults::default(),
            conditions: BTreeMap::new(),
            availability: Availability::Stopped,
            stage: Stage::Off,
            joined: false,
            credentials,
            refused: None,
            failures: Failures::default(),
            lease_known: false,
            lease_under_way: false,
            status_written: None,
            status_content: None,
            status_under_way: false,
            status_due: false,
            recovering: false,
            held: Vec::new(),
            unseen_end: false,
        }
    }

    /// The Node that it is registered as.
    pub(super) fn registered(&self) -> Option<&NodeFacts> {
        match &self.stage {
            Stage::Registered(known) => Some(known),
            Stage::Off | Stage::Joining | Stage::Calling(_) | Stage::NodeGone => None,
        }
    }

    /// Whether it runs and handles its pods.
    pub(super) fn handles_pods(&self) -> bool {
        let runs = matches!(self.availability, Availability::Up | Availability::Partitioned);
        runs && !self.recovering && self.registered().is_some()
    }
}
