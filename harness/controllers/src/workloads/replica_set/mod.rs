//! The ReplicaSet controller: maintains the number of pods and the counts in the status (kubernetes/kubernetes,
//! replica_set.go).

mod decide;

#[cfg(test)]
mod tests;

pub use decide::{View, decide};
