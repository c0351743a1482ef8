//! The namespace controller: deletes the content of a terminating namespace, reports remaining content in its
//! conditions, and removes its finalizer when no content is left.
//!
//! Pods are deleted first, as in Kubernetes since 1.33 (KEP-5080), so that the objects that they use outlive
//! them. The controller lists remaining content from the API server, not from caches, and lists again only
//! after an object in the namespace was deleted.

mod conditions;
mod controller;
#[cfg(test)]
mod tests;

pub use conditions::Remains;
pub use controller::{Namespaces, Reason};
