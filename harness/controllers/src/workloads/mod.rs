//! The workload controllers: ReplicaSet, Deployment, DaemonSet, StatefulSet, Job, EndpointSlice.
//!
//! Each folder holds one pure decision over typed objects: a view of the object, its dependents and the time
//! in, a [`plan::Plan`] of typed writes out. [`shell`] builds the views from the shared caches and passes the
//! plans to the foundation. Scheduling and running pods, and garbage collection, belong elsewhere.

mod claims;
mod hash;
mod meta;
mod plan;
mod pods;
mod ranking;
mod revisions;
mod shell;

mod daemon_set;
mod deployment;
mod endpoint_slice;
mod job;
mod replica_set;
mod stateful_set;

#[cfg(test)]
mod world;

use crate::foundation::{AnyWorker, Worker};
use crate::{Name, Settings};
use shell::{DaemonSets, Deployments, EndpointSlices, Jobs, ReplicaSets, Shell, StatefulSets, Workload};

/// Adds the enabled workload controllers.
pub(crate) fn add(settings: &Settings, workers: &mut Vec<Box<dyn AnyWorker>>) {
    let mut add = |name, worker: fn() -> Box<dyn AnyWorker>| {
        if settings.runs(name) {
            workers.push(worker());
        }
    };
    add(Name::Deployment, worker::<Deployments>);
    add(Name::ReplicaSet, worker::<ReplicaSets>);
    add(Name::StatefulSet, worker::<StatefulSets>);
    add(Name::DaemonSet, worker::<DaemonSets>);
    add(Name::Job, worker::<Jobs>);
    add(Name::EndpointSlice, worker::<EndpointSlices>);
}

fn worker<W: Workload + Default + 'static>() -> Box<dyn AnyWorker> {
    Box::new(Worker::new(|| Shell::new(W::default())))
}
