//! The Job controller: runs pods to completion, with retries up to the backoff limit (kubernetes/kubernetes,
//! job_controller.go, indexed_job_utils.go, backoff_utils.go; KEP-2307).
//!
//! Files: the decision, its data, counting finished pods exactly once, conditions, indexes, new pods. Pod
//! failure policies, success policies and backoff limits per index are not supported.

mod conditions;
mod count;
mod decide;
mod indexes;
mod manage;
mod scene;
mod verdict;

#[cfg(test)]
mod tests;

pub use decide::{View, decide, release_orphans};
