//! In-memory state between reconciles that is not in a cache: work in progress, and results of the last calls.
//!
//! It is lost at a restart; the new process restores it from the clusters and the cloud. The module must not contain
//! requests, driver calls or decisions.

mod backoff;
mod connection;
mod created_vms;
pub(crate) mod drains;
mod guard;
mod last_times;
mod machine_names;
mod pending_set_writes;
mod pending_statuses;
mod requested_deletions;
mod update_support;

pub(crate) use self::backoff::{Backoff, RetryCause};
pub(crate) use self::connection::Connection;
pub(crate) use self::created_vms::CreatedVms;
pub(crate) use self::drains::Drains;
pub(crate) use self::guard::Guard;
pub(crate) use self::last_times::LastTimes;
pub(crate) use self::machine_names::MachineNames;
pub(crate) use self::pending_set_writes::PendingSetWrites;
pub(crate) use self::pending_statuses::PendingStatuses;
pub(crate) use self::requested_deletions::{DeletionRequest, RequestedDeletions};
pub(crate) use self::update_support::UpdateSupport;
