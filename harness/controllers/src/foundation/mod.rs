//! What every controller stands on: one watch a kind feeding shared caches, a queue a controller,
//! and one place where requests are made.
//!
//! The loop in [`run`] owns everything. A [`feed`] lists and watches one kind and turns what it sees
//! into changes of the [`Caches`]; each change is shown to every controller's
//! [`observe`](Controller::observe), which names the keys to look at again. When a key is due, its
//! controller's [`decide`](Controller::decide) turns the caches and the time into a [`Plan`], whose
//! actions are performed one by one. The answer of every write goes into the caches before the same
//! key is decided on again, so nobody acts twice on what has just been done. What must not live
//! here: what any one controller decides.

mod action;
mod cache;
mod caches;
mod catalog;
mod controller;
pub(crate) mod feed;
mod perform;
mod recorder;
mod resource;
pub(crate) mod run;
mod served;
mod worker;

pub(crate) use action::reference_of;
pub use action::{Action, Deletion, Patch, Preconditions, Propagation, Severity, Target};
pub use cache::Cache;
pub(crate) use caches::Update;
pub use caches::{Cached, Caches, Change, Kind, Transition};
pub(crate) use catalog::served;
pub use controller::{Controller, Plan, Queue, View};
pub use perform::{Failure, Outcome};
pub use resource::{Metadata, Object, ObjectKey, ResourceType};
pub use served::Served;
pub(crate) use worker::{AnyWorker, Worker};
