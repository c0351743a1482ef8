//! The pods of simulated kubelets: to Running and Ready, and to their end within their grace.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::facts::{PodFacts, PodKey, PodPhase};
use super::fleet::{Effect, Fleet, Outcome, Request, Timer, backoff};
use crate::model::later;

/// The pods that are bound to any Node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pods: BTreeMap<PodKey, Tracked>,
    by_node: BTreeMap<String, BTreeSet<PodKey>>,
    /// How many pods each Node has had started, which gives the next one its ip.
    started: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Tracked {
    facts: PodFacts,
    /// A call is under way, or one has succeeded and its effect was not seen yet.
    awaiting: bool,
    under_way: bool,
    /// It was seen while a call was under way.
    changed: bool,
    failures: u32,
    ip: Option<String>,
}

enum Work {
    Start,
    End,
    Nothing,
}

impl Tracked {
    fn work(&self) -> Work {
        match self.facts.phase {
            _ if self.awaiting => Work::Nothing,
            _ if self.facts.deletion.is_some() => Work::End,
            PodPhase::Pending | PodPhase::Running(false) => Work::Start,
            PodPhase::Running(true) | PodPhase::Finished => Work::Nothing,
        }
    }
}

impl Pods {
    /// All pods, to find those that are gone after a new list.
    pub(super) fn keys(&self) -> impl Iterator<Item = &PodKey> {
        self.pods.keys()
    }
}

impl Fleet {
    /// A pod that is bound to a Node was seen.
    pub(super) fn pod_seen(&mut self, key: PodKey, facts: PodFacts, now: Timestamp) {
        let same = self.pods.pods.get(&key).is_some_and(|pod| pod.facts.uid == facts.uid);
        if !same {
            self.pod_gone(&key);
        }
        self.pods
            .by_node
            .entry(facts.node.clone())
            .or_default()
            .insert(key.clone());
        match self.pods.pods.get_mut(&key) {
            Some(pod) => {
                pod.awaiting = pod.under_way;
                pod.changed = pod.under_way;
                pod.facts = facts;
            }
            None => {
                let pod = Tracked {
                    facts,
                    awaiting: false,
                    under_way: false,
                    changed: false,
                    failures: 0,
                    ip: None,
                };
                self.pods.pods.insert(key.clone(), pod);
            }
        }
        self.consider_pod(&key, now);
    }

    /// A pod is there no more.
    pub(super) fn pod_gone(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.pods.remove(key) else { return };
        self.wheel.cancel(&Timer::Pod(key.clone()));
        if let Some(keys) = self.pods.by_node.get_mut(&pod.facts.node) {
            keys.remove(key);
            if keys.is_empty() {
                self.pods.by_node.remove(&pod.facts.node);
            }
        }
    }

    /// A kubelet takes over what is bound to its Node.
    pub(super) fn consider_pods(&mut self, node: &str, now: Timestamp) {
        let keys: Vec<PodKey> = self.pods.by_node.get(node).into_iter().flatten().cloned().collect();
        for key in keys {
            self.consider_pod(&key, now);
        }
    }

    /// A Node's kubelet has stopped: nothing happens to its pods any more.
    pub(super) fn cancel_pods(&mut self, node: &str) {
        for key in self.pods.by_node.get(node).into_iter().flatten() {
            self.wheel.cancel(&Timer::Pod(key.clone()));
            if let Some(pod) = self.pods.pods.get_mut(key) {
                pod.awaiting = false;
                pod.under_way = false;
            }
        }
    }

    fn consider_pod(&mut self, key: &PodKey, now: Timestamp) {
        let Some(pod) = self.pods.pods.get(key) else { return };
        let timer = Timer::Pod(key.clone());
        if self.kubelet_of(&pod.facts.node).is_none() {
            return;
        }
        match pod.work() {
            Work::Nothing => self.wheel.cancel(&timer),
            Work::Start if self.wheel.is_set(&timer) => {}
            Work::Start => self.wheel.set(timer, later(now, self.settings.pod_start_delay.0)),
            Work::End => {
                let ended = later(now, self.settings.pod_stop_delay.0);
                let at = pod
                    .facts
                    .deletion
                    .map_or(ended, |deadline| ended.min(deadline))
                    .max(now);
                self.wheel.set_earlier(timer, at);
            }
        }
    }

    pub(super) fn pod_due(&mut self, key: &PodKey, now: Timestamp) {
        let Some(pod) = self.pods.pods.get(key) else { return };
        let Some(kubelet) = self.kubelet_of(&pod.facts.node) else {
            return;
        };
        let run = kubelet.run().clone();
        let request = match pod.work() {
            Work::Nothing => return,
            Work::End => Request::EndPod {
                pod: key.clone(),
                uid: pod.facts.uid.clone(),
            },
            Work::Start => {
                let number = self.pods.started.get(&pod.facts.node).copied().unwrap_or_default();
                let ip = pod.ip.clone().unwrap_or_else(|| kubelet.host.pod_ip(number));
                let patch = kubelet.host.running_patch(&pod.facts, &ip, now);
                let node = pod.facts.node.clone();
                if let Some(pod) = self.pods.pods.get_mut(key)
                    && pod.ip.replace(ip).is_none()
                {
                    self.pods.started.insert(node, number + 1);
                }
                Request::PodStatus {
                    pod: key.clone(),
                    patch,
                }
            }
        };
        if let Some(pod) = self.pods.pods.get_mut(key) {
            pod.awaiting = true;
            pod.under_way = true;
        }
        self.effects.push(Effect::Call(run, request));
    }

    pub(super) fn pod_done(&mut self, key: &PodKey, outcome: Outcome, now: Timestamp) {
        let most = self.settings.join_retry.0;
        let Some(pod) = self.pods.pods.get_mut(key) else { return };
        pod.under_way = false;
        match outcome {
            Outcome::Failed(_) => {
                pod.awaiting = false;
                pod.failures += 1;
                let wait = backoff(pod.failures, most);
                let node = pod.facts.node.clone();
                if self.kubelet_of(&node).is_some() {
                    self.wheel.set(Timer::Pod(key.clone()), later(now, wait));
                }
            }
            Outcome::Done | Outcome::Gone | Outcome::Node(_) | Outcome::Secret(_) => {
                pod.failures = 0;
                if std::mem::take(&mut pod.changed) {
                    pod.awaiting = false;
                    self.consider_pod(key, now);
                }
            }
        }
    }
}
