//! The kinds that the harness itself works with, and all other kinds of Kubernetes.

use std::sync::LazyLock;

use super::{Kind, Side};

const MACHINE_API: &str = "machine.sapcloud.io/v1alpha1";

/// A kind with objects in namespaces.
const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str, side: Side) -> Kind {
    Kind {
        api_version,
        kind,
        key: kind,
        plural,
        namespaced: true,
        watched: false,
        side,
    }
}

/// A kind with objects outside of namespaces.
const fn cluster_wide(api_version: &'static str, kind: &'static str, plural: &'static str, side: Side) -> Kind {
    Kind {
        namespaced: false,
        ..namespaced(api_version, kind, plural, side)
    }
}

/// A kind that every run watches.
const fn watched(kind: Kind) -> Kind {
    Kind { watched: true, ..kind }
}

/// The kinds that the harness works with.
pub(super) static KINDS: [Kind; 29] = [
    watched(namespaced(MACHINE_API, "Machine", "machines", Side::Control)),
    watched(namespaced(MACHINE_API, "MachineSet", "machinesets", Side::Control)),
    watched(namespaced(
        MACHINE_API,
        "MachineDeployment",
        "machinedeployments",
        Side::Control,
    )),
    watched(namespaced(MACHINE_API, "MachineClass", "machineclasses", Side::Control)),
    watched(cluster_wide("v1", "Node", "nodes", Side::Target)),
    watched(namespaced("v1", "Pod", "pods", Side::Target)),
    watched(namespaced("v1", "Event", "events", Side::Both)),
    namespaced("v1", "Secret", "secrets", Side::Control),
    namespaced("v1", "ConfigMap", "configmaps", Side::Target),
    watched(cluster_wide(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        Side::Target,
    )),
    watched(namespaced(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Side::Target,
    )),
    namespaced("coordination.k8s.io/v1", "Lease", "leases", Side::Control),
    watched(namespaced(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        Side::Target,
    )),
    watched(cluster_wide(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments",
        Side::Target,
    )),
    watched(cluster_wide("v1", "Namespace", "namespaces", Side::Target)),
    watched(namespaced("apps/v1", "Deployment", "deployments", Side::Target)),
    watched(namespaced("apps/v1", "StatefulSet", "statefulsets", Side::Target)),
    watched(namespaced("apps/v1", "DaemonSet", "daemonsets", Side::Target)),
    cluster_wide("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Side::Target),
    cluster_wide("storage.k8s.io/v1", "StorageClass", "storageclasses", Side::Target),
    cluster_wide(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        Side::Target,
    ),
    cluster_wide(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        Side::Target,
    ),
    namespaced("rbac.authorization.k8s.io/v1", "Role", "roles", Side::Control),
    namespaced(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        Side::Control,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        Side::Control,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        Side::Control,
    ),
    cluster_wide(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        Side::Control,
    ),
    // Watched in worlds that have health checks.
    namespaced(MACHINE_API, "MachineHealthCheck", "machinehealthchecks", Side::Control),
    namespaced(MACHINE_API, "AWSMachineClass", "awsmachineclasses", Side::Control),
];

/// All other kinds of Kubernetes whose objects are stored.
pub(super) static OTHERS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let resources = apiserver::kinds::builtin();
    let stored = resources.iter().filter(|resource| resource.is_stored());
    let others = stored.filter(|resource| {
        let version = resource.api_version();
        let is_known = |kind: &Kind| kind.kind == resource.kind && kind.api_version == version;
        resource.kind == super::LEADERSHIP || !KINDS.iter().any(is_known)
    });
    // The list lives as long as the program.
    let leaked = |text: String| -> &'static str { text.leak() };
    others
        .map(|resource| Kind {
            api_version: leaked(resource.api_version()),
            kind: leaked(resource.kind.clone()),
            key: leaked(super::key(&resource.kind, &resource.group)),
            plural: leaked(resource.plural.clone()),
            namespaced: resource.namespaced,
            watched: false,
            side: Side::Target,
        })
        .collect()
});
