//! Taint eviction: deletes the pods of nodes with `NoExecute` taints that they do not tolerate, or
//! tolerate no longer.
//!
//! How long a pod has tolerated is counted on this controller's clock from the moment at which it
//! first saw pod and taint together. What must not live here: setting taints.

mod controller;
mod decide;
#[cfg(test)]
mod tests;

pub use controller::TaintEviction;
pub use decide::{Reason, Verdict, verdict};
