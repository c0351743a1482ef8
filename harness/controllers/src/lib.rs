//! The built-in controllers of a Kubernetes control plane.
//!
//! [`run`] runs the controllers that its [`Settings`] enable, in one future, with one watch per kind. They use
//! only a `kube::Client`, so they run in process, in virtual time, and against a real API server. Nothing here
//! may depend on machines, on clouds or on internals of the embedded server.
//!
//! # Writing a controller
//!
//! A folder holds a pure decision with its table tests, and a struct that implements [`Controller`]:
//!
//! ```
//! use std::collections::BTreeSet;
//!
//! use controllers::{Action, Cached, Change, Controller, Kind, ObjectKey, Plan, Queue, View};
//! use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
//!
//! struct DefaultAccounts;
//!
//! #[derive(Debug)]
//! enum Reason {
//!     Missing,
//! }
//!
//! impl Controller for DefaultAccounts {
//!     type Key = String; // a namespace's name
//!     type Reason = Reason;
//!
//!     fn name(&self) -> &'static str {
//!         "serviceaccount-controller"
//!     }
//!
//!     // The typed caches; they are listed before the first decision.
//!     fn kinds(&self) -> BTreeSet<Kind> {
//!         BTreeSet::from([Kind::Namespace, Kind::ServiceAccount])
//!     }
//!
//!     // Receives every change of these kinds, including own writes. Enqueue the affected keys.
//!     fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
//!         if change.of::<Namespace>().is_some() {
//!             queue.add(change.key.name.clone());
//!         } else if change.of::<ServiceAccount>().is_some() {
//!             queue.add(change.key.namespace.clone());
//!         }
//!     }
//!
//!     // Pure: caches and time in, actions out. `Plan::deadline` is the time of the next decision.
//!     fn decide(&mut self, namespace: &String, view: View<'_>) -> Plan<Reason> {
//!         let live = view.caches.namespaces.get(&ObjectKey::cluster(namespace));
//!         if live.is_none_or(|live| live.metadata.deletion_timestamp.is_some())
//!             || view.caches.service_accounts.named(namespace, "default").is_some()
//!         {
//!             return Plan::nothing();
//!         }
//!         let mut account = ServiceAccount::default();
//!         account.metadata.namespace = Some(namespace.clone());
//!         account.metadata.name = Some("default".to_owned());
//!         Plan::act(Reason::Missing, Action::create(&account))
//!     }
//! }
//! ```
//!
//! Also add one line to `workers` in this file, one to [`Name`], and one to the table of kinds if the
//! controller watches a new kind.
//!
//! - The actions of a plan are performed in order, up to the first failure; a key is not decided again while
//!   its actions are in progress. The caches contain the responses of writes before the key is decided again:
//!   count objects in the cache; no expectations are needed.
//! - A failed key is decided again after 5 ms, doubled each time up to 1000 s; a change that affects the key
//!   skips the backoff. [`Controller::performed`] receives every outcome, for controllers that report failures
//!   or need the result of a read.
//! - A missing object is not an error for a patch, replacement or deletion; neither is a terminating namespace.
//! - Where a stale decision could do harm, use `Action::delete` (uid), `*_as_seen` or `replace*` (resource
//!   version): on a conflict the key is decided again.
//! - Write nothing when nothing would change: keys are decided often.
//! - A panic is caught (not in virtual time, where it fails the run) and logged with its key. A new instance of the
//!   controller then observes all objects, after 1 s to 30 s; the key that panicked waits 5 s to 1000 s. The other
//!   controllers continue.

// Numbers come from users: arithmetic saturates, or is checked. An exception states why it cannot overflow.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

// The compiled code is shared; see `runtime::codec`.
use runtime as _;

mod amounts;
mod foundation;
#[cfg(test)]
mod idle;
mod name;
mod settings;

pub mod disruption;
pub mod garbage_collector;
pub mod matching;
pub mod namespace_contents;
pub mod namespaces;
pub mod node_lifecycle;
pub mod pod_gc;
pub mod quotas;
pub mod scheduler;
pub mod taint_eviction;
pub mod volumes;
mod workloads;

use clock::{Clock, Seed};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use foundation::{
    Action, Cache, Cached, Caches, Change, Controller, Deletion, Failure, Kind, Metadata, Object, ObjectKey, Outcome,
    Patch, Plan, Preconditions, Propagation, Queue, ResourceType, Served, Severity, Target, Transition, View,
};
use foundation::{AnyWorker, Worker};
pub use foundation::{PanicCounts, Panics};
pub use name::{Name, SelectionError};
pub use settings::Settings;

/// Runs the enabled controllers until `cancelled` fires. Errors are logged and retried.
pub async fn run(client: Client, clock: Clock, seed: Seed, settings: Settings, cancelled: CancellationToken) {
    let workers = workers(&settings, clock.now());
    foundation::run::run(client, clock, seed, workers, settings.panics, cancelled).await;
}

/// The enabled controllers. The order determines who decides first when several are due.
fn workers(settings: &Settings, now: jiff::Timestamp) -> Vec<Box<dyn AnyWorker>> {
    let mut workers: Vec<Box<dyn AnyWorker>> = Vec::new();
    for name in &settings.enabled {
        workers.extend(match name {
            Name::GarbageCollector => worker(garbage_collector::GarbageCollector::default),
            Name::Namespaces => worker(namespaces::Namespaces::default),
            Name::ServiceAccounts => worker(|| namespace_contents::ServiceAccounts),
            Name::RootCertificates => {
                let certificate = settings.root_certificate.clone();
                worker(move || namespace_contents::RootCertificates::new(certificate.clone()))
            }
            Name::TaintEviction => worker(taint_eviction::TaintEviction::default),
            Name::PodGc => {
                let periods = settings.pod_gc.clone();
                worker(move || pod_gc::PodGc::new(periods.clone()))
            }
            Name::Disruption => worker(disruption::Disruption::default),
            Name::ResourceQuota => worker(|| quotas::Quotas),
            Name::NodeLifecycle => {
                let periods = settings.node_lifecycle.clone();
                worker(move || node_lifecycle::NodeLifecycle::new(periods.clone(), now))
            }
            _ => None,
        });
    }
    workloads::add(settings, &mut workers);
    volumes::add(settings, &mut workers);
    if settings.runs(Name::Scheduler) {
        workers.push(Box::new(Worker::new(scheduler::Scheduler::default)));
    }
    workers
}

fn worker<C: Controller + 'static>(create: impl Fn() -> C + Send + 'static) -> Option<Box<dyn AnyWorker>> {
    Some(Box::new(Worker::new(create)))
}
