//! The object kinds that scenarios use and the engine watches.

use crate::closest::suggestion;

/// A kind and its API.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// For example `v1` or `machine.sapcloud.io/v1alpha1`.
    pub api_version: &'static str,
    /// For example `Machine`.
    pub kind: &'static str,
    /// For example `machines`.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Whether the engine watches it.
    pub watched: bool,
    /// The cluster with its objects, if control and target cluster are different.
    pub side: Side,
}

/// The cluster with the objects of a kind, if control and target cluster are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The cluster that holds the machines.
    Control,
    /// The cluster that the nodes join.
    Target,
    /// Both, for events: each is in the cluster of its object.
    Both,
}

const MACHINE_API: &str = "machine.sapcloud.io/v1alpha1";

static KINDS: [Kind; 28] = [
    Kind {
        api_version: MACHINE_API,
        kind: "Machine",
        plural: "machines",
        namespaced: true,
        watched: true,
        side: Side::Control,
    },
    Kind {
        api_version: MACHINE_API,
        kind: "MachineSet",
        plural: "machinesets",
        namespaced: true,
        watched: true,
        side: Side::Control,
    },
    Kind {
        api_version: MACHINE_API,
        kind: "MachineDeployment",
        plural: "machinedeployments",
        namespaced: true,
        watched: true,
        side: Side::Control,
    },
    Kind {
        api_version: MACHINE_API,
        kind: "MachineClass",
        plural: "machineclasses",
        namespaced: true,
        watched: true,
        side: Side::Control,
    },
    Kind {
        api_version: "v1",
        kind: "Node",
        plural: "nodes",
        namespaced: false,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "v1",
        kind: "Event",
        plural: "events",
        namespaced: true,
        watched: true,
        side: Side::Both,
    },
    Kind {
        api_version: "v1",
        kind: "Secret",
        plural: "secrets",
        namespaced: true,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        namespaced: true,
        watched: false,
        side: Side::Target,
    },
    Kind {
        api_version: "v1",
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        namespaced: false,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "v1",
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        namespaced: true,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "storage.k8s.io/v1",
        kind: "VolumeAttachment",
        plural: "volumeattachments",
        namespaced: false,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        namespaced: false,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "apps/v1",
        kind: "Deployment",
        plural: "deployments",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "apps/v1",
        kind: "StatefulSet",
        plural: "statefulsets",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "apps/v1",
        kind: "DaemonSet",
        plural: "daemonsets",
        namespaced: true,
        watched: true,
        side: Side::Target,
    },
    Kind {
        api_version: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        plural: "priorityclasses",
        namespaced: false,
        watched: false,
        side: Side::Target,
    },
    Kind {
        api_version: "storage.k8s.io/v1",
        kind: "StorageClass",
        plural: "storageclasses",
        namespaced: false,
        watched: false,
        side: Side::Target,
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        plural: "clusterroles",
        namespaced: false,
        watched: false,
        side: Side::Target,
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        namespaced: false,
        watched: false,
        side: Side::Target,
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        plural: "roles",
        namespaced: true,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "RoleBinding",
        plural: "rolebindings",
        namespaced: true,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "admissionregistration.k8s.io/v1",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        namespaced: false,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "admissionregistration.k8s.io/v1",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        namespaced: false,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        namespaced: false,
        watched: false,
        side: Side::Control,
    },
    Kind {
        api_version: MACHINE_API,
        kind: "AWSMachineClass",
        plural: "awsmachineclasses",
        namespaced: true,
        watched: false,
        side: Side::Control,
    },
];

/// All kinds.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter()
}

/// The kinds that the engine watches.
pub fn watched() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.watched)
}

/// A kind that scenarios cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind {name:?}; {}", hint(name))]
pub struct UnknownKind {
    /// Its name.
    pub name: String,
}

fn hint(name: &str) -> String {
    suggestion(name, KINDS.iter().map(|kind| kind.kind))
}

/// The kind of that name.
///
/// # Errors
/// [`UnknownKind`], which names the closest known kind.
pub fn find(name: &str) -> Result<&'static Kind, UnknownKind> {
    let found = KINDS.iter().find(|kind| kind.kind == name);
    found.ok_or_else(|| UnknownKind { name: name.to_owned() })
}
