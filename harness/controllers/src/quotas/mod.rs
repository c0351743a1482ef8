//! The resource quota controller: counts what the objects of a namespace consume of its quotas. Admission by the API server
//! adds what new objects consume; this controller counts the objects after every other change. Same rules:
//! crate `consumption`.

mod controller;
mod count;
#[cfg(test)]
mod tests;

pub use controller::Quotas;

/// Why a quota's status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its limits or its use are not those in the status.
    Outdated,
}
