//! Pod events of kubelets. `steps` advances pods; `pod` holds the behaviour of one pod.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::admission;
use super::facts::{PodFacts, PodKey, PodPhase};
use super::fleet::{Fleet, Timer};
use super::objects::PodStatusData;
use super::pod::status;
use super::tracked::{MissedEvent, Tracked, Volumes};
use crate::model::later;

impl Fleet {
    /// Records a pod that is bound to a Node.
    pub(super) fn pod_seen(&mut self, key: PodKey, facts: PodFacts, now: Timestamp) {
        let known = self
            .pods
            .by_key
            .get(&key)
            .and_then(|number| self.pods.tracked.get(number));
        if known.is_some_and(|pod| pod.facts.uid != facts.uid || pod.facts.node != facts.node) {
            self.drop_pod(&key);
        }
        let number = match self.pods.by_key.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.number();
                self.pods.by_key.insert(key.clone(), number);
                self.pods.by_node.entry(facts.node.clone()).or_default().insert(number);
                self.pods.tracked.insert(number, Tracked::new(key, facts.clone()));
                number
            }
        };
        let is_delivered = self
            .kubelet_of(&facts.node)
            .is_some_and(super::fleet::Kubelet::receives_events);
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if is_delivered {
            let differs = pod.observe(facts);
            self.observed(number, differs, now);
        } else {
            pod.missed = Some(MissedEvent::Changed(Box::new(facts)));
        }
    }

    /// Records the removal of a pod.
    pub(super) fn pod_gone(&mut self, key: &PodKey, now: Timestamp) {
        let Some(number) = self.pods.by_key.get(key).copied() else {
            return;
        };
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        let node = pod.facts.node.clone();
        let holds_volumes = matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
        let kubelet = self
            .nodes
            .get(&node)
            .into_iter()
            .flatten()
            .filter_map(|vm| self.kubelets.get(vm));
        let away = kubelet.into_iter().any(|kubelet| !kubelet.receives_events());
        if away && pod.run.is_some() {
            pod.missed = Some(MissedEvent::Deleted);
            return;
        }
        self.drop_pod(key);
        if holds_volumes && let Some(vm) = self.kubelet_of(&node).map(|kubelet| kubelet.run.vm) {
            self.status_soon(vm, now);
        }
    }

    fn drop_pod(&mut self, key: &PodKey) {
        if let Some(number) = self.pods.remove(key) {
            self.timers.cancel(&Timer::Pod(number));
        }
    }

    /// Drops pods of a Node whose removal no kubelet can observe any more.
    pub(super) fn drop_unobserved_removals(&mut self, node: &str) {
        let gone = self
            .pods
            .of(node)
            .filter(|pod| matches!(pod.missed, Some(MissedEvent::Deleted)));
        let keys: Vec<PodKey> = gone.map(|pod| pod.key.clone()).collect();
        for key in keys {
            self.drop_pod(&key);
        }
    }

    /// Delivers missed pod events to a kubelet that can receive them again.
    pub(super) fn deliver_missed_pods(&mut self, node: &str, now: Timestamp) {
        let numbers: Vec<u64> = self.pods.by_node.get(node).into_iter().flatten().copied().collect();
        if !self
            .kubelet_of(node)
            .is_some_and(super::fleet::Kubelet::receives_events)
        {
            return;
        }
        let mut released = false;
        for number in numbers {
            let Some(pod) = self.pods.tracked.get_mut(&number) else {
                continue;
            };
            match pod.missed.take() {
                Some(MissedEvent::Deleted) => {
                    released |= matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
                    let key = pod.key.clone();
                    self.drop_pod(&key);
                }
                Some(MissedEvent::Changed(facts)) => {
                    let differs = pod.observe(*facts);
                    self.observed(number, differs, now);
                }
                None => self.consider(number, now),
            }
        }
        if released && let Some(vm) = self.kubelet_of(node).map(|kubelet| kubelet.run.vm) {
            self.status_soon(vm, now);
        }
    }

    /// Makes a kubelet check its pods again.
    pub(super) fn consider_pods(&mut self, node: &str, now: Timestamp) {
        let numbers: Vec<u64> = self.pods.by_node.get(node).into_iter().flatten().copied().collect();
        for number in numbers {
            self.consider(number, now);
        }
    }

    /// The volumes attached to a Node have changed: pods that wait for them may continue.
    pub(super) fn volumes_changed(&mut self, node: &str, now: Timestamp) {
        let waiting = |number: &&u64| {
            let pod = self.pods.tracked.get(*number);
            pod.is_some_and(|pod| matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty()))
        };
        let numbers = self.pods.by_node.get(node).into_iter().flatten();
        let waiting: Vec<u64> = numbers.filter(waiting).copied().collect();
        for number in waiting {
            self.consider(number, now);
        }
    }

    /// A Node's kubelet has stopped: it drops the pending work of its pods.
    pub(super) fn cancel_pods(&mut self, node: &str) {
        for number in self.pods.by_node.get(node).into_iter().flatten() {
            self.timers.cancel(&Timer::Pod(*number));
            if let Some(pod) = self.pods.tracked.get_mut(number) {
                pod.dirty |= pod.under_way;
                pod.under_way = false;
                if pod.volumes == Volumes::Reading {
                    pod.volumes = Volumes::Unknown;
                }
            }
        }
    }

    /// A VM has stopped: its containers have ended.
    pub(super) fn lose_containers(&mut self, node: &str, vm: u64, now: Timestamp) {
        let delay = self.settings.pod_start_delay;
        for number in self.pods.by_node.get(node).into_iter().flatten() {
            let Some(pod) = self.pods.tracked.get_mut(number) else {
                continue;
            };
            if let (Some((on, run)), Ok(plan)) = (&mut pod.run, &pod.facts.plan)
                && *on == vm
            {
                run.lose_containers(plan, now, delay);
                pod.dirty = true;
                pod.ip = None;
            }
        }
    }

    /// The pod data in a Node's status.
    pub(super) fn pod_status_data(&self, node: &str) -> PodStatusData<'_> {
        let mut of = PodStatusData::default();
        for pod in self.pods.of(node) {
            if let Volumes::Known(names) = &pod.volumes {
                of.volumes.extend(names.iter().map(String::as_str));
            }
            if let (Some((_, run)), Ok(plan)) = (&pod.run, &pod.facts.plan)
                && run.has_run(plan)
            {
                of.images
                    .extend(plan.containers.iter().map(|container| container.image.as_str()));
            }
        }
        of
    }

    /// Number of pods that are bound to a Node.
    pub(crate) fn pods_on(&self, node: &str) -> usize {
        self.pods.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// The kubelet has observed a pod.
    fn observed(&mut self, number: u64, differs: bool, now: Timestamp) {
        if differs && let Some(pod) = self.pods.tracked.get_mut(&number) {
            pod.dirty = true;
            pod.conditions.forget_ready();
            let at = later(now, self.settings.pod_start_delay);
            return self.timers.set_earlier(Timer::Pod(number), at);
        }
        self.consider(number, now);
    }

    /// Accepts a pod if it is new, and schedules its next step now.
    fn consider(&mut self, number: u64, now: Timestamp) {
        let delay = self.settings.pod_start_delay;
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        if !pod.observed {
            return;
        }
        let vm = kubelet.run.vm;
        let Ok(plan) = pod.facts.plan.clone() else {
            return self.timers.set_earlier(Timer::Pod(number), now);
        };
        let fresh = match &pod.run {
            Some((on, _)) if *on == vm => None,
            Some(_) => {
                let (Some(pod), on) = (self.pods.tracked.get_mut(&number), vm) else {
                    return;
                };
                if let Some((of, run)) = &mut pod.run {
                    run.lose_containers(&plan, now, delay);
                    *of = on;
                }
                pod.dirty = true;
                pod.ip = None;
                None
            }
            None => Some(admission::admit(self, kubelet, pod, &plan, now)),
        };
        if let Some(pod) = self.pods.tracked.get_mut(&number)
            && let Some(run) = fresh
        {
            pod.dirty = status::phase(&plan, &run, pod.facts.gates) != pod.facts.phase;
            pod.written = (pod.facts.phase != PodPhase::Pending).then_some((pod.facts.phase, pod.facts.version));
            pod.ip.clone_from(&pod.facts.ip);
            if pod.written.is_some() && run.finish.is_some() {
                pod.volumes = Volumes::Released;
            }
            pod.run = Some((vm, run));
        }
        self.step(number, now);
    }
}
