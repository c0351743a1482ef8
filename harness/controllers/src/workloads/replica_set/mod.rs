//! ReplicaSets: as many pods as asked for, and a status that says how many are there, ready and
//! available (kubernetes/kubernetes, replica_set.go).

mod decide;

#[cfg(test)]
mod tests;

pub use decide::{View, decide};
