//! What a cluster is for: machines, their nodes, or both.

use serde_json::Value;

use super::setup::{self, SetupError};
use crate::deploy::{self, DeployError};

/// What a control plane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds machines, and their nodes join it.
    Both,
    /// It holds machines.
    Control,
    /// Nodes join it.
    Target,
}

impl Role {
    /// Makes a cluster ready for it: definitions of machines if it is to hold some, the namespace, accounts and what they
    /// may do.
    ///
    /// # Errors
    /// The first object that is not created.
    pub async fn install(self, client: &kube::Client, namespace: &str) -> Result<(), SetupError> {
        if self.holds_machines() {
            setup::install_definitions(client).await?;
        }
        setup::install_namespace(client, namespace).await?;
        deploy::apply(client, &self.rbac(namespace)?).await?;
        Ok(())
    }

    /// Whether machines, sets, deployments and classes are in it.
    pub fn holds_machines(self) -> bool {
        self != Self::Target
    }

    /// The roles that mcm and fakecloud have there.
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
