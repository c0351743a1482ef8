//! The data of a decision about a StatefulSet.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};

use crate::Kind;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Action, Note, Plan, Target};
use crate::workloads::pods;

/// The observed state for a decision about a StatefulSet.
#[derive(Clone, Debug)]
pub struct View {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// The pods that it controls, and the orphaned pods of its namespace.
    pub pods: Vec<Arc<Pod>>,
    /// The claims of its namespace.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// The revisions of its namespace.
    pub revisions: Vec<Arc<ControllerRevision>>,
}

/// A template and the name of its revision.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub name: String,
    pub template: PodTemplateSpec,
}

/// The data of one decision.
pub(super) struct Scene<'a> {
    pub view: &'a View,
    pub spec: &'a StatefulSetSpec,
    pub owner: Owner,
    /// The version before the current update.
    pub current: Version,
    /// The version after the current update.
    pub update: Version,
    /// Its pods.
    pub pods: Vec<Arc<Pod>>,
    pub now: Timestamp,
}

impl Scene<'_> {
    pub fn start(&self) -> i32 {
        self.spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or_default()
    }

    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether pods are created and deleted one after the other.
    pub fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    pub fn min_ready(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or_default()
    }

    /// Whether the pod is available and not terminating.
    pub fn is_settled(&self, pod: &Pod) -> bool {
        self.is_available(pod) && !meta::is_deleting(&pod.metadata)
    }

    pub fn is_available(&self, pod: &Pod) -> bool {
        is_running_and_ready(pod) && pods::is_available(pod, self.min_ready(), self.now)
    }
}

/// Whether a pod runs and is ready.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

/// Whether the pod is running, ready and not terminating, regardless of `minReadySeconds`.
pub(super) fn is_healthy(pod: &Pod) -> bool {
    is_running_and_ready(pod) && !meta::is_deleting(&pod.metadata)
}

/// Plans the deletion of a pod.
pub(super) fn delete(plan: &mut Plan, scene: &Scene<'_>, pod: &Pod) {
    let message = format!(
        "Delete Pod {} in StatefulSet {} successful",
        meta::name(&pod.metadata),
        scene.owner.name
    );
    plan.actions.push(Action::Delete {
        target: Target::new(Kind::Pod, &pod.metadata),
        foreground: false,
        note: Some(Note::normal("SuccessfulDelete", message)),
    });
}
