//! The garbage collector: deletes objects whose owners are gone, with the propagation policy of the owner's
//! deletion.
//!
//! A graph of all objects by uid follows the caches, and the collector checks the objects that a change
//! affects. It deletes an object only after it has verified that every owner is gone: by an observed deletion,
//! or by asking the API server. The namespace controller, not this one, deletes the content of a terminating
//! namespace.

mod controller;
mod decide;
mod graph;
#[cfg(test)]
mod tests;

pub use controller::GarbageCollector;
pub use decide::Reason;
