//! Access to the clusters: clients, preflight checks, and the event recorder.
//!
//! It must not contain requests for machines, sets or deployments.

mod clients;
mod event_recorder;
mod lean_api;
mod preflight;

pub(crate) use self::clients::{CONTROLLER_AGENT, ELECTION_AGENT, Layers, RateLimit, layered};
pub use self::clients::{Clusters, client, from_options};
pub(crate) use self::event_recorder::EventRecorder;
pub(crate) use self::lean_api::LeanApi;
pub use self::preflight::{check_clusters, check_driver};
