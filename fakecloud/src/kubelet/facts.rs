//! What kubelets keep of the Nodes and pods that they watch.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod, PodSpec, PodStatus};

use super::plan::{PlanError, PodPlan};

/// What matters of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) uid: String,
    /// Empty while the cloud controller has not set it.
    pub(super) provider_id: String,
    /// What the kubelet that registered it said of itself.
    pub(super) system_uuid: String,
    /// The range of its pods' addresses.
    pub(super) pod_cidr: String,
    /// Type to status.
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

    /// Whether the Node is that of the VM with this provider id. A Node that no cloud controller
    /// has completed yet is told by what its kubelet wrote.
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

/// How far a pod is, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodPhase {
    Pending,
    /// With whether it is ready.
    Running(bool),
    /// Succeeded or Failed.
    Finished,
}

/// A container as the pod's status shows it; for a kubelet that finds the pod running.
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
    /// Exit code and end.
    Exited(i32, Timestamp),
}

/// What matters of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodFacts {
    pub(super) uid: String,
    /// The resource version as a number; 0 when it is none.
    pub(super) version: u64,
    pub(super) node: String,
    pub(super) phase: PodPhase,
    /// By when it must have ended, if it is to end.
    pub(super) deletion: Option<Timestamp>,
    /// It stays after its end until somebody else lets it go.
    pub(super) finalizers: bool,
    /// It stands for a static pod of the kubelet.
    pub(super) mirror: bool,
    /// The condition PodScheduled is there.
    pub(super) scheduled: bool,
    /// All its readiness gates are open.
    pub(super) gates: bool,
    /// What its kubelet is to do; or why that cannot be told.
    pub(super) plan: Result<PodPlan, PlanError>,
    /// Its address, when it has one.
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
