//! How a kubelet joins: credentials, registration, and the loss of its Node.

use jiff::Timestamp;

use super::calls::{Effect, Outcome, Request, backoff};
use super::fleet::{Fleet, Stage, Timer};
use super::token::{Credentials, Refusal};
use crate::model::later;

impl Fleet {
    pub(super) fn join(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
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
                let name = token.secret_name();
                kubelet.stage = Stage::Calling(Some(token));
                self.call(vm, Request::ReadSecret { name }, now);
            }
            // Nothing changes until the VM is replaced, so a retry is useless.
            Credentials::Placeholder => self.reject(vm, &Refusal::Placeholder.to_string(), None),
        }
    }

    fn register(&mut self, vm: u64, now: Timestamp) {
        let external = self.settings.external_cloud_provider;
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.stage = Stage::Calling(None);
        match kubelet.host.node(&self.cloud, external, kubelet.faults.clock(now)) {
            Ok(node) => self.call(vm, Request::Register { node: Box::new(node) }, now),
            Err(error) => self.reject(vm, &format!("its Node cannot be built: {error}"), None),
        }
    }

    pub(super) fn secret_read(&mut self, vm: u64, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let Stage::Calling(Some(token)) = std::mem::replace(&mut kubelet.stage, Stage::Joining) else {
            return;
        };
        match outcome {
            Outcome::Secret(data) => match token.check(data.as_ref(), now) {
                Ok(()) => self.register(vm, now),
                Err(refusal) => self.reject(vm, &refusal.to_string(), Some(now)),
            },
            Outcome::Gone => self.reject(vm, &Refusal::Unknown.to_string(), Some(now)),
            _ => self.join_later(vm, now),
        }
    }

    pub(super) fn register_done(&mut self, vm: u64, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.stage = Stage::Joining;
        let name = kubelet.host.node.clone();
        match outcome {
            Outcome::Node(facts) if facts.belongs_to(&kubelet.host.provider_id) => {
                kubelet.stage = Stage::Registered(facts);
                kubelet.refused = None;
                kubelet.failures.join = 0;
                if !std::mem::replace(&mut kubelet.joined, true) {
                    let vm = kubelet.host.vm.clone();
                    self.effects.push(Effect::Joined { vm });
                }
                self.timers.set(Timer::Lease(vm), now);
                self.timers.set(Timer::Status(vm), now);
                self.deliver_missed_pods(&name, now);
            }
            Outcome::Node(facts) if kubelet.faults.take_over() => {
                kubelet.stage = Stage::Calling(None);
                let message = format!("it deletes the Node {name} of {:?}", facts.provider_id);
                self.report(vm, "TakesOver", &message);
                self.call(vm, Request::DeleteNode { name, uid: facts.uid }, now);
            }
            Outcome::Node(facts) => {
                let message = format!("a Node {name} exists with the provider id {:?}", facts.provider_id);
                self.reject(vm, &message, Some(now));
            }
            _ => self.join_later(vm, now),
        }
    }

    /// The Node of another VM was deleted, or the deletion failed.
    pub(super) fn node_deleted(&mut self, vm: u64, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::Done | Outcome::Gone => self.register(vm, now),
            _ => self.join_later(vm, now),
        }
    }

    /// Joining was rejected. Reported once for each reason; retried after the retry period if `now` is given.
    fn reject(&mut self, vm: u64, reason: &str, now: Option<Timestamp>) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.stage = Stage::Joining;
        if let Some(now) = now {
            self.timers.set(Timer::Join(vm), later(now, self.settings.join_retry));
        }
        if kubelet.refused.as_deref() != Some(reason) {
            kubelet.refused = Some(reason.to_owned());
            self.report(vm, "Refused", reason);
        }
    }

    /// A call failed: retry later.
    fn join_later(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.stage = Stage::Joining;
        kubelet.failures.join += 1;
        let wait = backoff(kubelet.failures.join, self.settings.join_retry);
        self.timers.set(Timer::Join(vm), later(now, wait));
    }

    /// The Node of a running kubelet was deleted.
    pub(super) fn lose_node(&mut self, vm: u64, now: Timestamp) {
        self.end_pulse(vm, now);
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let zombie = kubelet.faults.zombie();
        kubelet.stage = if zombie { Stage::Joining } else { Stage::NodeGone };
        kubelet.status_under_way = false;
        kubelet.lease_known = false;
        kubelet.lease_under_way = false;
        let node = kubelet.host.node.clone();
        for timer in [Timer::Join, Timer::Lease, Timer::Status] {
            self.timers.cancel(&timer(vm));
        }
        self.cancel_pods(&node);
        if zombie {
            let at = later(now, self.settings.start_delay);
            self.timers.set(Timer::Join(vm), at);
            self.report(vm, "NodeGone", "its Node was deleted; it registers again");
        } else {
            let message = "its Node was deleted; it registers again when it is restarted";
            self.report(vm, "NodeGone", message);
        }
    }
}
