//! The machine controller manager: the shell around the decisions of `mcm-core`.
//!
//! It contains all asynchronous code: watches fill caches, views are built from caches, decisions
//! return plans, and the action executor performs the plans. It also contains flags, clients, leader
//! election, metrics and events. It must not contain decisions about machines, nor code for a cloud.
//!
//! Each module may use only the modules before it in this order: `options`, `cache`, `metrics`, `cluster`, `memory`,
//! `view`, `execute`, `reconcile`, `safety`. `vm`, which is no part of the controller, uses `options` only.

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
pub mod vm;

pub use cluster::{Clusters, check_clusters, check_driver, client, from_options};
pub use error::Error;
pub use metrics::{Activity, Metrics, Readiness, http};
pub use options::{
    AcceptedOptions, Controller, DriverTlsOptions, HealthCheckOptions, LeaderElectionOptions, LogFormat,
    MachineOptions, Options, OptionsError, OvershootOptions, PreservationDialect, PreservationOptions, PreserveFencing,
    RetryOptions, SafetyOptions,
};
pub use run::{Environment, run, run_with_election_thread};
