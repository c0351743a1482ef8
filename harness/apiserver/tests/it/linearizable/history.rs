//! What clients did and saw.

use std::collections::BTreeMap;

/// A resourceVersion.
pub type Revision = u64;
/// Calls and returns, numbered in the order in which they happened.
pub type Tick = u64;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Get,
    /// Each write has a value of its own.
    Create(u64),
    /// With a precondition, or without.
    Update(u64, Option<Revision>),
    Delete(Option<Revision>),
}

/// What the server responded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The object after the request: its value and revision.
    Object(u64, Revision),
    Deleted,
    NotFound,
    Exists,
    Conflict,
    /// The response was lost: the request had an effect, will have one, or never has one.
    Unknown,
}

/// A request for one key.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub key: usize,
    pub input: Input,
    pub output: Output,
    pub called: Tick,
    pub returned: Tick,
}

/// All objects by key, with value and revision.
pub type State = BTreeMap<usize, (u64, Revision)>;

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    pub state: State,
    pub revision: Revision,
    /// Whether it must contain every write that returned before it was called.
    pub consistent: bool,
    pub called: Tick,
    pub returned: Tick,
}

/// An event of a watch; `None`: the object was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: Revision,
    pub key: usize,
    pub value: Option<u64>,
}

/// A list, and the events of the watch that began with it, until the watch broke.
#[derive(Clone, Debug)]
pub struct Watched {
    pub list: List,
    pub events: Vec<Event>,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub operations: Vec<Operation>,
    pub watches: Vec<Watched>,
    /// All events, in the order of a watch from the beginning that never breaks.
    pub log: Vec<Event>,
}
