//! What this process remembers between two reconciles and no cache has: work under way, and what the last calls showed.
//!
//! A process that dies forgets all of it; its successor finds the same by asking the clusters and the cloud. What must not
//! live here: requests, driver calls, and decisions.

mod backoff;
mod created_vms;
pub(crate) mod drains;
mod guard;
mod last_times;
mod machine_names;
mod pending_set_writes;
mod pending_statuses;
mod update_support;

pub(crate) use self::backoff::{Backoff, Trouble};
pub(crate) use self::created_vms::CreatedVms;
pub(crate) use self::drains::Drains;
pub(crate) use self::guard::Guard;
pub(crate) use self::last_times::LastTimes;
pub(crate) use self::machine_names::MachineNames;
pub(crate) use self::pending_set_writes::PendingSetWrites;
pub(crate) use self::pending_statuses::PendingStatuses;
pub(crate) use self::update_support::UpdateSupport;
