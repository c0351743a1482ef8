//! All simulated kubelets as one pure model.
//!
//! It is given what the cloud, the API server and time bring, and answers the API calls to make.
//! What lives here: the kubelets themselves, their starts, outages and ends, and who gets which
//! timer and answer. Joining is in `join`, leases and Node status in `duties`, pods in `pods`; the
//! content of objects is in `objects`. What must not: a client, a clock, a runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::facts::{NodeFacts, PodKey};
use super::objects::{Host, Renewal};
use super::pods::Pods;
use super::token::{self, Credentials, Token};
use super::wheel::Wheel;
use crate::config::KubeletSettings;
use crate::model::{Availability, KubeletFaults, NodeCondition, Vm, VmState, later};

/// One run of a kubelet: from a start of it or of its VM to its end. What comes back for a run that
/// is over is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    /// The VM's number in the ledger.
    pub(super) vm: u64,
    number: u64,
}

/// What a deadline is for; VMs and pods by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An outage begins or ends by itself.
    Outage(u64),
    /// Start joining, or try again.
    Join(u64),
    /// Renew the Lease.
    Lease(u64),
    /// Write the Node's status.
    Status(u64),
    /// The recovery is over.
    Recovered(u64),
    /// Something of a pod is due.
    Pod(u64),
    /// A call of a slow kubelet goes out.
    Send(u64),
}

/// An API call to make. Its outcome comes back by [`Fleet::done`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Read a Secret in kube-system.
    ReadSecret { name: String },
    /// Create the Node, or read the one that is there.
    Register { node: Box<Node> },
    /// Delete the Node of that uid.
    DeleteNode { name: String, uid: String },
    /// Renew the Lease, or create it.
    RenewLease(Box<Renewal>),
    /// Patch the Node's status.
    NodeStatus { name: String, patch: Value },
    /// Find the volumes behind the claims of a pod.
    ReadVolumes {
        pod: PodKey,
        number: u64,
        claims: Vec<String>,
    },
    /// Patch a pod's status.
    PodStatus { pod: PodKey, number: u64, patch: Value },
    /// Delete a pod of that uid without grace.
    EndPod { pod: PodKey, number: u64, uid: String },
    /// Delete a mirror pod of that uid, and create it anew.
    RenewMirror { pod: PodKey, number: u64, uid: String },
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The data of the Secret; `None`: there is none.
    Secret(Option<BTreeMap<String, ByteString>>),
    /// The Node as it is now.
    Node(Box<NodeFacts>),
    /// The names of the volumes that must be attached; `None`: not every claim is bound.
    Volumes(Option<Vec<String>>),
    /// A pod was written, and has that resource version.
    Written(u64),
    /// It is done.
    Done,
    /// The object is not there, or is another one.
    Gone,
    /// It did not work; it is tried again.
    Failed(String),
}

/// What the fleet wants from its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Make an API call for that run of a kubelet.
    Call(Run, Request),
    /// The VM's kubelet has registered its Node.
    Joined { vm: String },
    /// Something for the cloud's log.
    Report {
        vm: String,
        operation: &'static str,
        message: String,
    },
}

/// What becomes of a call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The API server is out of reach.
    Unreachable,
    /// The kubelet that wanted it is no more.
    Dropped,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// It does not run.
    Off,
    /// Not registered yet, or not let in.
    Joining,
    /// A call for joining is under way, perhaps with the token that it checks.
    Asking(Option<Token>),
    /// Registered as that Node.
    Registered(Box<NodeFacts>),
    /// The Node was deleted under the kubelet; it is registered again by the kubelet's next start.
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
    /// Why it was not let in; said once.
    pub(super) refused: Option<String>,
    pub(super) failures: Failures,
    pub(super) lease_known: bool,
    pub(super) status_written: Option<Timestamp>,
    pub(super) status_under_way: bool,
    /// Something has changed since the status that is under way was made.
    pub(super) status_due: bool,
    pub(super) recovering: bool,
    /// What came while it was frozen.
    held: Vec<(Request, Outcome)>,
    /// Its Node went while it could not see that.
    unseen_end: bool,
}

/// All kubelets.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(super) settings: KubeletSettings,
    /// The cloud's own id.
    pub(super) cloud: String,
    pub(super) kubelets: BTreeMap<u64, Kubelet>,
    /// The VMs whose kubelets want to be that Node.
    pub(super) nodes: BTreeMap<String, BTreeSet<u64>>,
    pub(super) pods: Pods,
    pub(super) wheel: Wheel<Timer>,
    pub(super) effects: Vec<Effect>,
    /// Calls of slow kubelets that have not gone out.
    slow: BTreeMap<u64, (Run, Request)>,
    /// Calls of kubelets that do not reach the API server.
    unreachable: Vec<(Run, Request)>,
    numbers: u64,
}

impl Fleet {
    pub(super) fn new(settings: KubeletSettings, cloud: String) -> Self {
        Self {
            settings,
            cloud,
            kubelets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: Pods::default(),
            wheel: Wheel::new(),
            effects: Vec::new(),
            slow: BTreeMap::new(),
            unreachable: Vec::new(),
            numbers: 0,
        }
    }

    /// The effects since the last time.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When something is to be done next.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.wheel.next()
    }

    /// Whether a call may go out.
    pub(super) fn gate(&self, run: Run) -> Gate {
        match self.kubelets.get(&run.vm) {
            Some(kubelet) if kubelet.run != run || matches!(kubelet.stage, Stage::Off) => Gate::Dropped,
            Some(kubelet) if kubelet.availability == Availability::Partitioned => Gate::Unreachable,
            Some(_) => Gate::Open,
            None => Gate::Dropped,
        }
    }

    /// A VM is as it is: its kubelet starts, goes on, restarts or stops.
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
        kubelet.faults.clone_from(&vm.kubelet);
        if kubelet.conditions != vm.conditions {
            kubelet.conditions.clone_from(&vm.conditions);
            self.status_soon(number, now);
        }
        self.follow_outage(number, now);
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(timer) = self.wheel.pop(now) {
            match timer {
                Timer::Outage(vm) => self.follow_outage(vm, now),
                Timer::Pod(pod) => self.pod_due(pod, now),
                Timer::Send(number) => {
                    if let Some((run, request)) = self.slow.remove(&number) {
                        self.send(run, request);
                    }
                }
                // What a frozen kubelet misses it does when it goes on.
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
                Outcome::Failed("the API server is out of reach".to_owned()),
                now,
            );
        }
    }

    /// A Node was seen.
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
                self.mend_status(vm, now);
            }
        }
    }

    /// A Node of that uid is there no more.
    pub(super) fn node_gone(&mut self, name: &str, uid: &str, now: Timestamp) {
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

    /// The Nodes that kubelets are registered as: name and uid.
    pub(super) fn registrations(&self) -> Vec<(String, String)> {
        let registration = |kubelet: &Kubelet| {
            let known = kubelet.registered()?;
            Some((kubelet.host.node.clone(), known.uid.clone()))
        };
        self.kubelets.values().filter_map(registration).collect()
    }

    /// An API call has ended.
    pub(super) fn done(&mut self, run: Run, request: &Request, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&run.vm).filter(|kubelet| kubelet.run == run) else {
            return;
        };
        let outcome = match kubelet.availability {
            Availability::Up => outcome,
            Availability::Stopped => return,
            Availability::Partitioned => Outcome::Failed("the API server is out of reach".to_owned()),
            Availability::Frozen => return kubelet.held.push((request.clone(), outcome)),
        };
        match request {
            Request::PodStatus { number, .. }
            | Request::EndPod { number, .. }
            | Request::ReadVolumes { number, .. }
            | Request::RenewMirror { number, .. } => self.pod_done(*number, request, outcome, now),
            Request::ReadSecret { .. } => self.secret_read(run.vm, outcome, now),
            Request::Register { .. } => self.register_done(run.vm, outcome, now),
            Request::DeleteNode { .. } => self.node_deleted(run.vm, &outcome, now),
            Request::RenewLease(_) => self.lease_done(run.vm, &outcome, now),
            Request::NodeStatus { .. } => self.status_done(run.vm, outcome, now),
        }
    }

    /// The kubelet that is registered as that Node.
    pub(super) fn kubelet_of(&self, node: &str) -> Option<&Kubelet> {
        let kubelets = self.nodes.get(node)?.iter().filter_map(|vm| self.kubelets.get(vm));
        kubelets.into_iter().find(|kubelet| kubelet.registered().is_some())
    }

    /// A kubelet wants to make a call.
    pub(super) fn call(&mut self, vm: u64, request: Request, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get(&vm) else { return };
        let (run, delay) = (kubelet.run, kubelet.faults.slow());
        if delay.is_zero() {
            return self.send(run, request);
        }
        self.numbers += 1;
        self.slow.insert(self.numbers, (run, request));
        self.wheel.set(Timer::Send(self.numbers), later(now, delay));
    }

    fn send(&mut self, run: Run, request: Request) {
        match self.gate(run) {
            Gate::Open => self.effects.push(Effect::Call(run, request)),
            Gate::Unreachable => self.unreachable.push((run, request)),
            Gate::Dropped => {}
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn is_frozen(&self, vm: u64) -> bool {
        let kubelet = self.kubelets.get(&vm);
        kubelet.is_some_and(|kubelet| kubelet.availability == Availability::Frozen)
    }

    /// Brings a kubelet to where its faults have it now.
    fn follow_outage(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let (target, next) = kubelet.faults.availability(now);
        let timer = Timer::Outage(vm);
        match next {
            Some(next) => self.wheel.set(timer, next),
            None => self.wheel.cancel(&timer),
        }
        let before = std::mem::replace(&mut kubelet.availability, target);
        match (before, target) {
            (before, target) if before == target => {}
            (Availability::Stopped, _) => {
                self.start(vm, now);
                self.tell_outage(vm, target);
            }
            (_, Availability::Stopped) => {
                self.stop(vm);
            }
            (_, Availability::Up) => {
                self.report(vm, "Resumed", "the kubelet is back");
                self.resume(vm, before == Availability::Frozen, now);
            }
            (before, _) => {
                self.tell_outage(vm, target);
                if before == Availability::Frozen {
                    self.thaw(vm, now);
                    let node = self.kubelets.get(&vm).map(|kubelet| kubelet.host.node.clone());
                    self.consider_pods(&node.unwrap_or_default(), now);
                }
            }
        }
    }

    fn tell_outage(&mut self, vm: u64, target: Availability) {
        match target {
            Availability::Partitioned => {
                self.report(vm, "Partitioned", "the kubelet does not reach the API server");
            }
            Availability::Frozen => self.report(vm, "Frozen", "the kubelet does nothing"),
            Availability::Up | Availability::Stopped => {}
        }
    }

    fn start(&mut self, vm: u64, now: Timestamp) {
        let number = self.number();
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.run.number = number;
        kubelet.stage = Stage::Joining;
        kubelet.refused = None;
        kubelet.failures = Failures::default();
        kubelet.lease_known = false;
        kubelet.status_written = None;
        kubelet.status_under_way = false;
        kubelet.status_due = false;
        kubelet.unseen_end = false;
        kubelet.held.clear();
        self.wheel.set(Timer::Join(vm), later(now, self.settings.start_delay.0));
        self.report(vm, "Started", "the kubelet starts");
        self.recover(vm, later(now, self.settings.start_delay.0));
    }

    /// The kubelet's process ends. Its containers go on.
    fn stop(&mut self, vm: u64) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.availability = Availability::Stopped;
        if matches!(kubelet.stage, Stage::Off) {
            return;
        }
        let was_registered = kubelet.registered().is_some();
        kubelet.stage = Stage::Off;
        let node = kubelet.host.node.clone();
        self.stop_duties(vm);
        if was_registered {
            self.cancel_pods(&node);
        }
        self.report(vm, "Ended", "the kubelet has stopped");
    }

    /// The VM stops: the kubelet ends, and all containers.
    fn power_off(&mut self, vm: u64, now: Timestamp) {
        self.stop(vm);
        self.wheel.cancel(&Timer::Outage(vm));
        if let Some(node) = self.kubelets.get(&vm).map(|kubelet| kubelet.host.node.clone()) {
            self.lose_containers(&node, vm, now);
        }
    }

    /// The VM is no more.
    fn forget(&mut self, vm: u64) {
        let Some(kubelet) = self.kubelets.remove(&vm) else {
            return;
        };
        if let Some(vms) = self.nodes.get_mut(&kubelet.host.node) {
            vms.remove(&vm);
            if vms.is_empty() {
                self.nodes.remove(&kubelet.host.node);
                self.drop_unseen_ends(&kubelet.host.node);
            }
        }
    }

    /// An outage is over.
    fn resume(&mut self, vm: u64, frozen: bool, now: Timestamp) {
        self.recover(vm, now);
        if frozen {
            self.thaw(vm, now);
        }
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        if std::mem::take(&mut kubelet.unseen_end) {
            return self.lose_node(vm, now);
        }
        if kubelet.registered().is_none() {
            return;
        }
        let node = kubelet.host.node.clone();
        self.mend_status(vm, now);
        self.hear_pods(&node, now);
    }

    /// A kubelet that was frozen goes on: with the answers that came, and what it has missed.
    fn thaw(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let (run, held) = (kubelet.run, std::mem::take(&mut kubelet.held));
        for (request, outcome) in held {
            self.done(run, &request, outcome, now);
        }
        let Some(kubelet) = self.kubelets.get(&vm) else { return };
        let missed: &[Timer] = match &kubelet.stage {
            Stage::Joining if !matches!(kubelet.credentials, Credentials::Placeholder) => &[Timer::Join(vm)],
            Stage::Registered(_) if kubelet.status_under_way => &[Timer::Lease(vm)],
            Stage::Registered(_) => &[Timer::Lease(vm), Timer::Status(vm)],
            Stage::Off | Stage::Joining | Stage::Asking(_) | Stage::NodeGone => &[],
        };
        for timer in missed {
            if !self.wheel.is_set(timer) {
                self.wheel.set(*timer, now);
            }
        }
        if kubelet.recovering && !self.wheel.is_set(&Timer::Recovered(vm)) {
            self.wheel.set(Timer::Recovered(vm), now);
        }
    }

    /// Slow recovery begins.
    fn recover(&mut self, vm: u64, from: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let takes = kubelet.faults.recovery();
        kubelet.recovering = !takes.is_zero();
        if takes.is_zero() {
            self.wheel.cancel(&Timer::Recovered(vm));
        } else {
            self.wheel.set(Timer::Recovered(vm), later(from, takes));
        }
    }

    fn recovered(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.recovering = false;
        let node = kubelet.host.node.clone();
        self.status_soon(vm, now);
        self.consider_pods(&node, now);
    }

    pub(super) fn stop_duties(&mut self, vm: u64) {
        for timer in [Timer::Join, Timer::Lease, Timer::Status, Timer::Recovered] {
            self.wheel.cancel(&timer(vm));
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
            status_written: None,
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
            Stage::Off | Stage::Joining | Stage::Asking(_) | Stage::NodeGone => None,
        }
    }

    /// Whether it does anything with its pods.
    pub(super) fn handles_pods(&self) -> bool {
        let runs = matches!(self.availability, Availability::Up | Availability::Partitioned);
        runs && !self.recovering && self.registered().is_some()
    }
}

/// How long to wait after so many failures in a row: a second, two, four, ..., at most `most`.
pub(super) fn backoff(failures: u32, most: Duration) -> Duration {
    let seconds = 1u64 << failures.saturating_sub(1).min(10);
    Duration::from_secs(seconds).min(most)
}
