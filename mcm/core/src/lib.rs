//! The decisions of the machine controller manager, as pure functions from a view to a plan.
//!
//! In scope: decisions about machines, sets, deployments, classes and safety, and their inputs and outputs. Out of
//! scope: clients, clocks, randomness and async code. Those belong to the shell (crate `mcm`), which builds views and
//! performs plans without decisions of its own.

#[macro_use]
extern crate defects;

pub mod class;
pub mod deployment;
pub mod event;
mod failure;
pub mod finalizer;
pub mod health_check;
mod label_syntax;
pub mod machine;
pub mod merge;
pub mod overshoot;
pub mod ownership;
pub mod preservation;
pub mod remediation;
pub mod safety;
pub mod selector;
pub mod set;
pub mod steps;
pub mod template;
