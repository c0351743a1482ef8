//! Jobs: pods that run to completion, as many as asked for, tried again so often and no more
//! (kubernetes/kubernetes, job_controller.go, indexed_job_utils.go, backoff_utils.go; KEP-2307).
//!
//! One file an idea: the decision, which pods there are and what became of them, counting each ended
//! pod exactly once, the end of a job, indexes, new pods. Pod failure policies, success policies and
//! back-off limits by index are not followed.

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
