//! The garbage collector: what nobody owns any more goes, in the order that the owner's deletion
//! asked for.
//!
//! A graph of all objects by uid follows the caches; what a change concerns is looked at, and no
//! object is deleted before each of its owners has been seen to be gone: in the graph, where its
//! removal was watched, or by asking the server. What must not live here: deleting what a namespace
//! holds when it ends.

mod controller;
mod decide;
mod graph;
#[cfg(test)]
mod tests;

pub use controller::GarbageCollector;
pub use decide::Reason;
