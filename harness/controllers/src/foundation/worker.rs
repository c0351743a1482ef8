//! Runs one controller: its queue, its actions in progress, and its backoff.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::backoff::{Failures, doubled};
use runtime::timers::Timers;

use super::action::Action;
use super::caches::{Caches, Change, Kind};
use super::controller::{Controller, Plan, Queue, View};
use super::perform::{Failure, Outcome};
use quantity::Saturating as _;

/// The first backoff of a key, doubled with each failure; the values of client-go's default rate limiter.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1000);
/// How far a past deadline is moved into the future, so that an empty plan cannot spin.
const SHORTEST_WAIT: SignedDuration = SignedDuration::from_millis(100);

/// A controller with its key type erased.
pub(crate) trait AnyWorker: Send {
    fn name(&self) -> &'static str;
    fn kinds(&self) -> BTreeSet<Kind>;
    fn needs_all_metadata(&self) -> bool;
    fn observe(&mut self, change: &Change, view: View<'_>);
    /// When the next decision is due, if the concurrency limit permits one.
    fn next_due(&self) -> Option<Timestamp>;
    /// Whether the worker still waits for initial lists.
    fn is_waiting(&self) -> bool;
    /// Called when all watched kinds are listed.
    fn synced(&mut self, view: View<'_>);
    /// Decides the next due key and returns its first action with a ticket.
    fn begin(&mut self, view: View<'_>) -> Option<(u64, Action)>;
    /// Processes the outcome of a ticket's action; returns the next action.
    fn continue_plan(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action>;
}

/// A controller with its queue.
pub(crate) struct Worker<C: Controller> {
    controller: C,
    due: Timers<C::Key>,
    under_way: BTreeMap<u64, Job<C::Key>>,
    busy: BTreeSet<C::Key>,
    /// Busy keys that a change affected in the meantime.
    again: BTreeMap<C::Key, Timestamp>,
    failures: Failures<C::Key>,
    tickets: u64,
    waiting: bool,
}

struct Job<K> {
    key: K,
    rest: VecDeque<Action>,
    deadline: Option<Timestamp>,
}

impl<C: Controller> Worker<C> {
    pub(crate) fn new(controller: C) -> Self {
        Self {
            controller,
            due: Timers::default(),
            under_way: BTreeMap::new(),
            busy: BTreeSet::new(),
            again: BTreeMap::new(),
            failures: Failures::default(),
            tickets: 0,
            waiting: true,
        }
    }

    fn grant(&mut self, queue: Queue<C::Key>, now: Timestamp) {
        for (key, at) in queue.requests {
            let at = at.unwrap_or(now);
            if self.busy.contains(&key) {
                let again = self.again.entry(key).or_insert(at);
                *again = (*again).min(at);
            } else {
                self.due.set_earlier(key, at);
            }
        }
    }

    fn log(&self, key: &C::Key, plan: &Plan<C::Reason>) {
        tracing::debug!(controller = self.controller.name(), ?key, reasons = ?plan.reasons, actions = plan.actions.len(), "acting");
    }

    /// Returns a key to the queue.
    fn end(&mut self, ticket: u64, backoff: Option<Duration>, now: Timestamp) {
        let Some(job) = self.under_way.remove(&ticket) else {
            return;
        };
        self.busy.remove(&job.key);
        let again = self.again.remove(&job.key);
        if let Some(backoff) = backoff {
            let at = now.saturating_add(backoff).unwrap_or(Timestamp::MAX);
            self.due.set_earlier(job.key, at);
            return;
        }
        self.failures.clear(&job.key);
        if let Some(at) = [again, job.deadline].into_iter().flatten().min() {
            self.due.set_earlier(job.key, at);
        }
    }

    fn backoff(&mut self, key: &C::Key) -> Duration {
        doubled(SHORTEST_BACKOFF, self.failures.add(key.clone()), LONGEST_BACKOFF)
    }
}

impl<C: Controller> AnyWorker for Worker<C> {
    fn name(&self) -> &'static str {
        self.controller.name()
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        self.controller.kinds()
    }

    fn needs_all_metadata(&self) -> bool {
        self.controller.needs_all_metadata()
    }

    fn observe(&mut self, change: &Change, view: View<'_>) {
        let mut queue = Queue::default();
        self.controller.observe(change, view, &mut queue);
        self.grant(queue, view.now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        if self.waiting || self.under_way.len() >= self.controller.concurrency() {
            return None;
        }
        self.due.next()
    }

    fn is_waiting(&self) -> bool {
        self.waiting
    }

    fn synced(&mut self, view: View<'_>) {
        self.waiting = false;
        let mut queue = Queue::default();
        self.controller.synced(view, &mut queue);
        self.grant(queue, view.now);
    }

    fn begin(&mut self, view: View<'_>) -> Option<(u64, Action)> {
        loop {
            if self.next_due()? > view.now {
                return None;
            }
            let key = self.due.pop(view.now)?;
            let plan = self.controller.decide(&key, view);
            let mut affected_keys = Queue::default();
            self.controller.decided(&mut affected_keys);
            self.grant(affected_keys, view.now);
            let mut rest = VecDeque::from(plan.actions.clone());
            let Some(first) = rest.pop_front() else {
                self.failures.clear(&key);
                if let Some(deadline) = plan.deadline {
                    let soonest = view.now.saturating_add(SHORTEST_WAIT).unwrap_or(Timestamp::MAX);
                    self.due.set_earlier(key, deadline.max(soonest));
                }
                continue;
            };
            self.log(&key, &plan);
            self.tickets.raise(1);
            self.busy.insert(key.clone());
            let job = Job {
                key,
                rest,
                deadline: plan.deadline,
            };
            self.under_way.insert(self.tickets, job);
            return Some((self.tickets, first));
        }
    }

    fn continue_plan(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action> {
        let key = self.under_way.get(&ticket)?.key.clone();
        let mut queue = Queue::default();
        self.controller.performed(&key, action, outcome, view, &mut queue);
        self.grant(queue, view.now);
        match outcome {
            Ok(_) => {
                let next = self.under_way.get_mut(&ticket)?.rest.pop_front();
                if next.is_none() {
                    self.end(ticket, None, view.now);
                }
                next
            }
            // Retrying cannot succeed before the namespace changes.
            Err(failure) if failure.is_namespace_ending() => {
                if let Some(job) = self.under_way.get_mut(&ticket) {
                    job.deadline = None;
                }
                self.end(ticket, None, view.now);
                None
            }
            Err(failure) => {
                let backoff = self.backoff(&key);
                report(self.controller.name(), &key, failure, backoff);
                self.end(ticket, Some(backoff), view.now);
                None
            }
        }
    }
}

fn report(controller: &str, key: &impl std::fmt::Debug, failure: &Failure, backoff: Duration) {
    // Conflicts between concurrent writers are normal.
    if failure.is_conflict() {
        tracing::debug!(controller, ?key, %failure, ?backoff, "deciding again");
    } else {
        tracing::warn!(controller, ?key, %failure, ?backoff, "retrying");
    }
}

/// Whether every kind in `kinds` has been listed.
pub(super) fn all_listed(kinds: &BTreeSet<Kind>, caches: &Caches) -> bool {
    kinds.iter().all(|kind| kind.is_listed(caches))
}
