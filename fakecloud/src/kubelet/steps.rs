//! Advances the pods of kubelets: due steps are processed, and changes are written to the API server, one call at a
//! time. `pod` holds the behaviour of containers.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::calls::{Outcome, Request, backoff};
use super::facts::PodPhase;
use super::fleet::{Fleet, Kubelet, Timer};
use super::pod::lifecycle::StepInput;
use super::pod::status::{self, Conditions, Place};
use super::tracked::Volumes;
use crate::model::later;

impl Fleet {
    pub(super) fn pod_due(&mut self, number: u64, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        if let (Err(error), false, true) = (&pod.facts.plan, pod.under_way, pod.written.is_none())
            && pod.retry_at.is_none_or(|at| at <= now)
        {
            let clock = kubelet.faults.clock(now);
            let (vm, key) = (kubelet.run.vm, pod.key.clone());
            let patch = status::unusable(&pod.facts, error, &kubelet.host.address, clock);
            let message = format!("pod {}/{}: {error}", key.0, key.1);
            self.report(vm, "PodRefused", &message);
            if let Some(pod) = self.pods.tracked.get_mut(&number) {
                pod.under_way = true;
                pod.written = Some((PodPhase::Finished, 0));
            }
            return self.call(
                vm,
                Request::PodStatus {
                    pod: key,
                    number,
                    patch,
                },
                now,
            );
        }
        self.step(number, now);
    }

    /// Advances a pod, and makes the resulting API call.
    pub(super) fn step(&mut self, number: u64, now: Timestamp) {
        let stop_delay = self.settings.pod_stop_delay;
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        let (vm, clock) = (kubelet.run.vm, kubelet.faults.clock(now));
        let attached = |names: &[String]| {
            let attached = kubelet.registered().map(|known| &known.attached);
            names
                .iter()
                .all(|name| attached.is_some_and(|attached| attached.contains(name)))
        };
        let no_plan = pod.facts.plan.is_err();
        let volumes = match (&pod.volumes, &pod.facts.plan) {
            (_, Ok(plan)) if plan.claims.is_empty() => true,
            (Volumes::Known(names), _) => attached(names),
            _ => false,
        };
        let ask = !no_plan && !volumes && pod.volumes == Volumes::Unknown && pod.facts.deletion.is_none();
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if no_plan {
            return self.end_unusable(vm, number, now);
        }
        let (Some((_, run)), Ok(plan)) = (&mut pod.run, &pod.facts.plan) else {
            return;
        };
        let orders = StepInput {
            now,
            volumes,
            // The containers of a static pod outlive its mirror pod.
            deletion: pod.facts.deletion.filter(|_| !pod.facts.mirror),
            stop_delay,
        };
        let progress = run.step(plan, orders);
        let waits = !volumes && now >= run.not_before && pod.written.is_none() && run.finish.is_none();
        pod.dirty |= progress.changed || (waits && pod.conditions == Conditions::default());
        let over = run.is_over();
        let next = match progress.next {
            None if !volumes && now < run.not_before => Some(run.not_before),
            next => next,
        };
        let released = over && matches!(pod.volumes, Volumes::Known(_));
        let held = matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
        if released {
            pod.volumes = Volumes::Released;
        }
        let may_call = !pod.under_way && pod.retry_at.is_none_or(|at| at <= now);
        let retry = pod.retry_at.filter(|at| *at > now);
        if ask && may_call && run.finish.is_none() {
            pod.volumes = Volumes::Reading;
            let (key, claims) = (pod.key.clone(), plan.claims.clone());
            self.call(
                vm,
                Request::ReadVolumes {
                    pod: key,
                    number,
                    claims,
                },
                now,
            );
        }
        match [next, retry].into_iter().flatten().min() {
            Some(next) => self.timers.set(Timer::Pod(number), next),
            None => self.timers.cancel(&Timer::Pod(number)),
        }
        if released && held {
            self.status_soon(vm, now);
        }
        if may_call {
            self.write(vm, number, over, clock, now);
        }
    }

    /// Writes a pod's status, or deletes a terminated pod.
    fn write(&mut self, vm: u64, number: u64, over: bool, clock: Timestamp, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let ends = pod.facts.deletion.is_some() && (over || pod.facts.mirror) && !pod.ended;
        // A pod that finalizers keep needs its final status.
        let write = pod.dirty && (!ends || pod.facts.finalizers);
        let (key, uid) = (pod.key.clone(), pod.facts.uid.clone());
        let request = if write {
            self.status_request(number, clock)
        } else if ends && pod.facts.mirror {
            Some(Request::RenewMirror { pod: key, number, uid })
        } else if ends {
            Some(Request::EndPod { pod: key, number, uid })
        } else {
            None
        };
        let Some(request) = request else { return };
        if let Some(pod) = self.pods.tracked.get_mut(&number) {
            pod.under_way = true;
            pod.dirty = false;
        }
        self.call(vm, request, now);
    }

    fn status_request(&mut self, number: u64, clock: Timestamp) -> Option<Request> {
        let pod = self.pods.tracked.get(&number)?;
        let kubelet = self.kubelet_of(&pod.facts.node)?;
        let (_, run) = pod.run.as_ref()?;
        let plan = pod.facts.plan.as_ref().ok()?;
        let volumes = !matches!(pod.volumes, Volumes::Unknown | Volumes::Reading) || plan.claims.is_empty();
        let host_ip = kubelet.host.address.clone();
        let starts = pod.ip.is_none() && (run.has_run(plan) || run.initialized);
        let ip = match &pod.ip {
            None if plan.host_network => Some(host_ip.clone()),
            None if starts => Some(self.free_ip(kubelet, &pod.facts.node)),
            known => known.clone(),
        };
        if starts && !plan.host_network {
            *self.pods.started.entry(pod.facts.node.clone()).or_default() += 1;
        }
        let pod = self.pods.tracked.get_mut(&number)?;
        pod.ip = ip;
        let (_, run) = pod.run.as_ref()?;
        let plan = pod.facts.plan.as_ref().ok()?;
        let place = Place {
            host_ip: &host_ip,
            pod_ip: pod.ip.as_deref(),
            volumes,
            now: clock,
        };
        let (patch, phase) = status::patch(&pod.key, &pod.facts, plan, run, &mut pod.conditions, place);
        pod.written = Some((phase, pod.facts.version));
        Some(Request::PodStatus {
            pod: pod.key.clone(),
            number,
            patch,
        })
    }

    /// The first IP that no pod of the Node has.
    fn free_ip(&self, kubelet: &Kubelet, node: &str) -> String {
        let taken: BTreeSet<&str> = self.pods.of(node).filter_map(|pod| pod.ip.as_deref()).collect();
        let range = kubelet
            .registered()
            .map(|known| known.pod_cidr.as_str())
            .unwrap_or_default();
        let first = self.pods.started.get(node).copied().unwrap_or_default();
        let mut candidates = (first..).map(|number| kubelet.host.pod_ip(range, number));
        let max_pause = taken.len() + 1;
        candidates
            .by_ref()
            .take(max_pause)
            .find(|ip| !taken.contains(ip.as_str()))
            .unwrap_or_else(|| kubelet.host.pod_ip(range, first))
    }

    /// Ends a pod that never ran because its annotations are invalid.
    fn end_unusable(&mut self, vm: u64, number: u64, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        let retries = pod.retry_at.is_some_and(|at| at > now);
        if pod.facts.deletion.is_none() || pod.under_way || pod.ended || retries {
            return;
        }
        pod.under_way = true;
        let (key, uid) = (pod.key.clone(), pod.facts.uid.clone());
        self.call(vm, Request::EndPod { pod: key, number, uid }, now);
    }

    pub(super) fn pod_done(&mut self, number: u64, request: &Request, outcome: Outcome, now: Timestamp) {
        let max_pause = self.settings.join_retry;
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if let Request::ReadVolumes { .. } = request {
            return self.volumes_read(number, outcome, now);
        }
        pod.under_way = false;
        match (request, outcome) {
            (_, Outcome::Failed(_)) => {
                pod.failures += 1;
                pod.dirty |= matches!(request, Request::PodStatus { .. });
                if pod.facts.plan.is_err() {
                    pod.written = None;
                }
                let at = later(now, backoff(pod.failures, max_pause));
                pod.retry_at = Some(at);
                return self.timers.set_earlier(Timer::Pod(number), at);
            }
            (Request::EndPod { .. } | Request::RenewMirror { .. }, _) => pod.ended = true,
            (_, Outcome::Written(version)) => {
                if let Some((_, written)) = &mut pod.written {
                    *written = version;
                }
            }
            _ => {}
        }
        pod.failures = 0;
        pod.retry_at = None;
        self.step(number, now);
    }

    fn volumes_read(&mut self, number: u64, outcome: Outcome, now: Timestamp) {
        let max_pause = self.settings.join_retry;
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if pod.volumes != Volumes::Reading {
            return;
        }
        if let Outcome::Volumes(Some(names)) = outcome {
            let vm = pod.run.as_ref().map(|(vm, _)| *vm);
            let any = !names.is_empty();
            pod.volumes = Volumes::Known(names);
            pod.failures = 0;
            pod.retry_at = None;
            if let Some(vm) = vm.filter(|_| any) {
                self.status_soon(vm, now);
            }
        } else {
            pod.volumes = Volumes::Unknown;
            pod.failures += 1;
            pod.retry_at = Some(later(now, backoff(pod.failures, max_pause)));
        }
        self.step(number, now);
    }
}
