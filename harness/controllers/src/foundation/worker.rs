//! One controller at work: its queue, what it has under way, and its back-off.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::backoff::{Failures, doubled};
use runtime::timers::Timers;

use super::action::Action;
use super::caches::{Caches, Change, Kind};
use super::controller::{Controller, Plan, Queue, View};
use super::perform::{Failure, Outcome};

/// The first back-off of a key, doubled with each failure; values of client-go's default limiter.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1000);
/// What a deadline that has passed is moved by, so that a plan of nothing cannot spin.
const SHORTEST_WAIT: SignedDuration = SignedDuration::from_millis(100);

/// A controller whose keys nobody else needs to know.
pub(crate) trait AnyWorker: Send {
    fn name(&self) -> &'static str;
    fn kinds(&self) -> BTreeSet<Kind>;
    fn needs_all_metadata(&self) -> bool;
    fn observe(&mut self, change: &Change, view: View<'_>);
    /// When there is something to decide, if it may and has room.
    fn next_due(&self) -> Option<Timestamp>;
    /// Whether it waits for lists.
    fn is_waiting(&self) -> bool;
    /// Everything that it watches has been listed.
    fn synced(&mut self, view: View<'_>);
    /// Decides about the next key that is due and returns the first action, with a ticket.
    fn begin(&mut self, view: View<'_>) -> Option<(u64, Action)>;
    /// Takes the outcome of a ticket's action; returns its next one.
    fn go_on(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action>;
}

/// A controller and its queue.
pub(crate) struct Worker<C: Controller> {
    controller: C,
    due: Timers<C::Key>,
    under_way: BTreeMap<u64, Job<C::Key>>,
    busy: BTreeSet<C::Key>,
    /// Keys that a change concerned while they were busy.
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
        for (key, at) in queue.wishes {
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

    /// Puts a key back into the queue.
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
            let mut concerned = Queue::default();
            self.controller.decided(&mut concerned);
            self.grant(concerned, view.now);
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
            self.tickets += 1;
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

    fn go_on(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action> {
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
            // Nothing but a change of the namespace helps, and that ends with its removal.
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
    // A conflict is how concurrent writers take turns.
    if failure.is_conflict() {
        tracing::debug!(controller, ?key, %failure, ?backoff, "deciding again");
    } else {
        tracing::warn!(controller, ?key, %failure, ?backoff, "trying again");
    }
}

/// Whether every kind in `kinds` has been listed.
pub(super) fn all_listed(kinds: &BTreeSet<Kind>, caches: &Caches) -> bool {
    kinds.iter().all(|kind| kind.is_listed(caches))
}
