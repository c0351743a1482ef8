//! The ReplicaSets of a deployment during a decision: the observed and the planned state of each.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::numbers::{self, DESIRED_REPLICAS, MAX_REPLICAS};
use super::view::View;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Action, Note, Plan};

/// The label that distinguishes the sets of one deployment and their pods.
pub const TEMPLATE_HASH: &str = "pod-template-hash";

/// The data of one decision, including its planned changes.
pub struct Scene<'a> {
    pub view: &'a View,
    pub spec: &'a DeploymentSpec,
    pub owner: Owner,
    pub now: Timestamp,
    pub sets: Sets,
    /// The planned deployment; only status and annotations change.
    pub deployment: Deployment,
    /// Events without a write of a set.
    pub notes: Vec<Note>,
    /// Old sets to delete.
    pub deletions: Vec<Arc<ReplicaSet>>,
}

impl Scene<'_> {
    /// Whether the deployment is paused.
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// The deployment's spec and its desired number of pods.
    pub fn wanted(&self) -> (&DeploymentSpec, i32) {
        (self.spec, numbers::replicas(self.spec))
    }

    /// The number of pods that the new set may have now.
    pub fn new_set_replicas(&self) -> i32 {
        let (spec, wanted) = self.wanted();
        let current = self.sets.new.as_ref().map_or(0, Set::replicas);
        if numbers::is_recreate(spec) {
            return wanted;
        }
        let room = wanted
            .saturating_add(numbers::max_surge(spec))
            .saturating_sub(self.sets.total());
        if room <= 0 {
            return current;
        }
        current.saturating_add(room.min(wanted.saturating_sub(current)))
    }
}

/// One set.
pub struct Set {
    /// The observed set; `None` for a planned one.
    before: Option<Arc<ReplicaSet>>,
    /// The planned set.
    pub now: ReplicaSet,
    /// The event of the change.
    notes: Vec<Note>,
}

impl Set {
    /// A set that does not exist yet.
    pub fn to_create(set: ReplicaSet) -> Self {
        Self {
            before: None,
            now: set,
            notes: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        meta::name(&self.now.metadata)
    }

    /// The planned number of pods.
    pub fn replicas(&self) -> i32 {
        self.now
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or_default()
    }

    pub fn set_replicas(&mut self, replicas: i32) {
        self.now.spec.get_or_insert_default().replicas = Some(replicas);
    }

    /// The observed number of pods, from its status.
    pub fn actual(&self) -> i32 {
        self.now.status.as_ref().map_or(0, |status| status.replicas)
    }

    pub fn ready(&self) -> i32 {
        let status = self.now.status.as_ref();
        status.and_then(|status| status.ready_replicas).unwrap_or_default()
    }

    pub fn available(&self) -> i32 {
        let status = self.now.status.as_ref();
        status.and_then(|status| status.available_replicas).unwrap_or_default()
    }

    /// The number of available pods after the planned scaling: the status may still count pods that are about
    /// to be deleted.
    pub fn staying_available(&self) -> i32 {
        self.available().min(self.replicas())
    }

    pub fn terminating(&self) -> i32 {
        let status = self.now.status.as_ref();
        status
            .and_then(|status| status.terminating_replicas)
            .unwrap_or_default()
    }

    /// The observed set, if it exists.
    pub fn existing(&self) -> Option<&Arc<ReplicaSet>> {
        self.before.as_ref()
    }

    /// Scales the set and records the deployment's numbers; returns whether its number of pods changes.
    pub fn scale(&mut self, spec: &DeploymentSpec, replicas: i32) -> bool {
        remember_numbers(&mut self.now, spec);
        let old = self.replicas();
        if old == replicas {
            return false;
        }
        let direction = if replicas > old { "up" } else { "down" };
        let message = format!(
            "Scaled {direction} replica set {} from {old} to {replicas}",
            self.name()
        );
        self.notes.push(Note::normal("ScalingReplicaSet", message));
        self.set_replicas(replicas);
        true
    }
}

/// Records the numbers of the deployment in a set's annotations.
pub fn remember_numbers(set: &mut ReplicaSet, spec: &DeploymentSpec) {
    let desired = numbers::replicas(spec);
    let most = desired.saturating_add(numbers::max_surge(spec));
    meta::annotate(&mut set.metadata, DESIRED_REPLICAS, desired.to_string());
    meta::annotate(&mut set.metadata, MAX_REPLICAS, most.to_string());
}

/// The set of the current template, and all other sets, oldest first.
pub struct Sets {
    pub new: Option<Set>,
    pub old: Vec<Set>,
}

impl Sets {
    /// Splits `sets` (sorted oldest first) into the oldest with this template and the others.
    pub fn new(sets: Vec<Arc<ReplicaSet>>, template: &PodTemplateSpec) -> Self {
        let mut split = Self {
            new: None,
            old: Vec::new(),
        };
        for set in sets {
            let entry = Set {
                now: ReplicaSet::clone(&set),
                before: Some(set),
                notes: Vec::new(),
            };
            let theirs = entry.now.spec.as_ref().and_then(|spec| spec.template.as_ref());
            if split.new.is_none() && theirs.is_some_and(|theirs| is_same(theirs, template)) {
                split.new = Some(entry);
            } else {
                split.old.push(entry);
            }
        }
        split
    }

    /// All sets, the new one last.
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// The old sets with a planned number of pods above zero.
    pub fn old_active(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().filter(|set| set.replicas() > 0)
    }

    /// The planned number of pods of all sets.
    pub fn total(&self) -> i32 {
        quantity::total(self.all().map(Set::replicas))
    }

    /// Plans the writes, beginning with the new set.
    pub fn write(&self, plan: &mut Plan) {
        for set in self.new.iter().chain(&self.old) {
            match &set.before {
                None => plan.actions.push(Action::Create {
                    object: set.now.clone().into(),
                    note: None,
                }),
                Some(before) if **before != set.now => plan.update(set.now.clone()),
                Some(_) => {}
            }
            for note in &set.notes {
                plan.record(note.clone());
            }
        }
    }
}

/// Whether two templates are equal except for the hash label.
pub fn is_same(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    normal(one) == normal(other)
}

fn normal(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.remove(TEMPLATE_HASH);
    metadata.annotations.get_or_insert_default();
    template
}
