//! Runs one controller: its queue, its actions in progress, and its backoff.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::backoff::{Failures, doubled};
use runtime::timers::Timers;

use super::action::Action;
use super::caches::{Caches, Change, Kind, everything};
use super::controller::{Controller, Plan, Queue, View};
use super::panics::Panics;
use super::perform::{Failure, Outcome};
use super::supervision::Supervision;
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
    /// From now on panics are caught and counted; the controller starts again.
    fn supervise(&mut self, panics: Panics);
    /// When a controller that panicked starts again; `None` if it runs.
    fn resume_at(&self) -> Option<Timestamp>;
    /// Processes the outcome of a ticket's action; returns the next action.
    fn continue_plan(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action>;
}

/// A controller with its queue.
pub(crate) struct Worker<C: Controller> {
    /// Creates the controller, again after a panic: the state of the old one can be inconsistent.
    create: Box<dyn Fn() -> C + Send>,
    controller: C,
    /// `None` if panics are not caught.
    supervision: Option<Supervision<C::Key>>,
    panics: Panics,
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
    /// Whether the controller panicked since: the new one does not know the plan, and decides the key after the request
    /// in progress.
    abandoned: bool,
}

impl<C: Controller> Worker<C> {
    pub(crate) fn new(create: impl Fn() -> C + Send + 'static) -> Self {
        Self {
            controller: create(),
            create: Box::new(create),
            supervision: None,
            panics: Panics::default(),
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
            let allowed = |supervision: &Supervision<C::Key>| supervision.allowed(&key, at);
            let at = self.supervision.as_ref().map_or(at, allowed);
            if self.busy.contains(&key) {
                let again = self.again.entry(key).or_insert(at);
                *again = (*again).min(at);
            } else {
                self.due.set_earlier(key, at);
            }
        }
    }

    /// Calls the controller. After a panic, of which the result is `None`, it starts again later without its queue, and
    /// its plans are abandoned.
    fn call<T>(&mut self, key: Option<&C::Key>, now: Timestamp, call: impl FnOnce(&mut C) -> T) -> Option<T> {
        let Some(supervision) = &mut self.supervision else {
            return Some(call(&mut self.controller));
        };
        if supervision.resume_at().is_some() {
            return None;
        }
        let panic = match catch_unwind(AssertUnwindSafe(|| call(&mut self.controller))) {
            Ok(result) => return Some(result),
            Err(panic) => panic,
        };
        let name = self.controller.name();
        let resume_at = supervision.panicked(key, now);
        self.panics.panicked(name);
        tracing::error!(
            controller = name,
            ?key,
            panic = logs::panic_message(panic.as_ref()),
            %resume_at,
            "a controller panicked and starts again"
        );
        self.controller = (self.create)();
        self.due = Timers::default();
        for job in self.under_way.values_mut() {
            job.abandoned = true;
        }
        self.again.clear();
        self.failures = Failures::default();
        self.waiting = true;
        None
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
        if job.abandoned {
            if let Some(at) = again {
                self.due.set_earlier(job.key, at);
            }
            return;
        }
        self.processed(&job.key);
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

    /// A key was processed without a panic.
    fn processed(&mut self, key: &C::Key) {
        if let Some(supervision) = &mut self.supervision {
            supervision.succeeded(key);
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
        self.call(None, view.now, |controller| {
            controller.observe(change, view, &mut queue)
        });
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
        if let Some(supervision) = &mut self.supervision
            && supervision.resume_at().is_some()
        {
            supervision.resumed();
            self.panics.restarted(self.controller.name());
            // The new controller knows nothing of the caches.
            for change in everything(
                &self.controller.kinds(),
                self.controller.needs_all_metadata(),
                view.caches,
            ) {
                self.observe(&change, view);
            }
        }
        let mut queue = Queue::default();
        self.call(None, view.now, |controller| controller.synced(view, &mut queue));
        self.grant(queue, view.now);
    }

    fn supervise(&mut self, panics: Panics) {
        panics.supervised(self.controller.name());
        self.panics = panics;
        self.supervision = Some(Supervision::default());
    }

    fn resume_at(&self) -> Option<Timestamp> {
        self.supervision.as_ref().and_then(Supervision::resume_at)
    }

    fn begin(&mut self, view: View<'_>) -> Option<(u64, Action)> {
        loop {
            if self.next_due()? > view.now {
                return None;
            }
            let key = self.due.pop(view.now)?;
            let mut affected_keys = Queue::default();
            let plan = self.call(Some(&key), view.now, |controller| {
                let plan = controller.decide(&key, view);
                controller.decided(&mut affected_keys);
                plan
            })?;
            self.grant(affected_keys, view.now);
            let mut rest = VecDeque::from(plan.actions.clone());
            let Some(first) = rest.pop_front() else {
                self.processed(&key);
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
                abandoned: false,
            };
            self.under_way.insert(self.tickets, job);
            return Some((self.tickets, first));
        }
    }

    fn continue_plan(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action> {
        let job = self.under_way.get(&ticket)?;
        let (key, mut abandoned) = (job.key.clone(), job.abandoned);
        let mut queue = Queue::default();
        if !abandoned {
            let called = self.call(Some(&key), view.now, |controller| {
                controller.performed(&key, action, outcome, view, &mut queue);
            });
            abandoned = called.is_none();
        }
        if abandoned {
            self.end(ticket, None, view.now);
            return None;
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Namespace;
    use parking_lot::Mutex;

    use super::*;
    use crate::foundation::action::Target;
    use crate::foundation::{ObjectKey, PanicCounts};

    /// The decided keys, with the instance that decided them.
    type Log = Arc<Mutex<Vec<(usize, String)>>>;

    /// Panics for the namespace `bad`, and after a request for the namespace `unlucky`; records the others. `instance`
    /// shows that it was created again.
    struct Panicky {
        instance: usize,
        decided: Log,
    }

    /// A request for the namespaces `slow` and `unlucky`.
    fn request(name: &str) -> Action {
        Action::Delete {
            target: Target {
                resource: Kind::Namespace.resource(),
                key: ObjectKey::new("", name),
            },
            deletion: Default::default(),
        }
    }

    impl Controller for Panicky {
        type Key = String;
        type Reason = ();

        fn name(&self) -> &'static str {
            "panicky"
        }

        fn kinds(&self) -> BTreeSet<Kind> {
            BTreeSet::from([Kind::Namespace])
        }

        fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
            queue.add(change.key.name.clone());
        }

        fn decide(&mut self, name: &String, _: View<'_>) -> Plan<()> {
            if name == "bad" {
                panic!("planted");
            }
            self.decided.lock().push((self.instance, name.clone()));
            match name.as_str() {
                "slow" | "unlucky" => Plan {
                    actions: vec![request(name)],
                    ..Plan::nothing()
                },
                _ => Plan::nothing(),
            }
        }

        fn performed(&mut self, name: &String, _: &Action, _: &Outcome, _: View<'_>, _: &mut Queue<String>) {
            assert!(name == "slow" && self.instance == 1, "planted");
        }
    }

    /// A worker for these namespaces, which are listed.
    fn worker(names: &[&str]) -> (Worker<Panicky>, Caches, Log) {
        let (decided, created) = (Log::default(), Mutex::new(0));
        let log = Arc::clone(&decided);
        let mut worker = Worker::new(move || {
            let mut created = created.lock();
            *created += 1;
            Panicky {
                instance: *created,
                decided: Arc::clone(&decided),
            }
        });
        worker.supervise(Panics::default());
        let mut caches = Caches::default();
        for name in names {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some((*name).to_owned());
            namespace.metadata.uid = Some((*name).to_owned());
            let change = caches.put(namespace).unwrap();
            worker.observe(&change, at(&caches, 0));
        }
        worker.synced(at(&caches, 0));
        (worker, caches, log)
    }

    fn at(caches: &Caches, second: i64) -> View<'_> {
        View {
            caches,
            now: Timestamp::from_second(second).unwrap(),
        }
    }

    fn texts(decided: &Log) -> Vec<String> {
        let decided = std::mem::take(&mut *decided.lock());
        decided
            .into_iter()
            .map(|(instance, name)| format!("{instance} {name}"))
            .collect()
    }

    #[test]
    fn a_controller_that_panics_starts_again_and_processes_the_other_keys() {
        let (mut worker, caches, decided) = worker(&["a", "bad", "c"]);
        assert!(worker.begin(at(&caches, 0)).is_none());
        assert_eq!(texts(&decided), ["1 a"]);
        assert_eq!(worker.resume_at(), Some(at(&caches, 1).now));
        // Nothing happens before.
        assert!(worker.is_waiting() && worker.next_due().is_none());
        worker.synced(at(&caches, 1));
        assert!(worker.begin(at(&caches, 1)).is_none());
        assert_eq!(texts(&decided), ["2 a", "2 c"]);
        assert_eq!(worker.next_due(), Some(at(&caches, 5).now));
        // The key panics again; the new instance knows it.
        assert!(worker.begin(at(&caches, 5)).is_none());
        worker.synced(at(&caches, 7));
        assert!(worker.begin(at(&caches, 7)).is_none());
        assert_eq!(texts(&decided), ["3 a", "3 c"]);
        let counts = PanicCounts { panics: 2, restarts: 2 };
        assert_eq!(worker.panics.counts(), BTreeMap::from([(worker.name(), counts)]));
        assert_eq!(worker.next_due(), Some(at(&caches, 15).now));
    }

    #[test]
    fn a_key_with_a_request_in_progress_is_decided_again_after_its_outcome() {
        let (mut worker, caches, decided) = worker(&["slow"]);
        let (ticket, action) = worker.begin(at(&caches, 0)).unwrap();
        worker.due.set_earlier("bad".to_owned(), at(&caches, 1).now);
        assert!(worker.begin(at(&caches, 1)).is_none());
        assert_eq!(texts(&decided), ["1 slow"]);
        worker.synced(at(&caches, 2));
        assert!(worker.begin(at(&caches, 2)).is_none());
        assert_eq!(texts(&decided), [""; 0], "the request is still in progress");
        // The new instance is not called with the outcome, which makes it panic.
        let next = worker.continue_plan(ticket, &action, &Ok(None), at(&caches, 2));
        assert_eq!((next, worker.resume_at()), (None, None));
        assert!(worker.begin(at(&caches, 2)).is_some());
        assert_eq!(texts(&decided), ["2 slow"]);
    }

    #[test]
    fn a_key_whose_outcomes_panic_waits_longer_each_time() {
        let (mut worker, caches, _) = worker(&["unlucky"]);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..4 {
            let (ticket, action) = worker.begin(at(&caches, now)).unwrap();
            let next = worker.continue_plan(ticket, &action, &Ok(None), at(&caches, now));
            assert_eq!(next, None);
            let resume_at = worker.resume_at().unwrap().as_second();
            worker.synced(at(&caches, resume_at));
            let due = worker.next_due().unwrap().as_second();
            waits.push(due - now);
            now = due;
        }
        assert_eq!(waits, [5, 10, 20, 40]);
    }

    #[test]
    #[should_panic(expected = "planted")]
    fn without_supervision_a_panic_is_not_caught() {
        let (mut worker, caches, _) = worker(&["a", "bad", "c"]);
        worker.supervision = None;
        worker.begin(at(&caches, 0));
    }
}
