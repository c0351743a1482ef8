//! Which controllers run, and their periods. Defaults are kube-controller-manager's.

use std::collections::BTreeSet;

use crate::{node_lifecycle, pod_gc};

/// A controller that can be switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Deletes what nobody owns any more.
    GarbageCollector,
    /// Empties and ends namespaces that are deleted.
    Namespaces,
    /// The default service account of each namespace.
    ServiceAccounts,
    /// The root certificate in each namespace.
    RootCertificates,
    /// Deletes pods from nodes with taints that they do not tolerate.
    TaintEviction,
    /// Ends pods that nobody else will.
    PodGc,
    /// The status of pod disruption budgets.
    Disruption,
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
    pub const ALL: &[Self] = &[
        Self::GarbageCollector,
        Self::Namespaces,
        Self::ServiceAccounts,
        Self::RootCertificates,
        Self::TaintEviction,
        Self::PodGc,
        Self::Disruption,
        Self::NodeLifecycle,
        Self::ReplicaSet,
        Self::Deployment,
        Self::DaemonSet,
        Self::StatefulSet,
        Self::Job,
        Self::EndpointSlice,
        Self::Scheduler,
        Self::VolumeBinder,
        Self::VolumeProtection,
        Self::EphemeralVolumes,
        Self::AttachDetach,
    ];
}

/// Which controllers run, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Those that run.
    pub enabled: BTreeSet<Name>,
    /// What the root certificate publisher publishes, in PEM.
    pub root_certificate: String,
    /// Limits of pod garbage collection.
    pub pod_gc: pod_gc::Settings,
    /// Periods of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: Name::ALL.iter().copied().collect(),
            root_certificate: String::new(),
            pod_gc: pod_gc::Settings::default(),
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
