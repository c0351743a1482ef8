//! Taint eviction: deletes pods from nodes with `NoExecute` taints that they do not tolerate, or whose
//! toleration time is over.
//!
//! The toleration time starts, on this controller's clock, when the controller first observes pod and taint
//! together. The node lifecycle controller sets the taints.

mod controller;
mod decide;
#[cfg(test)]
mod tests;

pub use controller::TaintEviction;
pub use decide::{Reason, Verdict, verdict};
