//! The adapter between the pure decisions and the foundation: enqueues affected keys, builds views, and turns
//! plans into requests.
//!
//! No decisions are made here.

mod daemon_sets;
mod deployments;
mod endpoint_slices;
mod jobs;
mod orphans;
mod replica_sets;
mod stateful_sets;
mod translate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

pub(crate) use daemon_sets::DaemonSets;
pub(crate) use deployments::Deployments;
pub(crate) use endpoint_slices::EndpointSlices;
pub(crate) use jobs::Jobs;
use orphans::Orphans;
pub(crate) use replica_sets::ReplicaSets;
pub(crate) use stateful_sets::StatefulSets;

use super::meta;
use super::plan::{self, Attempt, Failure, Note};
use crate::{Action, Cached, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, View};

/// Why an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An object is missing.
    Missing(Kind),
    /// An object is surplus or outdated.
    Surplus(Kind),
    /// An object differs from its desired state.
    Differs(Kind),
    /// The status is out of date.
    Status,
    /// An event is due.
    Event,
}

/// The parts that are specific to one kind of workload.
pub(crate) trait Workload: Send {
    /// The kind that decisions are about.
    type Root: Cached + Metadata<Ty = ObjectMeta> + serde::Serialize;
    /// Upstream's name of the controller, the source of its events.
    const NAME: &'static str;

    /// Other kinds that it reads.
    fn reads() -> &'static [Kind];

    /// Enqueues the keys that a change affects, besides the object itself.
    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>);

    /// Decides about one object.
    fn decide(&mut self, root: &Arc<Self::Root>, scene: Scene<'_>) -> plan::Plan;

    /// Cleans up after a deleted object.
    fn after(&mut self, _key: &ObjectKey, _view: View<'_>) -> plan::Plan {
        plan::Plan::default()
    }
}

/// The input of a workload's decision.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The caches and the current time.
    view: View<'a>,
    /// The orphaned objects.
    orphans: &'a Orphans,
    /// The failure of the last attempt.
    failure: Option<Failure>,
}

impl Scene<'_> {
    /// The objects with `owner` in their owner references, and the orphaned objects of its namespace.
    fn dependents<K: Cached>(&self, owner: &ObjectMeta) -> Vec<Arc<K>> {
        let cache = K::cache(self.view.caches);
        let owned = cache.owned_by(meta::uid(owner)).cloned();
        let orphans = self
            .orphans
            .of(K::KIND, meta::namespace(owner))
            .filter_map(|key| cache.get(key))
            .filter(|orphan| runtime::ownership::controller(orphan.metadata()).is_none())
            .cloned();
        let mut found: Vec<Arc<K>> = owned.chain(orphans).collect();
        found.sort_by(|one, other| meta::name(one.metadata()).cmp(meta::name(other.metadata())));
        found.dedup_by(|one, other| one.uid() == other.uid());
        found
    }
}

/// Adapts a workload to the [`Controller`] trait.
pub(crate) struct Shell<W> {
    workload: W,
    orphans: Orphans,
    failures: BTreeMap<ObjectKey, Failure>,
    /// Events to record in the next decision about an object.
    notes: BTreeMap<ObjectKey, Vec<Note>>,
    /// Objects whose current plan emits events with generated names.
    creation_event: BTreeMap<ObjectKey, Note>,
}

impl<W: Workload> Shell<W> {
    pub(crate) fn new(workload: W) -> Self {
        Self {
            workload,
            orphans: Orphans::default(),
            failures: BTreeMap::new(),
            notes: BTreeMap::new(),
            creation_event: BTreeMap::new(),
        }
    }

    fn record(&mut self, key: &ObjectKey, note: Note, queue: &mut Queue<ObjectKey>) {
        self.notes.entry(key.clone()).or_default().push(note);
        queue.add(key.clone());
    }
}

impl<W: Workload> Controller for Shell<W> {
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        W::NAME
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        W::reads().iter().copied().chain([W::Root::KIND]).collect()
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        self.orphans.observe(change);
        if change.of::<W::Root>().is_some() {
            queue.add(change.key.clone());
        }
        self.workload.observe(change, view, queue);
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let notes = self.notes.remove(key).unwrap_or_default();
        let failure = self.failures.remove(key);
        let Some(root) = W::Root::cache(view.caches).get(key).cloned() else {
            self.creation_event.remove(key);
            let plan = self.workload.after(key, view);
            return translate::requests(plan, None::<&W::Root>, &[]);
        };
        let scene = Scene {
            view,
            orphans: &self.orphans,
            failure,
        };
        let plan = self.workload.decide(&root, scene);
        match translate::creation_event(&plan) {
            Some(note) => self.creation_event.insert(key.clone(), note),
            None => self.creation_event.remove(key),
        };
        translate::requests(plan, Some(&*root), &notes)
    }

    fn performed(
        &mut self,
        key: &ObjectKey,
        action: &Action,
        outcome: &Outcome,
        _view: View<'_>,
        queue: &mut Queue<ObjectKey>,
    ) {
        match (action, outcome) {
            (Action::Create { .. }, Ok(Some(created))) => {
                if let Some(event) = self.creation_event.get(key) {
                    let name = created["metadata"]["name"].as_str().unwrap_or_default();
                    let note = Note {
                        message: event.message.replace("{}", name),
                        ..event.clone()
                    };
                    self.record(key, note, queue);
                }
            }
            (Action::Create { .. } | Action::Delete { .. }, Err(failure)) => {
                if failure.is_conflict() || failure.is_already_exists() {
                    return;
                }
                let message = failure
                    .status()
                    .map_or_else(|| failure.to_string(), |status| status.message.clone());
                let (what, reason, verb) = if matches!(action, Action::Create { .. }) {
                    (Attempt::Create, "FailedCreate", "creating")
                } else {
                    (Attempt::Delete, "FailedDelete", "deleting")
                };
                if self.creation_event.contains_key(key) || what == Attempt::Delete {
                    let note = Note::warning(reason, format!("Error {verb}: {message}"));
                    self.notes.entry(key.clone()).or_default().push(note);
                }
                self.failures.insert(key.clone(), Failure { what, message });
            }
            _ => {}
        }
    }
}

/// Enqueues the owner of kind `W` of a dependent; for an orphan, every object of its namespace whose selector
/// matches.
fn queue_owners<K, D>(
    change: &Change,
    view: View<'_>,
    queue: &mut Queue<ObjectKey>,
    selector: impl Fn(&K) -> Option<&LabelSelector>,
) where
    K: Cached + k8s_openapi::Resource,
    D: Cached + Metadata<Ty = ObjectMeta>,
{
    let Some(transition) = change.of::<D>() else { return };
    let mut owners = BTreeSet::new();
    for dependent in transition.both() {
        let found = Metadata::metadata(dependent);
        match runtime::ownership::controller(found) {
            Some(controller) if controller.kind == <K as k8s_openapi::Resource>::KIND => {
                owners.insert(ObjectKey::new(change.key.namespace.clone(), controller.name.clone()));
            }
            Some(_) => {}
            None => {
                let roots = K::cache(view.caches).in_namespace(&change.key.namespace);
                let selecting = roots.filter(|(_, root)| {
                    selector(root).is_some_and(|selector| runtime::selector::selects(selector, found.labels.as_ref()))
                });
                owners.extend(selecting.map(|(key, _)| key.clone()));
            }
        }
    }
    for owner in owners {
        queue.add(owner);
    }
}

/// The change as a pod transition, if it is relevant.
fn pod_of(change: &Change) -> Option<crate::Transition<'_, Pod>> {
    change.of::<Pod>()
}
