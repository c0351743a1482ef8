//! Outages of kubelets: starts and stops of the process, partitions, freezes, and recovery. The model's `kubelet`
//! decides when they begin and end.

use jiff::Timestamp;

use super::fleet::{Failures, Fleet, Stage, Timer};
use super::token::Credentials;
use crate::model::{Availability, later};

impl Fleet {
    pub(super) fn is_frozen(&self, vm: u64) -> bool {
        let kubelet = self.kubelets.get(&vm);
        kubelet.is_some_and(|kubelet| kubelet.availability == Availability::Frozen)
    }

    /// Applies the availability that a kubelet's faults currently give.
    pub(super) fn follow_outage(&mut self, vm: u64, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let (target, next) = kubelet.faults.availability(now);
        let timer = Timer::Outage(vm);
        match next {
            Some(next) => self.timers.set(timer, next),
            None => self.timers.cancel(&timer),
        }
        let before = std::mem::replace(&mut kubelet.availability, target);
        if before != target {
            self.end_pulse(vm, now);
        }
        match (before, target) {
            (before, target) if before == target => {}
            (Availability::Stopped, _) => {
                self.start(vm, now);
                self.report_outage(vm, target);
            }
            (_, Availability::Stopped) => {
                self.stop(vm);
            }
            (_, Availability::Up) => {
                self.report(vm, "Resumed", "the kubelet is back");
                self.resume(vm, before == Availability::Frozen, now);
            }
            (before, _) => {
                self.report_outage(vm, target);
                if before == Availability::Frozen {
                    self.thaw(vm, now);
                    let node = self.kubelets.get(&vm).map(|kubelet| kubelet.host.node.clone());
                    self.consider_pods(&node.unwrap_or_default(), now);
                }
            }
        }
    }

    fn report_outage(&mut self, vm: u64, target: Availability) {
        match target {
            Availability::Partitioned => {
                self.report(vm, "Partitioned", "the kubelet cannot reach the API server");
            }
            Availability::Frozen => self.report(vm, "Frozen", "the kubelet is frozen"),
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
        kubelet.lease_under_way = false;
        kubelet.status_written = None;
        kubelet.status_content = None;
        kubelet.status_under_way = false;
        kubelet.status_due = false;
        kubelet.unseen_end = false;
        kubelet.held.clear();
        self.timers.set(Timer::Join(vm), later(now, self.settings.start_delay));
        self.report(vm, "Started", "the kubelet starts");
        self.recover(vm, later(now, self.settings.start_delay));
    }

    /// The kubelet's process ends. Its containers continue.
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

    /// The VM stops: its kubelet and all containers end.
    pub(super) fn power_off(&mut self, vm: u64, now: Timestamp) {
        self.end_pulse(vm, now);
        self.stop(vm);
        self.timers.cancel(&Timer::Outage(vm));
        if let Some(node) = self.kubelets.get(&vm).map(|kubelet| kubelet.host.node.clone()) {
            self.lose_containers(&node, vm, now);
        }
    }

    /// An outage ends.
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
        self.revert_status(vm, now);
        self.deliver_missed_pods(&node, now);
    }

    /// A frozen kubelet continues, with the outcomes that arrived and the events that it missed.
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
            Stage::Registered(_) => match (kubelet.lease_under_way, kubelet.status_under_way) {
                (false, false) => &[Timer::Lease(vm), Timer::Status(vm)],
                (false, true) => &[Timer::Lease(vm)],
                (true, false) => &[Timer::Status(vm)],
                (true, true) => &[],
            },
            Stage::Off | Stage::Joining | Stage::Calling(_) | Stage::NodeGone => &[],
        };
        for timer in missed {
            if !self.timers.is_set(timer) {
                self.timers.set(*timer, now);
            }
        }
        if kubelet.recovering && !self.timers.is_set(&Timer::Recovered(vm)) {
            self.timers.set(Timer::Recovered(vm), now);
        }
    }

    /// The recovery begins.
    fn recover(&mut self, vm: u64, from: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&vm) else {
            return;
        };
        let takes = kubelet.faults.recovery();
        kubelet.recovering = !takes.is_zero();
        if takes.is_zero() {
            self.timers.cancel(&Timer::Recovered(vm));
        } else {
            self.timers.set(Timer::Recovered(vm), later(from, takes));
        }
    }

    pub(super) fn recovered(&mut self, vm: u64, now: Timestamp) {
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
            self.timers.cancel(&timer(vm));
        }
    }
}
