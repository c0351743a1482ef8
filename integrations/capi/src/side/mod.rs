//! The two sides of a comparison: the objects and processes of each controller.

mod capi;
mod mcm;

use std::path::PathBuf;

use serde_json::Value;

use crate::kinds::{self, Kind};
use crate::plan::Plan;

pub use self::capi::{certificate, controller as capi_controller, kubeconfig_secret};
pub use self::mcm::controller as mcm_controller;

/// The namespace of all objects.
pub const NAMESPACE: &str = "default";
/// The label of the machines, and the name of their owner and of their check.
pub const WORKERS: &str = "workers";

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The core controllers of Cluster API.
    ClusterApi,
    /// `mcm`.
    Drydock,
}

/// The files of a world.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder for logs and kubeconfigs.
    pub folder: PathBuf,
    /// The kubeconfig of the API server.
    pub control: PathBuf,
    /// A kubeconfig whose connection can be cut.
    pub target: PathBuf,
}

impl Side {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterApi => "Cluster API",
            Self::Drydock => "Drydock",
        }
    }

    /// The name of its folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::ClusterApi => "cluster-api",
            Self::Drydock => "drydock",
        }
    }

    /// The kind of its machines.
    pub fn machine(self) -> Kind {
        match self {
            Self::ClusterApi => kinds::CAPI_MACHINE,
            Self::Drydock => kinds::MCM_MACHINE,
        }
    }

    /// The kind of its MachineDeployments.
    pub fn deployment(self) -> Kind {
        match self {
            Self::ClusterApi => kinds::CAPI_DEPLOYMENT,
            Self::Drydock => kinds::MCM_DEPLOYMENT,
        }
    }

    /// The kind of its health checks.
    pub fn check(self) -> Kind {
        match self {
            Self::ClusterApi => kinds::CAPI_CHECK,
            Self::Drydock => kinds::MCM_CHECK,
        }
    }

    /// The objects of a plan, without the check.
    pub fn objects(self, plan: &Plan) -> Vec<Value> {
        match self {
            Self::ClusterApi => capi::objects(plan),
            Self::Drydock => mcm::objects(plan),
        }
    }

    /// The check of a plan.
    pub fn check_of(self, plan: &Plan) -> Value {
        match self {
            Self::ClusterApi => capi::check(plan),
            Self::Drydock => mcm::check(plan),
        }
    }

    /// The change of the MachineDeployment's template.
    pub fn change(self) -> Value {
        match self {
            Self::ClusterApi => capi::change(),
            Self::Drydock => mcm::change(),
        }
    }

    /// The annotation that requests the remediation of a machine.
    pub fn remediate_annotation() -> &'static str {
        "cluster.x-k8s.io/remediate-machine"
    }
}
