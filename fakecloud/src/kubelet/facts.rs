//! Facts that kubelets store about watched Nodes and pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod, PodSpec, PodStatus};

use super::plan::{PlanError, PodPlan};

/// Relevant facts of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) uid: String,
    /// Empty: the cloud controller has not set it.
    pub(super) provider_id: String,
    /// The VM that the registering kubelet wrote.
    pub(super) system_uuid: String,
    /// The pod CIDR.
    pub(super) pod_cidr: String,
    /// Condition status by type.
    pub(super) conditions: BTreeMap<String, String>,
    /// The names of the volumes that are attached.
    pub(super) attached: BTreeSet<String>,
}

impl NodeFacts {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let attached = status.and_then(|status| status.volumes_attached.as_ref());
        let spec = node.spec.as_ref();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
            system_uuid: status
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.system_uuid.clone())
                .unwrap_or_default(),
            pod_cidr: spec.and_then(|spec| spec.pod_cidr.clone()).unwrap_or_default(),
            conditions: conditions
                .into_iter()
                .flatten()
                .map(|condition| (condition.type_.clone(), condition.status.clone()))
                .collect(),
            attached: attached
                .into_iter()
                .flatten()
                .map(|volume| volume.name.clone())
                .collect(),
        }
    }

    /// Whether the Node belongs to the VM with a provider ID. A Node that the cloud controller has not initialized is
    /// identified by what its kubelet wrote.
    pub(super) fn belongs_to(&self, provider_id: &str) -> bool {
        let owner = if self.provider_id.is_empty() {
            &self.system_uuid
        } else {
            &self.provider_id
        };
        owner == provider_id
    }
}

/// A pod's namespace and name.
pub(super) type PodKey = (String, String);

/// Phase of a pod by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodPhase {
    Pending,
    /// Running; whether it is ready.
    Running(bool),
    /// Succeeded or Failed.
    Finished,
}

/// A container in the pod's status, for a kubelet that finds the pod running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenContainer {
    pub(super) name: String,
    pub(super) restarts: u32,
    pub(super) state: SeenState,
}

/// Its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SeenState {
    Waiting,
    Running(Timestamp),
    /// Exit code and time.
    Exited(i32, Timestamp),
}

/// Relevant facts of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodFacts {
    pub(super) uid: String,
    /// The resourceVersion as a number; 0: invalid.
    pub(super) version: u64,
    pub(super) node: String,
    pub(super) phase: PodPhase,
    /// Deadline of its termination, if it is being deleted.
    pub(super) deletion: Option<Timestamp>,
    /// Whether finalizers keep it after its end.
    pub(super) finalizers: bool,
    /// Whether it is the mirror pod of a static pod.
    pub(super) mirror: bool,
    /// Whether the condition PodScheduled is set.
    pub(super) scheduled: bool,
    /// Whether all its readiness gates are True.
    pub(super) gates: bool,
    /// Its plan, or why the plan is invalid.
    pub(super) plan: Result<PodPlan, PlanError>,
    /// Its IP, if it has one.
    pub(super) ip: Option<String>,
    pub(super) seen: Vec<SeenContainer>,
}

impl PodFacts {
    /// The facts of a pod that is bound to a Node.
    pub(super) fn of(pod: &Pod) -> Option<(PodKey, Self)> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
        let metadata = &pod.metadata;
        let key = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone()?);
        let none = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&none);
        let is_true = |kind: &str| {
            let mut conditions = status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == kind && condition.status == "True")
        };
        let phase = match status.phase.as_deref() {
            Some("Running") => PodPhase::Running(is_true("Ready")),
            Some("Succeeded" | "Failed") => PodPhase::Finished,
            _ => PodPhase::Pending,
        };
        let annotations = metadata.annotations.as_ref();
        let facts = Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata
                .resource_version
                .as_deref()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default(),
            node,
            phase,
            deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: metadata
                .finalizers
                .as_ref()
                .is_some_and(|finalizers| !finalizers.is_empty()),
            mirror: annotations.is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror")),
            scheduled: is_true("PodScheduled"),
            gates: gates(spec).all(is_true),
            plan: PodPlan::of(&key.1, spec, annotations),
            ip: status.pod_ip.clone(),
            seen: seen(status),
        };
        Some((key, facts))
    }
}

fn gates(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let gates = spec.readiness_gates.iter().flatten();
    gates.map(|gate| gate.condition_type.as_str())
}

fn seen(status: &PodStatus) -> Vec<SeenContainer> {
    let initial = status.init_container_statuses.iter().flatten();
    initial
        .chain(status.container_statuses.iter().flatten())
        .map(container)
        .collect()
}

fn container(status: &ContainerStatus) -> SeenContainer {
    let state = status.state.as_ref();
    let running = state.and_then(|state| state.running.as_ref());
    let exited = state.and_then(|state| state.terminated.as_ref());
    let time = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map_or(Timestamp::UNIX_EPOCH + SignedDuration::ZERO, |time| time.0)
    };
    SeenContainer {
        name: status.name.clone(),
        restarts: u32::try_from(status.restart_count).unwrap_or_default(),
        state: match (running, exited) {
            (Some(running), _) => SeenState::Running(time(running.started_at.as_ref())),
            (None, Some(exited)) => SeenState::Exited(exited.exit_code, time(exited.finished_at.as_ref())),
            (None, None) => SeenState::Waiting,
        },
    }
}
