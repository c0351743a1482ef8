//! Duties of a registered kubelet: the Lease and the Node's status.

use jiff::Timestamp;

use super::calls::{Outcome, Request, backoff};
use super::conditions::{self, DesiredConditions, Readiness};
use super::fleet::{Fleet, Kubelet, Stage, Timer};
use super::objects::Renewal;
use crate::model::{Availability, KubeletFaults, later};

impl Fleet {
    pub(super) fn renew_lease(&mut self, vm: u64, now: Timestamp) {
        self.end_pulse(vm, now);
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let Some(uid) = kubelet.registered().map(|known| known.uid.clone()) else {
            return;
        };
        kubelet.lease_under_way = true;
        let time = kubelet.faults.clock(now);
        let renewal = Renewal::new(&kubelet.host.node, &uid, &self.settings, kubelet.lease_known, time);
        self.call(vm, Request::RenewLease(Box::new(renewal)), now);
    }

    pub(super) fn lease_done(&mut self, vm: u64, outcome: &Outcome, now: Timestamp) {
        let period = self.settings.lease_period;
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        if kubelet.registered().is_none() {
            return;
        }
        kubelet.lease_under_way = false;
        kubelet.lease_known = *outcome == Outcome::Done;
        let wait = if kubelet.lease_known {
            kubelet.failures.lease = 0;
            if let Some(until) = self.pulse_until(vm, now) {
                return self.timers.set(Timer::Lease(vm), until);
            }
            period
        } else {
            kubelet.failures.lease += 1;
            backoff(kubelet.failures.lease, period)
        };
        self.timers.set(Timer::Lease(vm), later(now, wait));
    }

    /// Until when a healthy kubelet need not renew its Lease because it has announced a pulse.
    fn pulse_until(&self, vm: u64, now: Timestamp) -> Option<Timestamp> {
        let (pulses, kubelet) = (self.pulses.as_ref()?, self.kubelets.get(&vm)?);
        let sound = kubelet.availability == Availability::Up && kubelet.faults == KubeletFaults::default();
        let node = kubelet.registered().filter(|_| sound)?;
        pulses.begin(&node.uid, now, self.settings.lease_period)
    }

    /// Ends the pulse of a kubelet: from now on it renews its Lease every time, if it can.
    pub(super) fn end_pulse(&mut self, vm: u64, now: Timestamp) {
        let Some(pulses) = &self.pulses else { return };
        let node = self.kubelets.get(&vm).and_then(Kubelet::registered);
        if let Some(next) = node.and_then(|node| pulses.end(&node.uid, now)) {
            self.timers.set(Timer::Lease(vm), next);
        }
    }

    /// Whether a pulse replaces the kubelet's Lease renewals and repeated status writes.
    fn has_pulse(&self, vm: u64) -> bool {
        let node = self.kubelets.get(&vm).and_then(Kubelet::registered);
        let pulses = self.pulses.as_ref().zip(node);
        pulses.is_some_and(|(pulses, node)| pulses.beats(&node.uid))
    }

    /// The status has changed: writes it now, or after the write in flight.
    pub(super) fn status_soon(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        if kubelet.registered().is_none() {
            return;
        }
        if kubelet.status_under_way {
            kubelet.status_due = true;
        } else {
            self.timers.set_earlier(Timer::Status(vm), now);
        }
    }

    /// Other writers have changed the status: writes it again, at a limited rate.
    pub(super) fn revert_status(&mut self, vm: u64, now: Timestamp) {
        let sync = self.settings.status_sync;
        let Some(kubelet) = self.kubelets.get(&vm) else { return };
        let Some(known) = kubelet.registered() else { return };
        if kubelet.status_under_way || conditions::are_current(&kubelet.desired_conditions(), known) {
            return;
        }
        let next = kubelet
            .status_written
            .map_or(now, |written| later(written, sync))
            .max(now);
        self.timers.set_earlier(Timer::Status(vm), next);
    }

    pub(super) fn write_status(&mut self, vm: u64, now: Timestamp) {
        let external = self.settings.external_cloud_provider;
        let Some(kubelet) = self.kubelets.get(&vm) else { return };
        let Some(known) = kubelet.registered() else { return };
        let pods = self.pod_status_data(&kubelet.host.node);
        let clock = kubelet.faults.clock(now);
        let patch = kubelet
            .host
            .status_patch(external, &kubelet.desired_conditions(), known, &pods, clock);
        let content = self.pulses.as_ref().map(|_| conditions::without_times(&patch));
        let is_repeated = content.is_some() && content == kubelet.status_content;
        if is_repeated && self.has_pulse(vm) && conditions::are_current(&kubelet.desired_conditions(), known) {
            return self
                .timers
                .set(Timer::Status(vm), later(now, self.settings.status_period));
        }
        let name = kubelet.host.node.clone();
        if let Some(kubelet) = self.kubelets.get_mut(&vm) {
            kubelet.status_content = content;
            kubelet.status_written = Some(now);
            kubelet.status_under_way = true;
            kubelet.status_due = false;
        }
        self.call(vm, Request::NodeStatus { name, patch }, now);
    }

    pub(super) fn status_done(&mut self, vm: u64, outcome: Outcome, now: Timestamp) {
        let period = self.settings.status_period;
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        kubelet.status_under_way = false;
        let due = std::mem::take(&mut kubelet.status_due);
        let Stage::Registered(known) = &mut kubelet.stage else {
            return;
        };
        let wait = match outcome {
            Outcome::Node(facts) if facts.uid == known.uid => {
                let attached = known.attached != facts.attached;
                *known = facts;
                kubelet.failures.status = 0;
                let node = kubelet.host.node.clone();
                if attached {
                    self.volumes_changed(&node, now);
                }
                period
            }
            Outcome::Gone | Outcome::Node(_) => return self.lose_node(vm, now),
            _ => {
                kubelet.failures.status += 1;
                kubelet.status_content = None;
                backoff(kubelet.failures.status, self.settings.status_sync)
            }
        };
        let next = if due { now } else { later(now, wait) };
        self.timers.set(Timer::Status(vm), next);
    }
}

impl Kubelet {
    /// The desired conditions of its Node.
    pub(super) fn desired_conditions(&self) -> DesiredConditions<'_> {
        let readiness = if self.recovering {
            Readiness::Recovering
        } else {
            Readiness::Ready
        };
        conditions::desired(readiness, &self.conditions)
    }

    /// Whether it reaches the API server and receives pod events.
    pub(super) fn receives_events(&self) -> bool {
        self.availability == Availability::Up
    }
}
