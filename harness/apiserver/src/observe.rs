//! Observation of the server: commits, requests, watch deliveries and faults.
//!
//! For traces and invariants. Observers cannot change the behavior of the server.

use crate::authorization::Action;
use crate::faults::{self, Class, Facts};
pub use crate::store::Commit;
use crate::views::WriteRecord;

/// One request, when its response is known (for a watch: when it begins).
#[derive(Clone, Copy, Debug)]
pub struct RequestRecord<'a> {
    /// The user's name.
    pub client: &'a str,
    /// The action in the terms of authorization.
    pub action: &'a Action,
    /// One of `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The HTTP code.
    pub code: u16,
    /// The newest revision after the request.
    pub revision: u64,
}

/// One watch event, when the connection receives it.
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

/// One hit of a fault rule on a request or watch, when the rule acts.
#[derive(Clone, Copy, Debug)]
pub struct FaultRecord<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The action of the rule.
    pub action: &'a faults::Action,
    /// Whether a correct client must survive it.
    pub class: Class,
    /// The request.
    pub facts: &'a Facts,
}

/// Observes the server. The server calls the methods synchronously; they must be quick and must not call the server:
/// `commit` runs inside the store's critical section, which makes the calls follow the order of revisions.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A change was committed.
    fn commit(&self, _commit: &Commit<'_>) {}
    /// A request has a response.
    fn request(&self, _record: &RequestRecord<'_>) {}
    /// A watch of the user `client` was opened.
    fn watch_opened(&self, _client: &str) {}
    /// A watch of the user `client` ended, or its connection broke.
    fn watch_ended(&self, _client: &str) {}
    /// A watch event was delivered.
    fn delivery(&self, _record: &DeliveryRecord<'_>) {}
    /// A write has a response, or its connection broke. Only of users that `Options::recorded_users` matches.
    fn write(&self, _record: &WriteRecord) {}
    /// A fault rule has a hit.
    fn fault(&self, _record: &FaultRecord<'_>) {}
}
