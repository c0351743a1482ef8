//! The controller runtime: one watch per kind that feeds shared caches, one queue per controller, and one place
//! that sends requests.
//!
//! The loop in [`run`] owns everything. A [`feed`] lists and watches one kind and turns its events into changes
//! of the [`Caches`]. The loop passes each change to every controller's [`observe`](Controller::observe), which
//! enqueues the affected keys. When a key is due, the controller's [`decide`](Controller::decide) turns the
//! caches and the current time into a [`Plan`], and the loop performs the plan's actions one by one. It stores
//! the response of every write in the caches before it decides the same key again, so that no decision misses
//! an earlier write. Controller-specific decisions do not belong here.

mod action;
mod cache;
mod caches;
mod catalog;
mod controller;
pub(crate) mod feed;
mod panics;
mod perform;
mod recorder;
mod resource;
pub(crate) mod run;
mod served;
mod supervision;
mod worker;

pub(crate) use action::reference_of;
pub use action::{Action, Deletion, Patch, Preconditions, Propagation, Severity, Target};
pub use cache::Cache;
pub(crate) use caches::Update;
pub use caches::{Cached, Caches, Change, Kind, Transition};
pub(crate) use catalog::served;
pub use controller::{Controller, Plan, Queue, View};
pub use panics::{PanicCounts, Panics};
pub use perform::{Failure, Outcome};
pub use resource::{Metadata, Object, ObjectKey, ResourceType};
pub use served::Served;
pub(crate) use worker::{AnyWorker, Worker};
