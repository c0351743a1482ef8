//! The decisions about one MachineSet: its machines, their number, the order of their deletion, and its status.
//!
//! In scope: [`decide()`] and its rules, one file per topic. Out of scope: VMs, and relations between the sets of a
//! deployment.

mod cause;
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

pub use cause::Cause;
pub use decide::decide;
pub(crate) use rank::marked;
pub use rank::{is_active, rank};
pub use reason::Reason;
pub(crate) use replicas::is_chosen_for_deletion;
pub use status::is_available;
pub(crate) use status::{INVALID, min_ready_seconds, stamp};
pub use validation::problems;
pub(crate) use validation::template_problems;

/// The maximum number of machines that one plan creates; the next plan follows at once.
pub const BURST: usize = 100;

/// A snapshot of everything that a decision about one set uses.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The set: the newer of the cached copy and the result of this process's last write.
    pub set: MachineSet,
    /// Machines that the set controls, and orphans, in any order; machines of other owners may be among them. Includes
    /// machines that this process created or deleted and that the watch does not show yet.
    pub machines: Vec<Arc<Machine>>,
    /// The deployment that controls the set, if it is observed.
    pub deployment: Option<Arc<MachineDeployment>>,
    /// The error of the failed step of the last plan. The plan then only reports it.
    pub failure: Option<String>,
    /// Whether a machine counts as available only after `minReadySeconds`. Upstream ignores the field.
    pub honours_min_ready_seconds: bool,
}
