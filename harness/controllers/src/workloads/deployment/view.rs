//! What a decision about a Deployment rests on.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use crate::workloads::plan::Failure;

/// What a decision about a Deployment rests on.
#[derive(Clone, Debug)]
pub struct View {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The ReplicaSets that it controls, and those of its namespace that nobody controls.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// The names of ReplicaSets that are taken, as far as it could want them.
    pub names: BTreeSet<String>,
    /// The pods that its ReplicaSets control, those included that are on their way out.
    pub pods: Vec<Arc<Pod>>,
    /// What failed at the last attempt.
    pub failure: Option<Failure>,
}
