//! The decisions about one MachineSet: which machines are its own, how many there are, which go first, and its status.
//!
//! What lives here: [`decide()`] and the rules behind it, a file a topic. What must not: how sets of one deployment relate
//! to each other, and anything about VMs.

mod decide;
mod defects;
mod rank;
mod reason;
mod replicas;
mod status;
mod sync;
mod validation;

use std::sync::Arc;

use mcm_api::{Machine, MachineDeployment, MachineSet};

pub use decide::decide;
pub(crate) use rank::marked;
pub use rank::{is_active, rank};
pub use reason::Reason;
pub(crate) use replicas::goes_as_chosen;
pub use status::is_available;
pub(crate) use status::{INVALID, stamp};
pub use validation::problems;
pub(crate) use validation::template_problems;

/// Most machines that one plan makes; the next plan follows at once.
pub const BURST: usize = 100;

/// Everything that is known about one set at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The set: the newest of the cache's copy and what the shell's own writes returned.
    pub set: MachineSet,
    /// Machines that the set controls, and orphans, in any order; machines of others may be among them. What this
    /// process made or deleted and the watch has not shown yet is here as the answers said.
    pub machines: Vec<Arc<Machine>>,
    /// The deployment that controls the set, where it is known.
    pub deployment: Option<Arc<MachineDeployment>>,
    /// The step of the last plan that failed, in words. The plan then only tells of it.
    pub failure: Option<String>,
}
