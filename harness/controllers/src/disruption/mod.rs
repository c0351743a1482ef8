//! The disruption controller: maintains the status of PodDisruptionBudgets, which the eviction API consumes.
//!
//! The expected number of pods is the scale of their controllers: from the caches for built-in kinds, from the
//! `scale` subresource for other kinds. The API server decides about evictions.

mod controller;
mod count;
mod expected;
mod reason;
mod stale;
#[cfg(test)]
mod tests;

pub use controller::{Disruption, Key};
pub use reason::Reason;
