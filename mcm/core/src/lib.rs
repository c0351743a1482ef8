//! Every decision of the machine controller manager, as pure functions from a view to a plan.
//!
//! What lives here: the decisions about machines, sets, deployments, classes, safety, and the values they
//! take and give. What must not: a client, a clock, randomness, async code; those are the shell's
//! (crate `mcm`), which builds views, performs plans and branches on nothing.

#[macro_use]
extern crate defects;

pub mod class;
pub mod deployment;
pub mod event;
pub mod finalizer;
pub mod machine;
pub mod merge;
pub mod overshoot;
pub mod ownership;
pub mod preservation;
pub mod safety;
pub mod selector;
pub mod set;
pub mod steps;
pub mod template;
