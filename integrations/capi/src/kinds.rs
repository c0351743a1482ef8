//! The kinds that the comparison reads and writes.

use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};

/// A namespaced kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    /// Its name.
    pub kind: &'static str,
    plural: &'static str,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
    }
}

const INFRASTRUCTURE: &str = "infrastructure.drydock.dev";
/// The cluster of the infrastructure provider.
pub const CLUSTER: Kind = kind(INFRASTRUCTURE, "v1alpha1", "DrydockCluster", "drydockclusters");
/// Its control plane.
pub const CONTROL_PLANE: Kind = kind(
    INFRASTRUCTURE,
    "v1alpha1",
    "DrydockControlPlane",
    "drydockcontrolplanes",
);
/// Its machines.
pub const MACHINE: Kind = kind(INFRASTRUCTURE, "v1alpha1", "DrydockMachine", "drydockmachines");

const CAPI: &str = "cluster.x-k8s.io";
/// The machines of Cluster API.
pub const CAPI_MACHINE: Kind = kind(CAPI, "v1beta2", "Machine", "machines");
/// The MachineDeployments of Cluster API.
pub const CAPI_DEPLOYMENT: Kind = kind(CAPI, "v1beta2", "MachineDeployment", "machinedeployments");
/// The health checks of Cluster API.
pub const CAPI_CHECK: Kind = kind(CAPI, "v1beta2", "MachineHealthCheck", "machinehealthchecks");

const MCM: &str = "machine.sapcloud.io";
/// The machines of MCM.
pub const MCM_MACHINE: Kind = kind(MCM, "v1alpha1", "Machine", "machines");
/// The MachineDeployments of MCM.
pub const MCM_DEPLOYMENT: Kind = kind(MCM, "v1alpha1", "MachineDeployment", "machinedeployments");
/// The health checks of Drydock.
pub const MCM_CHECK: Kind = kind(MCM, "v1alpha1", "MachineHealthCheck", "machinehealthchecks");

/// The requests to fakecloud's remediation controller.
pub const REMEDIATION: Kind = kind(
    "remediation.fakecloud.drydock.dev",
    "v1alpha1",
    "FakeCloudRemediation",
    "fakecloudremediations",
);

impl Kind {
    /// Its objects in a namespace.
    pub fn of(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural);
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}
