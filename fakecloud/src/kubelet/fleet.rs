//! All simulated kubelets as one pure model.
//!
//! It is given what the cloud, the API server and time bring, and answers the API calls to make.
//! What lives here: joining, leases and Node status. Pods are in `pods`; the content of objects is
//! in `objects`. What must not: a client, a clock, a runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::facts::{NodeFacts, PodKey};
use super::objects::Host;
use super::pods::Pods;
use super::token::{self, Credentials, Refusal, Token};
use super::wheel::Wheel;
use crate::config::KubeletSettings;
use crate::model::{Vm, later};

/// One run of a kubelet: from a start of it or of its VM to its end. What comes back for a run that
/// is over is dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) vm: String,
    number: u64,
}

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Start joining, or try again.
    Join(String),
    /// Renew the Lease.
    Lease(String),
    /// Write the Node's status.
    Status(String),
    /// Start or end a pod.
    Pod(PodKey),
}

/// An API call to make. Its outcome comes back by [`Fleet::done`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Read a Secret in kube-system.
    ReadSecret { name: String },
    /// Create the Node, or read the one that is there.
    Register { node: Box<Node> },
    /// Renew the Lease, or create it.
    RenewLease { name: String, lease: Value },
    /// Patch the Node's status.
    NodeStatus { name: String, patch: Value },
    /// Patch a pod's status.
    PodStatus { pod: PodKey, patch: Value },
    /// Delete a pod of that uid without grace.
    EndPod { pod: PodKey, uid: String },
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The data of the Secret; `None`: there is none.
    Secret(Option<BTreeMap<String, ByteString>>),
    /// The Node as it is now.
    Node(NodeFacts),
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

#[derive(Debug)]
enum Stage {
    /// Not registered yet, or not let in.
    Joining,
    /// A call for joining is under way, perhaps with the token that it checks.
    Asking(Option<Token>),
    /// Registered as that Node.
    Registered(NodeFacts),
    /// The Node was deleted under the kubelet; it is registered again by the kubelet's next start.
    NodeGone,
}

#[derive(Debug)]
pub(super) struct Kubelet {
    run: Run,
    pub(super) host: Host,
    stage: Stage,
    joined: bool,
    credentials: Credentials,
    /// Why it was not let in; said once.
    refused: Option<String>,
    lease_failures: u32,
    status_failures: u32,
    join_failures: u32,
    status_written: Option<Timestamp>,
    status_under_way: bool,
}

/// All kubelets.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) settings: KubeletSettings,
    kubelets: BTreeMap<String, Kubelet>,
    /// The VMs whose kubelets want to be that Node.
    nodes: BTreeMap<String, BTreeSet<String>>,
    pub(super) pods: Pods,
    pub(super) wheel: Wheel<Timer>,
    pub(super) effects: Vec<Effect>,
    runs: u64,
}

impl Fleet {
    pub(super) fn new(settings: KubeletSettings) -> Self {
        Self {
            settings,
            kubelets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: Pods::default(),
            wheel: Wheel::new(),
            effects: Vec::new(),
            runs: 0,
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

    /// Whether that run of a kubelet still goes on.
    pub(super) fn is_current(&self, run: &Run) -> bool {
        self.kubelets.get(&run.vm).is_some_and(|kubelet| kubelet.run == *run)
    }

    /// A VM is as it is: its kubelet starts, goes on, restarts or stops.
    pub(super) fn vm(&mut self, vm: &Vm, host: impl FnOnce(&Vm) -> Host, now: Timestamp) {
        let runs = vm.kubelet_runs();
        let known = self
            .kubelets
            .get(&vm.id)
            .map(|kubelet| kubelet.host.boot_id == vm.boot_id);
        match (runs, known) {
            (true, Some(true)) | (false, None) => {}
            (false, Some(_)) => self.stop(&vm.id),
            (true, None) => self.start(vm, host(vm), now),
            (true, Some(false)) => {
                self.stop(&vm.id);
                self.start(vm, host(vm), now);
            }
        }
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(timer) = self.wheel.pop(now) {
            match timer {
                Timer::Join(vm) => self.join(&vm, now),
                Timer::Lease(vm) => self.renew_lease(&vm, now),
                Timer::Status(vm) => self.write_status(&vm, now),
                Timer::Pod(pod) => self.pod_due(&pod, now),
            }
        }
    }

    /// A Node was seen.
    pub(super) fn node_seen(&mut self, name: &str, facts: &NodeFacts, now: Timestamp) {
        let sync = self.settings.status_sync.0;
        for vm in self.nodes.get(name).into_iter().flatten() {
            let Some(kubelet) = self.kubelets.get_mut(vm) else {
                continue;
            };
            let Stage::Registered(known) = &mut kubelet.stage else {
                continue;
            };
            if known.uid != facts.uid {
                continue;
            }
            known.clone_from(facts);
            if !Host::is_reported(facts) && !kubelet.status_under_way {
                let next = kubelet
                    .status_written
                    .map_or(now, |written| later(written, sync))
                    .max(now);
                self.wheel.set_earlier(Timer::Status(kubelet.run.vm.clone()), next);
            }
        }
    }

    /// A Node of that uid is there no more.
    pub(super) fn node_gone(&mut self, name: &str, uid: &str) {
        let vms: Vec<String> = self.nodes.get(name).into_iter().flatten().cloned().collect();
        for vm in vms {
            if self.registered(&vm).is_some_and(|known| known.uid == uid) {
                self.lose_node(&vm);
            }
        }
    }

    /// The Nodes that kubelets are registered as: name and uid.
    pub(super) fn registrations(&self) -> Vec<(String, String)> {
        let registration = |kubelet: &Kubelet| match &kubelet.stage {
            Stage::Registered(known) => Some((kubelet.host.node.clone(), known.uid.clone())),
            Stage::Joining | Stage::Asking(_) | Stage::NodeGone => None,
        };
        self.kubelets.values().filter_map(registration).collect()
    }

    /// An API call has ended.
    pub(super) fn done(&mut self, run: &Run, request: &Request, outcome: Outcome, now: Timestamp) {
        match request {
            Request::PodStatus { pod, .. } | Request::EndPod { pod, .. } => self.pod_done(pod, outcome, now),
            _ if !self.is_current(run) => {}
            Request::ReadSecret { .. } => self.secret_read(&run.vm, outcome, now),
            Request::Register { node } => {
                let created = node.metadata.name.as_deref().unwrap_or_default();
                self.register_done(&run.vm, created, outcome, now);
            }
            Request::RenewLease { .. } => self.lease_done(&run.vm, &outcome, now),
            Request::NodeStatus { .. } => self.status_done(&run.vm, outcome, now),
        }
    }

    /// The kubelet that is registered as that Node.
    pub(super) fn kubelet_of(&self, node: &str) -> Option<&Kubelet> {
        let kubelets = self.nodes.get(node)?.iter().filter_map(|vm| self.kubelets.get(vm));
        kubelets
            .into_iter()
            .find(|kubelet| matches!(kubelet.stage, Stage::Registered(_)))
    }

    fn registered(&self, vm: &str) -> Option<&NodeFacts> {
        match &self.kubelets.get(vm)?.stage {
            Stage::Registered(known) => Some(known),
            Stage::Joining | Stage::Asking(_) | Stage::NodeGone => None,
        }
    }

    fn start(&mut self, vm: &Vm, host: Host, now: Timestamp) {
        self.runs += 1;
        self.nodes.entry(host.node.clone()).or_default().insert(vm.id.clone());
        let kubelet = Kubelet {
            run: Run {
                vm: vm.id.clone(),
                number: self.runs,
            },
            host,
            stage: Stage::Joining,
            joined: vm.joined,
            credentials: token::find(vm.user_data.reveal()),
            refused: None,
            lease_failures: 0,
            status_failures: 0,
            join_failures: 0,
            status_written: None,
            status_under_way: false,
        };
        self.kubelets.insert(vm.id.clone(), kubelet);
        self.wheel
            .set(Timer::Join(vm.id.clone()), later(now, self.settings.start_delay.0));
        self.report(&vm.id, "Started", "the kubelet starts");
    }

    fn stop(&mut self, vm: &str) {
        let Some(kubelet) = self.kubelets.remove(vm) else {
            return;
        };
        self.stop_duties(vm);
        let was_registered = matches!(kubelet.stage, Stage::Registered(_));
        if was_registered {
            self.cancel_pods(&kubelet.host.node);
        }
        if let Some(vms) = self.nodes.get_mut(&kubelet.host.node) {
            vms.remove(vm);
            if vms.is_empty() {
                self.nodes.remove(&kubelet.host.node);
            }
        }
        self.report(vm, "Ended", "the kubelet has stopped");
    }

    fn stop_duties(&mut self, vm: &str) {
        for timer in [Timer::Join, Timer::Lease, Timer::Status] {
            self.wheel.cancel(&timer(vm.to_owned()));
        }
    }

    fn join(&mut self, vm: &str, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        let credentials = if kubelet.joined {
            Credentials::None
        } else {
            kubelet.credentials.clone()
        };
        match credentials {
            Credentials::None => self.register(vm, now),
            Credentials::Token(token) => {
                let request = Request::ReadSecret {
                    name: token.secret_name(),
                };
                kubelet.stage = Stage::Asking(Some(token));
                self.effects.push(Effect::Call(kubelet.run.clone(), request));
            }
            // Nothing changes until the VM is replaced, so there is nothing to try again.
            Credentials::Placeholder => self.refuse(vm, &Refusal::Placeholder.to_string(), None),
        }
    }

    fn register(&mut self, vm: &str, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.stage = Stage::Asking(None);
        match kubelet.host.node(now) {
            Ok(node) => {
                let request = Request::Register { node: Box::new(node) };
                self.effects.push(Effect::Call(kubelet.run.clone(), request));
            }
            Err(error) => self.refuse(vm, &format!("its Node cannot be built: {error}"), None),
        }
    }

    fn secret_read(&mut self, vm: &str, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        let Stage::Asking(Some(token)) = std::mem::replace(&mut kubelet.stage, Stage::Joining) else {
            return;
        };
        match outcome {
            Outcome::Secret(data) => match token.check(data.as_ref(), now) {
                Ok(()) => self.register(vm, now),
                Err(refusal) => self.refuse(vm, &refusal.to_string(), Some(now)),
            },
            Outcome::Gone => self.refuse(vm, &Refusal::Unknown.to_string(), Some(now)),
            Outcome::Failed(_) | Outcome::Node(_) | Outcome::Done => self.join_later(vm, now),
        }
    }

    fn register_done(&mut self, vm: &str, name: &str, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.stage = Stage::Joining;
        match outcome {
            Outcome::Node(facts) if facts.provider_id == kubelet.host.provider_id => {
                kubelet.stage = Stage::Registered(facts);
                kubelet.refused = None;
                kubelet.join_failures = 0;
                if !std::mem::replace(&mut kubelet.joined, true) {
                    self.effects.push(Effect::Joined { vm: vm.to_owned() });
                }
                self.wheel.set(Timer::Lease(vm.to_owned()), now);
                self.wheel.set(Timer::Status(vm.to_owned()), now);
                self.consider_pods(name, now);
            }
            Outcome::Node(facts) => {
                let message = format!("a Node {name} is there with the provider id {:?}", facts.provider_id);
                self.refuse(vm, &message, Some(now));
            }
            Outcome::Failed(_) | Outcome::Gone | Outcome::Done | Outcome::Secret(_) => self.join_later(vm, now),
        }
    }

    /// Not let in. Said once for each reason; tried again after the retry period when `now` is
    /// given.
    fn refuse(&mut self, vm: &str, reason: &str, now: Option<Timestamp>) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.stage = Stage::Joining;
        if let Some(now) = now {
            self.wheel
                .set(Timer::Join(vm.to_owned()), later(now, self.settings.join_retry.0));
        }
        if kubelet.refused.as_deref() != Some(reason) {
            kubelet.refused = Some(reason.to_owned());
            self.report(vm, "Refused", reason);
        }
    }

    /// The API server did not answer as it should.
    fn join_later(&mut self, vm: &str, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.join_failures += 1;
        let wait = backoff(kubelet.join_failures, self.settings.join_retry.0);
        self.wheel.set(Timer::Join(vm.to_owned()), later(now, wait));
    }

    fn renew_lease(&mut self, vm: &str, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get(vm) else { return };
        let Stage::Registered(known) = &kubelet.stage else {
            return;
        };
        let lease = kubelet.host.lease(&known.uid, &self.settings, now);
        let request = Request::RenewLease {
            name: kubelet.host.node.clone(),
            lease,
        };
        self.effects.push(Effect::Call(kubelet.run.clone(), request));
    }

    fn lease_done(&mut self, vm: &str, outcome: &Outcome, now: Timestamp) {
        let period = self.settings.lease_period.0;
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        if !matches!(kubelet.stage, Stage::Registered(_)) {
            return;
        }
        let wait = if *outcome == Outcome::Done {
            kubelet.lease_failures = 0;
            period
        } else {
            kubelet.lease_failures += 1;
            backoff(kubelet.lease_failures, period)
        };
        self.wheel.set(Timer::Lease(vm.to_owned()), later(now, wait));
    }

    fn write_status(&mut self, vm: &str, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        let Stage::Registered(known) = &kubelet.stage else {
            return;
        };
        kubelet.status_written = Some(now);
        kubelet.status_under_way = true;
        let patch = kubelet.host.status_patch(known, now);
        let request = Request::NodeStatus {
            name: kubelet.host.node.clone(),
            patch,
        };
        self.effects.push(Effect::Call(kubelet.run.clone(), request));
    }

    fn status_done(&mut self, vm: &str, outcome: Outcome, now: Timestamp) {
        let period = self.settings.status_period.0;
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.status_under_way = false;
        let Stage::Registered(known) = &mut kubelet.stage else {
            return;
        };
        let wait = match outcome {
            Outcome::Node(facts) if facts.uid == known.uid => {
                *known = facts;
                kubelet.status_failures = 0;
                period
            }
            Outcome::Gone | Outcome::Node(_) => return self.lose_node(vm),
            Outcome::Failed(_) | Outcome::Done | Outcome::Secret(_) => {
                kubelet.status_failures += 1;
                backoff(kubelet.status_failures, self.settings.status_sync.0)
            }
        };
        self.wheel.set(Timer::Status(vm.to_owned()), later(now, wait));
    }

    fn lose_node(&mut self, vm: &str) {
        let Some(kubelet) = self.kubelets.get_mut(vm) else {
            return;
        };
        kubelet.stage = Stage::NodeGone;
        let node = kubelet.host.node.clone();
        self.stop_duties(vm);
        self.cancel_pods(&node);
        self.report(
            vm,
            "NodeGone",
            "its Node was deleted; it registers again when it is restarted",
        );
    }

    fn report(&mut self, vm: &str, operation: &'static str, message: &str) {
        self.effects.push(Effect::Report {
            vm: vm.to_owned(),
            operation,
            message: message.to_owned(),
        });
    }
}

impl Kubelet {
    pub(super) fn run(&self) -> &Run {
        &self.run
    }
}

/// How long to wait after so many failures in a row: a second, two, four, ..., at most `most`.
pub(super) fn backoff(failures: u32, most: Duration) -> Duration {
    let seconds = 1u64 << failures.saturating_sub(1).min(10);
    Duration::from_secs(seconds).min(most)
}
