//! The input of a decision about a Deployment.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use crate::workloads::plan::Failure;

/// The observed state for a decision about a Deployment.
#[derive(Clone, Debug)]
pub struct View {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The ReplicaSets that it controls, and the orphaned ones of its namespace.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// The existing ReplicaSet names among those that it might use.
    pub names: BTreeSet<String>,
    /// The pods of its ReplicaSets, including terminating ones.
    pub pods: Vec<Arc<Pod>>,
    /// The failure of the last attempt.
    pub failure: Option<Failure>,
}
