//! What kubelets keep of the Nodes and pods that they watch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

/// What matters of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) uid: String,
    pub(super) provider_id: String,
    /// Type to status.
    pub(super) conditions: BTreeMap<String, String>,
}

impl NodeFacts {
    pub(super) fn of(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let conditions = conditions.into_iter().flatten();
        let spec = node.spec.as_ref();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
            conditions: conditions
                .map(|condition| (condition.type_.clone(), condition.status.clone()))
                .collect(),
        }
    }
}

/// A pod's namespace and name.
pub(super) type PodKey = (String, String);

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodPhase {
    Pending,
    /// With whether it is ready.
    Running(bool),
    /// Succeeded or Failed.
    Finished,
}

/// What matters of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) phase: PodPhase,
    /// By when it must have ended, if it is to end.
    pub(super) deletion: Option<Timestamp>,
    /// Name and image.
    pub(super) containers: Vec<(String, String)>,
    pub(super) host_network: bool,
}

impl PodFacts {
    /// The facts of a pod that is bound to a Node.
    pub(super) fn of(pod: &Pod) -> Option<(PodKey, Self)> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
        let key = (
            pod.metadata.namespace.clone().unwrap_or_default(),
            pod.metadata.name.clone()?,
        );
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let phase = match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => PodPhase::Running(ready),
            Some("Succeeded" | "Failed") => PodPhase::Finished,
            _ => PodPhase::Pending,
        };
        let facts = Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node,
            phase,
            deletion: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            containers: spec
                .containers
                .iter()
                .map(|container| (container.name.clone(), container.image.clone().unwrap_or_default()))
                .collect(),
            host_network: spec.host_network.unwrap_or_default(),
        };
        Some((key, facts))
    }
}
