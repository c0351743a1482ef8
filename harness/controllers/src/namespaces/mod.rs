//! The namespace controller: empties a namespace that is being deleted, says in its conditions what
//! is left, and lifts its finalizer when nothing is.
//!
//! Pods go first, as in Kubernetes since 1.33 (KEP-5080): what they need is there until they are
//! gone. What is left is asked of the server, not of caches, and asked again only when something
//! in the namespace has gone.

mod conditions;
mod controller;
#[cfg(test)]
mod tests;

pub use conditions::Remains;
pub use controller::{Namespaces, Reason};
