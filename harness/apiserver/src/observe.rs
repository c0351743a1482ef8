//! What an onlooker may see of the server: commits, requests, watch deliveries and faults.
//!
//! For traces and invariants. Nothing here can change what the server does.

use crate::authorization::Action;
use crate::faults::{self, Class, Facts};
pub use crate::store::Commit;

/// One request, when its answer is known (of a watch: when it begins).
#[derive(Clone, Copy, Debug)]
pub struct RequestRecord<'a> {
    /// The user's name.
    pub client: &'a str,
    /// What the request wanted to do, in the words of authorization.
    pub action: &'a Action,
    /// As `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The HTTP code.
    pub code: u16,
    /// The newest revision after the request.
    pub revision: u64,
}

/// One watch event, when it is handed to the connection.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRecord<'a> {
    /// The user's name.
    pub client: &'a str,
    /// The qualified resource.
    pub resource: &'a str,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,
    /// The object's namespace; empty for cluster-scoped objects, bookmarks and errors.
    pub namespace: &'a str,
    /// The object's name; empty for bookmarks and errors.
    pub name: &'a str,
    /// The event's revision.
    pub revision: u64,
}

/// One request or watch that a fault rule struck, when the rule does its work.
#[derive(Clone, Copy, Debug)]
pub struct FaultRecord<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// What it does.
    pub action: &'a faults::Action,
    /// Whether a correct client must survive it.
    pub class: Class,
    /// What it struck.
    pub facts: &'a Facts,
}

/// An onlooker. Methods are called synchronously, must be quick and must not call the server:
/// `commit` runs inside the store's critical section, which is what makes its order the order of
/// revisions.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A change was committed.
    fn commit(&self, _commit: &Commit<'_>) {}
    /// A request was answered.
    fn request(&self, _record: &RequestRecord<'_>) {}
    /// A watch event was delivered.
    fn delivery(&self, _record: &DeliveryRecord<'_>) {}
    /// A fault rule struck.
    fn fault(&self, _record: &FaultRecord<'_>) {}
}
