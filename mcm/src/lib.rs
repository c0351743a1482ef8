//! The machine controller manager: the shell around the decisions of `mcm-core`.
//!
//! What lives here: everything that awaits. Watches fill caches, caches make views, decisions give
//! plans, and plans are carried out; beside that flags, clients, leader election, metrics and events.
//! What must not: a decision about a machine, and knowledge of any cloud.

#[macro_use]
extern crate defects;

// Its compiled code is shared; see `runtime::codec`.
use runtime as _;

mod act;
mod backoff;
mod cache;
mod clients;
mod controllers;
mod created_vms;
mod deployments;
mod drain_view;
mod drains;
mod election;
mod error;
mod finalizers;
pub mod http;
mod last_times;
mod metrics;
mod migration;
mod options;
mod overshoot;
mod pending_set_writes;
mod preflight;
mod preservation;
mod queue;
mod readiness;
mod recorder;
mod run;
mod safety;
mod sets;
mod slots;
mod source;
mod steps;
#[cfg(test)]
mod testing;
mod updates;
mod view;
mod world;
mod world_sets;

pub use clients::{client, from_options};
pub use error::Error;
pub use metrics::Metrics;
pub use options::{
    AcceptedOptions, Controller, DriverTlsOptions, LeaderElectionOptions, LogFormat, MachineOptions, Options,
    OptionsError, OvershootOptions, PreservationDialect, PreservationOptions, RetryOptions, SafetyOptions,
};
pub use preflight::{check_clusters, check_driver};
pub use readiness::{Activity, Readiness};
pub use run::{Environment, run};
