//! Which controllers run, and their periods. Defaults are kube-controller-manager's.

use std::collections::BTreeSet;

use crate::node_lifecycle;

/// A controller that can be switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Conditions and taints of nodes whose kubelets are silent.
    NodeLifecycle,
    /// Pods of ReplicaSets.
    ReplicaSet,
    /// ReplicaSets of Deployments.
    Deployment,
    /// Pods of DaemonSets.
    DaemonSet,
    /// Pods and claims of StatefulSets.
    StatefulSet,
    /// Pods of Jobs, and finished Jobs after their time to live.
    Job,
    /// EndpointSlices of Services.
    EndpointSlice,
    /// Nodes for pods.
    Scheduler,
    /// Volumes for claims.
    VolumeBinder,
    /// Claims and volumes that are in use stay.
    VolumeProtection,
    /// Claims of ephemeral volumes.
    EphemeralVolumes,
    /// Volumes on the nodes of their pods.
    AttachDetach,
}

impl Name {
    /// Every controller.
    pub const ALL: &[Self] = &[Self::NodeLifecycle, Self::ReplicaSet, Self::Deployment, Self::DaemonSet, Self::StatefulSet, Self::Job, Self::EndpointSlice, Self::Scheduler, Self::VolumeBinder, Self::VolumeProtection, Self::EphemeralVolumes, Self::AttachDetach];
}

/// Which controllers run, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Those that run.
    pub enabled: BTreeSet<Name>,
    /// Periods of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: Name::ALL.iter().copied().collect(),
            node_lifecycle: node_lifecycle::Settings::default(),
        }
    }
}

impl Settings {
    /// Only these controllers.
    pub fn only(names: impl IntoIterator<Item = Name>) -> Self {
        Self {
            enabled: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// All but these controllers.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        for name in names {
            self.enabled.remove(&name);
        }
        self
    }

    /// Whether a controller runs.
    pub fn runs(&self, name: Name) -> bool {
        self.enabled.contains(&name)
    }
}
