//! The roles of clusters: for machines, for their nodes, or for both.

use serde_json::Value;

use super::setup::{self, SetupError};
use crate::deploy::{self, DeployError};

/// The role of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The cluster holds machines, and their nodes join it.
    Both,
    /// The cluster holds machines.
    Control,
    /// Nodes join the cluster.
    Target,
}

impl Role {
    /// Prepares a cluster for this role: creates the machine CRDs if it holds machines, the namespace, accounts, roles
    /// and bindings.
    ///
    /// # Errors
    /// The first object that cannot be created.
    pub async fn install(self, client: &kube::Client, namespace: &str) -> Result<(), SetupError> {
        if self.holds_machines() {
            setup::install_definitions(client).await?;
        }
        setup::install_namespace(client, namespace).await?;
        deploy::apply(client, &self.rbac(namespace)?).await?;
        Ok(())
    }

    /// Whether the cluster holds machines, sets, deployments and classes.
    pub fn holds_machines(self) -> bool {
        self != Self::Target
    }

    /// The RBAC objects of mcm and fakecloud in the cluster.
    ///
    /// # Errors
    /// As [`deploy::rbac`].
    pub(super) fn rbac(self, namespace: &str) -> Result<Vec<Value>, DeployError> {
        match self {
            Self::Both => deploy::rbac(namespace),
            Self::Control => deploy::control_rbac(namespace),
            Self::Target => deploy::target_rbac(namespace),
        }
    }
}
