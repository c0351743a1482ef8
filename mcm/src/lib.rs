//! The machine controller manager: the shell around the decisions of `mcm-core`.
//!
//! What lives here: everything that awaits. Watches fill caches, caches make views, decisions give
//! plans, and plans are carried out; beside that flags, clients, leader election, metrics and events.
//! What must not: a decision about a machine, and knowledge of any cloud.
//!
//! Each folder may use those before it, and none after: `options`, `cache`, `metrics`, `cluster`, `memory`, `view`,
//! `execute`, `reconcile`, `safety`.

#[macro_use]
extern crate defects;

mod cache;
mod cluster;
mod error;
mod execute;
mod memory;
mod metrics;
mod options;
mod reconcile;
mod run;
mod safety;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod view;

pub use cluster::{check_clusters, check_driver, client, from_options};
pub use error::Error;
pub use metrics::{Activity, Metrics, Readiness, http};
pub use options::{
    AcceptedOptions, Controller, DriverTlsOptions, LeaderElectionOptions, LogFormat, MachineOptions, Options,
    OptionsError, OvershootOptions, PreservationDialect, PreservationOptions, RetryOptions, SafetyOptions,
};
pub use run::{Environment, run};
