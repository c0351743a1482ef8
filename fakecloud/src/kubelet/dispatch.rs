//! Sends calls of kubelets and delivers their outcomes.

use jiff::Timestamp;

use super::calls::{Effect, Gate, Outcome, Request, Run};
use super::fleet::{Fleet, Stage, Timer};
use crate::model::{Availability, later};

impl Fleet {
    /// Decides what to do with a call.
    pub(super) fn gate(&self, run: Run) -> Gate {
        match self.kubelets.get(&run.vm) {
            Some(kubelet) if kubelet.run != run || matches!(kubelet.stage, Stage::Off) => Gate::Dropped,
            Some(kubelet) if kubelet.availability == Availability::Partitioned => Gate::Unreachable,
            Some(_) => Gate::Open,
            None => Gate::Dropped,
        }
    }

    /// Delivers the outcome of an API call.
    pub(super) fn done(&mut self, run: Run, request: &Request, outcome: Outcome, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get_mut(&run.vm).filter(|kubelet| kubelet.run == run) else {
            return;
        };
        let outcome = match kubelet.availability {
            Availability::Up => outcome,
            Availability::Stopped => return,
            Availability::Partitioned => Outcome::Failed("the API server is unreachable".to_owned()),
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

    /// Sends a call of a kubelet, or delays it.
    pub(super) fn call(&mut self, vm: u64, request: Request, now: Timestamp) {
        let Some(kubelet) = self.kubelets.get(&vm) else { return };
        let (run, delay) = (kubelet.run, kubelet.faults.slow());
        if delay.is_zero() {
            return self.send(run, request);
        }
        self.numbers += 1;
        self.slow.insert(self.numbers, (run, request));
        self.timers.set(Timer::Send(self.numbers), later(now, delay));
    }

    pub(super) fn send(&mut self, run: Run, request: Request) {
        match self.gate(run) {
            Gate::Open => self.effects.push(Effect::Call(run, request)),
            Gate::Unreachable => self.unreachable.push((run, request)),
            Gate::Dropped => {}
        }
    }
}
