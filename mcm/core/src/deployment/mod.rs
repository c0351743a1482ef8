//! The decisions about one MachineDeployment: its sets, their sizes during a rollout, and its status.
//!
//! What lives here: [`decide()`] and the rules behind it, a file a topic. What must not: which machines of a set go, except
//! to foresee it, and anything about VMs.

mod bounds;
mod decide;
mod defects;
mod history;
mod in_place;
mod nodes;
mod reason;
mod recreate;
mod revision;
mod rollback;
mod rolling;
mod rollout_draft;
mod scale;
mod status;
mod surge;
mod trigger;
mod validation;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{Machine, MachineDeployment, MachineSet};

pub use bounds::{Bounds, ROLLING_UPDATE, resolve};
pub use decide::decide;
pub use reason::Reason;
pub use validation::problems;

/// What an operator sets for all deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether cluster-autoscaler is kept away from the nodes of a deployment while it rolls out.
    pub keep_autoscaler_away: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keep_autoscaler_away: true,
        }
    }
}

/// Everything that is known about one deployment at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The deployment: the newest of the cache's copy and what the shell's own writes returned.
    pub deployment: MachineDeployment,
    /// Sets that the deployment controls, and orphans, in any order.
    pub sets: Vec<Arc<MachineSet>>,
    /// Machines of those sets, in any order.
    pub machines: Vec<Arc<Machine>>,
    /// Nodes of those machines by their names; `None`: there is no target cluster.
    pub nodes: Option<BTreeMap<String, Arc<Node>>>,
    /// Name of a set that could not be created because there is one.
    pub taken: Option<String>,
    /// The creation of a set that failed just now, in words. The plan then only tells of it.
    pub failure: Option<String>,
}
