//! The ReplicaSets of a deployment while a decision is taken: each as it was and as it is to be.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::numbers::{self, DESIRED_REPLICAS, MAX_REPLICAS};
use super::view::View;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Action, Note, Plan};

/// The label by which sets of one deployment and their pods are told apart.
pub const TEMPLATE_HASH: &str = "pod-template-hash";

/// Everything that one decision looks at and changes.
pub struct Scene<'a> {
    pub view: &'a View,
    pub spec: &'a DeploymentSpec,
    pub owner: Owner,
    pub now: Timestamp,
    pub sets: Sets,
    /// The deployment as it is to be; only its status and annotations change.
    pub deployment: Deployment,
    /// Events that no write to a set goes with.
    pub notes: Vec<Note>,
    /// Old sets that go.
    pub deletions: Vec<Arc<ReplicaSet>>,
}

impl Scene<'_> {
    /// Whether the deployment is paused.
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// The deployment's spec and how many pods it wants.
    pub fn wanted(&self) -> (&DeploymentSpec, i32) {
        (self.spec, numbers::replicas(self.spec))
    }

    /// How many pods the new set may have now.
    pub fn new_set_replicas(&self) -> i32 {
        let (spec, wanted) = self.wanted();
        let current = self.sets.new.as_ref().map_or(0, Set::replicas);
        if numbers::is_recreate(spec) {
            return wanted;
        }
        let room = wanted + numbers::max_surge(spec) - self.sets.total();
        if room <= 0 {
            return current;
        }
        current + room.min(wanted - current)
    }
}

/// One set.
pub struct Set {
    /// What the server has; nothing for a set that is to be created.
    before: Option<Arc<ReplicaSet>>,
    /// What it is to be.
    pub now: ReplicaSet,
    /// What to say about the change.
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

    /// How many pods it is to have.
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

    /// How many pods it has, by its status.
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

    /// How many available pods are left once it has been scaled: its status may still count pods that
    /// are about to go.
    pub fn staying_available(&self) -> i32 {
        self.available().min(self.replicas())
    }

    pub fn terminating(&self) -> i32 {
        let status = self.now.status.as_ref();
        status
            .and_then(|status| status.terminating_replicas)
            .unwrap_or_default()
    }

    /// What the server has, of a set that exists.
    pub fn existing(&self) -> Option<&Arc<ReplicaSet>> {
        self.before.as_ref()
    }

    /// Scales it; tells whether its number of pods changes. Remembers what it was scaled for.
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

/// Writes into a set's annotations for which numbers of the deployment it is scaled.
pub fn remember_numbers(set: &mut ReplicaSet, spec: &DeploymentSpec) {
    let desired = numbers::replicas(spec);
    let most = desired + numbers::max_surge(spec);
    meta::annotate(&mut set.metadata, DESIRED_REPLICAS, desired.to_string());
    meta::annotate(&mut set.metadata, MAX_REPLICAS, most.to_string());
}

/// The set of the current template, and all others, oldest first.
pub struct Sets {
    pub new: Option<Set>,
    pub old: Vec<Set>,
}

impl Sets {
    /// Sorts `sets`, which come oldest first, into the oldest with this template and the rest.
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

    /// The old sets that are to have pods.
    pub fn old_active(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().filter(|set| set.replicas() > 0)
    }

    /// How many pods all sets together are to have.
    pub fn total(&self) -> i32 {
        self.all().map(Set::replicas).sum()
    }

    /// Plans the writes: the new set's first.
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

/// Whether two templates are alike but for the hash label.
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
