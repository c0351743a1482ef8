//! The trait that all controllers implement, with its view, queue and plan.

use std::collections::BTreeSet;
use std::fmt::Debug;

use jiff::Timestamp;

use super::action::Action;
use super::caches::{Caches, Change, Kind};
use super::perform::Outcome;

/// A controller: the kinds that it watches, the keys that a change affects, and the decision for a key.
///
/// `decide` must be a thin shell around a pure function of the view. A controller keeps own state only for data
/// that the API server does not store (signs of life, results of reads, assumed bindings); this state is lost
/// when the process ends.
pub trait Controller: Send {
    /// The unit of a decision. Keys that are due at the same time are processed in order.
    type Key: Ord + Clone + Debug + Send;
    /// The reason of an action; logged with the plan.
    type Reason: Debug;

    /// The name in logs and events, as in kube-controller-manager.
    fn name(&self) -> &'static str;

    /// The kinds whose typed caches the controller reads. It decides nothing before they are listed.
    fn kinds(&self) -> BTreeSet<Kind>;

    /// Whether the controller needs the metadata of every kind that can be listed, watched and deleted.
    fn needs_all_metadata(&self) -> bool {
        false
    }

    /// The maximum number of keys with requests in progress.
    fn concurrency(&self) -> usize {
        16
    }

    /// Called once, after all watched kinds are listed.
    fn synced(&mut self, _view: View<'_>, _queue: &mut Queue<Self::Key>) {}

    /// Enqueues the keys that a change affects. The caches already contain the change.
    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Self::Key>);

    /// Decides one key.
    fn decide(&mut self, key: &Self::Key, view: View<'_>) -> Plan<Self::Reason>;

    /// Called after each decision; enqueues other keys that the decision affects.
    fn decided(&mut self, _queue: &mut Queue<Self::Key>) {}

    /// Receives the outcome of an action. After a failure the rest of the plan is dropped, and the key is
    /// decided again after a backoff.
    fn performed(
        &mut self,
        _key: &Self::Key,
        _action: &Action,
        _outcome: &Outcome,
        _view: View<'_>,
        _queue: &mut Queue<Self::Key>,
    ) {
    }
}

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The caches.
    pub caches: &'a Caches,
    /// The current time.
    pub now: Timestamp,
}

/// Keys to decide, with their times.
#[derive(Debug)]
pub struct Queue<K> {
    pub(super) requests: Vec<(K, Option<Timestamp>)>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { requests: Vec::new() }
    }
}

impl<K> Queue<K> {
    /// Decides `key` as soon as possible, regardless of its backoff.
    pub fn add(&mut self, key: K) {
        self.requests.push((key, None));
    }

    /// Decides `key` no later than `at`.
    pub fn add_at(&mut self, key: K, at: Timestamp) {
        self.requests.push((key, Some(at)));
    }

    /// The enqueued keys, for tests of `observe`.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.requests.iter().map(|(key, _)| key)
    }
}

/// The actions for one key, their reasons, and the time of the next decision without a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<R> {
    /// The actions, in order; the first failure ends the plan.
    pub actions: Vec<Action>,
    /// When to decide again after all actions; `None` when only a change matters. The current time makes sense
    /// only after an action whose response is needed.
    pub deadline: Option<Timestamp>,
    /// The reasons.
    pub reasons: Vec<R>,
}

impl<R> Default for Plan<R> {
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            deadline: None,
            reasons: Vec::new(),
        }
    }
}

impl<R> Plan<R> {
    /// No action until something changes.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// No action before `deadline`.
    pub fn wait_until(deadline: Timestamp) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::default()
        }
    }

    /// One action with its reason.
    pub fn act(reason: R, action: Action) -> Self {
        Self {
            actions: vec![action],
            deadline: None,
            reasons: vec![reason],
        }
    }

    /// Adds an action with its reason.
    pub fn push(&mut self, reason: R, action: Action) {
        self.actions.push(action);
        self.reasons.push(reason);
    }

    /// Requeues the key no later than `at`.
    pub fn requeue_by(&mut self, at: Timestamp) {
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
    }
}
