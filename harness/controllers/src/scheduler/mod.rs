//! The scheduler: assigns a node to every pod.
//!
//! [`place`](place::place) decides about one pod: it filters and scores the nodes of a [`cluster`] that is
//! updated object by object. [`preempt`] selects victims. The [`backlog`] orders pods and holds unschedulable
//! ones. The [`controller`] sends the requests: bindings, conditions, evictions of victims, and the scheduler's
//! part in binding volumes. `docs/reference/built-in-controllers.md` lists the differences from kube-scheduler.
//! Volume handling beyond choosing volumes for a node belongs to [`crate::volumes`].

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
