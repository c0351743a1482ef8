//! The enabled controllers and their periods. The defaults are those of kube-controller-manager.

use std::collections::BTreeSet;

use crate::{Panics, node_lifecycle, pod_gc};

/// The name of a controller, to enable or disable it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Garbage collector: deletes objects whose owners are gone.
    GarbageCollector,
    /// Namespace controller: deletes the content of terminating namespaces and finalizes them.
    Namespaces,
    /// Creates the default service account of each namespace.
    ServiceAccounts,
    /// Publishes the root certificate in each namespace.
    RootCertificates,
    /// Taint eviction: deletes pods from nodes with taints that they do not tolerate.
    TaintEviction,
    /// Pod garbage collector: deletes pods that nothing else will delete.
    PodGc,
    /// Maintains the status of pod disruption budgets.
    Disruption,
    /// Node lifecycle: maintains conditions and taints of nodes whose kubelets are silent.
    NodeLifecycle,
    /// ReplicaSet controller: creates and deletes pods of ReplicaSets.
    ReplicaSet,
    /// Deployment controller: creates and scales ReplicaSets of Deployments.
    Deployment,
    /// DaemonSet controller: creates and deletes pods of DaemonSets.
    DaemonSet,
    /// StatefulSet controller: creates and deletes pods and claims of StatefulSets.
    StatefulSet,
    /// Job controller: runs pods of Jobs, and deletes finished Jobs after their TTL.
    Job,
    /// EndpointSlice controller: maintains the EndpointSlices of Services.
    EndpointSlice,
    /// Scheduler: assigns pods to nodes.
    Scheduler,
    /// Volume binder: binds and provisions volumes for claims.
    VolumeBinder,
    /// Protects claims and volumes in use from deletion.
    VolumeProtection,
    /// Creates claims for ephemeral volumes.
    EphemeralVolumes,
    /// Attaches volumes to the nodes of their pods, and detaches them.
    AttachDetach,
}

impl Name {
    /// All controllers.
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

/// The enabled controllers and their settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The enabled controllers.
    pub enabled: BTreeSet<Name>,
    /// The PEM bundle that the root certificate publisher publishes.
    pub root_certificate: String,
    /// The limits of the pod garbage collector.
    pub pod_gc: pod_gc::Settings,
    /// The periods of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
    /// Receives the number of panics of each controller.
    pub panics: Panics,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: Name::ALL.iter().copied().collect(),
            root_certificate: String::new(),
            pod_gc: pod_gc::Settings::default(),
            node_lifecycle: node_lifecycle::Settings::default(),
            panics: Panics::default(),
        }
    }
}

impl Settings {
    /// Settings with only these controllers.
    pub fn only(names: impl IntoIterator<Item = Name>) -> Self {
        Self {
            enabled: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The same settings without these controllers.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        for name in names {
            self.enabled.remove(&name);
        }
        self
    }

    /// Whether a controller is enabled.
    pub fn runs(&self, name: Name) -> bool {
        self.enabled.contains(&name)
    }
}
