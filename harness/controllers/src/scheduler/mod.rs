//! The scheduler: gives every pod a node.
//!
//! [`place`](place::place) is the decision for one pod: filters and scores over a [`cluster`] that is
//! kept up to date object by object. [`preempt`] decides who gives way. The [`backlog`] says whose
//! turn it is and what a pod without a node waits for. The [`controller`] turns it all into requests:
//! bindings, conditions, evictions of less important pods, and the scheduler's part in binding
//! volumes. What it does and does not do as kube-scheduler does stands in
//! `docs/reference/built-in-controllers.md`. What must not live here: anything about volumes beyond choosing
//! them for a node (see [`crate::volumes`]).

pub mod backlog;
pub mod cluster;
pub mod controller;
pub mod filter;
pub mod node;
pub mod place;
pub mod pod;
pub mod preempt;
mod reason;
mod report;
pub mod resources;
pub mod score;
pub mod storage;
pub mod topology;

pub use controller::Scheduler;

#[cfg(test)]
mod tests;
