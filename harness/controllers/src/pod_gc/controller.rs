//! The pod garbage collector: caches in, deletions out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::Settings;
use super::decide::{Host, Reason, end, is_evicted, is_finished, verdict};
use crate::{Action, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, Target, View};

/// The pod garbage collector.
#[derive(Debug)]
pub struct PodGc {
    settings: Settings,
    /// Missing nodes that pods are bound to.
    missing: BTreeMap<String, Missing>,
    /// Finished pods: evicted pods first, then the oldest.
    finished: BTreeSet<(bool, Timestamp, ObjectKey)>,
}

/// The key of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pod.
    Pod(ObjectKey),
    /// A missing node, to be checked on the API server.
    Node(String),
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Timestamp,
    gone: bool,
}

impl PodGc {
    /// A collector without observations.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            missing: BTreeMap::new(),
            finished: BTreeSet::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty_state(&self) -> bool {
        self.missing.is_empty() && self.finished.is_empty()
    }

    fn count(&mut self, pod: &Pod, key: &ObjectKey, present: bool) {
        if !is_finished(pod) {
            return;
        }
        let created = pod.metadata.creation_timestamp.as_ref();
        let entry = (
            !is_evicted(pod),
            created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            key.clone(),
        );
        if present {
            self.finished.insert(entry);
        } else {
            self.finished.remove(&entry);
        }
    }

    fn excess(&self) -> impl Iterator<Item = &ObjectKey> {
        let excess = self.finished.len().saturating_sub(self.settings.terminated_threshold);
        self.finished.iter().take(excess).map(|(_, _, key)| key)
    }

    fn decide_on_node(&mut self, name: &str, view: View<'_>) -> Plan<Reason> {
        if view.caches.nodes.get(&ObjectKey::cluster(name)).is_some() || view.caches.pods.indexed(name).next().is_none()
        {
            self.missing.remove(name);
            return Plan::nothing();
        }
        let missing = *self.missing.entry(name.to_owned()).or_insert(Missing {
            since: view.now,
            gone: false,
        });
        let quarantine = SignedDuration::try_from(self.settings.quarantine).unwrap_or(SignedDuration::MAX);
        let due = missing.since.saturating_add(quarantine).unwrap_or(Timestamp::MAX);
        if missing.gone {
            Plan::nothing()
        } else if view.now < due {
            Plan::wait_until(due)
        } else {
            let read = Action::Read {
                target: Target {
                    resource: Kind::Node.resource(),
                    key: ObjectKey::cluster(name),
                },
                subresource: None,
            };
            Plan::act(Reason::NodeUnknown, read)
        }
    }
}

impl Controller for PodGc {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "pod-garbage-collector-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Pod, Kind::Node])
    }

    fn synced(&mut self, view: View<'_>, queue: &mut Queue<Key>) {
        for (key, pod) in view.caches.pods.iter() {
            queue.add(Key::Pod(key.clone()));
            if let Some(node) = missing_node(pod, view) {
                queue.add(Key::Node(node.to_owned()));
            }
        }
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Key>) {
        if let Some(pod) = change.of::<Pod>() {
            if let Some(before) = pod.before {
                self.count(before, &change.key, false);
                // Its node no longer matters when it was the node's last pod.
                if let Some(node) = missing_node(before, view).filter(|node| self.missing.contains_key(*node)) {
                    queue.add(Key::Node(node.to_owned()));
                }
            }
            if let Some(after) = pod.after {
                self.count(after, &change.key, true);
                queue.add(Key::Pod(change.key.clone()));
                if let Some(node) = missing_node(after, view) {
                    queue.add(Key::Node(node.to_owned()));
                }
                let excess: Vec<ObjectKey> = self.excess().cloned().collect();
                for key in excess {
                    queue.add(Key::Pod(key));
                }
            }
        } else if let Some(node) = change.of::<Node>() {
            if node.after.is_some() {
                self.missing.remove(&change.key.name);
            }
            for pod in view.caches.pods.indexed(&change.key.name) {
                queue.add(Key::Pod(ObjectKey::of(&**pod)));
            }
            if node.after.is_none() {
                queue.add(Key::Node(change.key.name.clone()));
            }
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Plan<Reason> {
        let key = match key {
            Key::Node(name) => return self.decide_on_node(name, view),
            Key::Pod(key) => key,
        };
        let Some(pod) = view.caches.pods.get(key) else {
            return Plan::nothing();
        };
        if self.excess().any(|excess| excess == key) {
            return end(pod, Reason::TooManyFinished, view.now);
        }
        let name = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_deref())
            .unwrap_or_default();
        let host = if name.is_empty() {
            Host::None
        } else if let Some(node) = view.caches.nodes.get(&ObjectKey::cluster(name)) {
            Host::Present(node)
        } else if self.missing.get(name).is_some_and(|missing| missing.gone) {
            Host::Gone
        } else {
            Host::Missing
        };
        verdict(pod, host).map_or_else(Plan::nothing, |reason| end(pod, reason, view.now))
    }

    fn performed(&mut self, key: &Key, _: &Action, outcome: &Outcome, view: View<'_>, queue: &mut Queue<Key>) {
        let (Key::Node(name), Ok(answer)) = (key, outcome) else {
            return;
        };
        if answer.is_some() {
            return;
        }
        if let Some(missing) = self.missing.get_mut(name) {
            missing.gone = true;
        }
        for pod in view.caches.pods.indexed(name) {
            queue.add(Key::Pod(ObjectKey::of(&**pod)));
        }
    }
}

/// The pod's node, if it is set and missing.
fn missing_node<'a>(pod: &'a Pod, view: View<'_>) -> Option<&'a str> {
    let name = pod
        .spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty())?;
    let present = view.caches.nodes.get(&ObjectKey::cluster(name)).is_some();
    (!present).then_some(name)
}
