//! What a controller is.

use std::collections::BTreeSet;
use std::fmt::Debug;

use jiff::Timestamp;

use super::action::Action;
use super::caches::{Caches, Change, Kind};
use super::perform::Outcome;

/// A controller: what it watches, which keys a change concerns, and what is to be done about a key.
///
/// `decide` must be a thin shell around a pure function of what it takes from the view; state of the
/// controller's own is for what the API server does not hold (signs of life, answers of reads,
/// assumed bindings), and is lost when the process ends.
pub trait Controller: Send {
    /// What is decided about, one at a time. Keys that are due at one time are taken in order.
    type Key: Ord + Clone + Debug + Send;
    /// Why something is done; printed with the plan.
    type Reason: Debug;

    /// The name in logs and events, as kube-controller-manager's controller has it.
    fn name(&self) -> &'static str;

    /// Kinds whose typed caches it reads. It decides nothing before they are listed.
    fn kinds(&self) -> BTreeSet<Kind>;

    /// Whether it wants to see the metadata of every kind that can be listed, watched and deleted.
    fn needs_all_metadata(&self) -> bool {
        false
    }

    /// How many keys may have requests under way at once.
    fn concurrency(&self) -> usize {
        16
    }

    /// Called once, when everything that it watches has been listed.
    fn synced(&mut self, _view: View<'_>, _queue: &mut Queue<Self::Key>) {}

    /// Names the keys that a change concerns. The caches show the change already.
    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<Self::Key>);

    /// Decides about one key.
    fn decide(&mut self, key: &Self::Key, view: View<'_>) -> Plan<Self::Reason>;

    /// Called after each decision: names the other keys that it concerns.
    fn decided(&mut self, _queue: &mut Queue<Self::Key>) {}

    /// Hears what became of an action. After a failure the rest of the plan is dropped and the key is
    /// decided on again after a back-off.
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

/// What a controller sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The cluster.
    pub caches: &'a Caches,
    /// The time.
    pub now: Timestamp,
}

/// Keys to look at, and when.
#[derive(Debug)]
pub struct Queue<K> {
    pub(super) wishes: Vec<(K, Option<Timestamp>)>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { wishes: Vec::new() }
    }
}

impl<K> Queue<K> {
    /// Looks at `key` as soon as possible, and not only when its back-off ends.
    pub fn add(&mut self, key: K) {
        self.wishes.push((key, None));
    }

    /// Looks at `key` at `at` at the latest.
    pub fn add_at(&mut self, key: K, at: Timestamp) {
        self.wishes.push((key, Some(at)));
    }

    /// What has been asked for, for tests of `observe`.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.wishes.iter().map(|(key, _)| key)
    }
}

/// What to do about one key now, why, and when to look again without being told of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<R> {
    /// What to do, in order; the first failure ends it.
    pub actions: Vec<Action>,
    /// When to look again once all is done; `None` when nothing but a change matters. The present
    /// makes sense only behind an action whose answer is waited for.
    pub deadline: Option<Timestamp>,
    /// Why.
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
    /// Nothing to do until something changes.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Nothing to do before `deadline`.
    pub fn wait_until(deadline: Timestamp) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::default()
        }
    }

    /// One action for one reason.
    pub fn act(reason: R, action: Action) -> Self {
        Self {
            actions: vec![action],
            deadline: None,
            reasons: vec![reason],
        }
    }

    /// Adds an action and why.
    pub fn push(&mut self, reason: R, action: Action) {
        self.actions.push(action);
        self.reasons.push(reason);
    }

    /// Looks again at `at` at the latest.
    pub fn look_by(&mut self, at: Timestamp) {
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
    }
}
