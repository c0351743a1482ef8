//! The decisions about one MachineDeployment: its sets, their sizes during a rollout, and its status.
//!
//! In scope: [`decide()`] and its rules, one file per topic. Out of scope: VMs, and which machines of a set are
//! deleted; this module only predicts that.

mod bounds;
mod decide;
mod defects;
mod history;
mod in_place;
mod nodes;
mod reason;
mod recreate;
mod retained;
mod revision;
mod rollback;
mod rolling;
mod rollout_draft;
mod scale;
mod status;
mod surge;
mod trigger;
mod validation;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{Machine, MachineDeployment, MachineSet};

pub use bounds::{Bounds, ROLLING_UPDATE, is_updated_in_place, resolve};
pub use decide::decide;
pub use reason::Reason;
pub use validation::problems;

/// Operator settings for all deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether cluster-autoscaler is kept away from the nodes of a deployment while it rolls out.
    pub keep_autoscaler_away: bool,
    /// Whether a machine counts as available only after `minReadySeconds`. Upstream ignores the field.
    pub honours_min_ready_seconds: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keep_autoscaler_away: true,
            honours_min_ready_seconds: false,
        }
    }
}

/// Nodes by their names: a snapshot that shares its storage with the cache, for lookups. Rules iterate over machines, so
/// that the order of nodes does not matter.
pub type NodesByName = rpds::HashTrieMapSync<String, Arc<Node>>;

/// A snapshot of everything that a decision about one deployment uses.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The deployment: the newer of the cached copy and the result of this process's last write.
    pub deployment: MachineDeployment,
    /// Sets that the deployment controls, and orphans, in any order.
    pub sets: Vec<Arc<MachineSet>>,
    /// Machines of those sets, in any order.
    pub machines: Vec<Arc<Machine>>,
    /// All nodes. `None`: there is no target cluster.
    pub nodes: Option<NodesByName>,
    /// Name of a set that could not be created because the name exists.
    pub taken: Option<String>,
    /// The error of a set creation that failed just now. The plan then only reports it.
    pub failure: Option<String>,
}
