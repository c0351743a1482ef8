//! The disruption controller: keeps the status of PodDisruptionBudgets, which evictions spend from.
//!
//! How many pods are expected is what their controllers are scaled to: built-in ones from the caches,
//! any other kind by asking for its scale. What must not live here: deciding about evictions.

mod controller;
mod count;
mod expected;
mod reason;
mod stale;
#[cfg(test)]
mod tests;

pub use controller::{Disruption, Key};
pub use reason::Reason;
