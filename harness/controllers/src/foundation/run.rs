//! The loop: one future runs all controllers and spawns no tasks. Dropping it stops the controllers between two
//! requests; the next run starts from the state in the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clock::{Clock, Seed};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::action::Action;
use super::caches::{Caches, Change, Kind, Update, metadata_updates};
use super::catalog;
use super::controller::View;
use super::panics::Panics;
use super::perform::{Outcome, perform};
use super::recorder::{occurrence, recorder, send};
use super::resource::ResourceType;
use super::worker::{AnyWorker, all_listed};

/// The maximum number of updates that the loop applies before it decides.
const BATCH: usize = 256;

/// Runs the controllers until `cancelled` fires.
pub(crate) async fn run(
    client: Client,
    clock: Clock,
    seed: Seed,
    workers: Vec<Box<dyn AnyWorker>>,
    panics: Panics,
    cancelled: CancellationToken,
) {
    let mut engine = Engine::new(client, clock, &seed, workers, &panics);
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = engine.work() => {}
    }
}

struct Engine {
    client: Client,
    clock: Clock,
    caches: Caches,
    workers: Vec<Box<dyn AnyWorker>>,
    feeds: SelectAll<BoxStream<'static, Update>>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    records: FuturesUnordered<BoxFuture<'static, ()>>,
    recorder: runtime::events::Recorder,
    /// The kinds that are watched with their full content.
    typed: BTreeSet<Kind>,
    /// The types whose metadata is watched, with the token that ends each watch. `None` when no controller
    /// needs them.
    metadata: Option<BTreeMap<ResourceType, CancellationToken>>,
}

/// A completed request.
struct Done {
    worker: usize,
    ticket: u64,
    action: Action,
    outcome: Outcome,
}

impl Engine {
    fn new(client: Client, clock: Clock, seed: &Seed, mut workers: Vec<Box<dyn AnyWorker>>, panics: &Panics) -> Self {
        // In virtual time a panic fails the run.
        if !clock.is_simulated() {
            workers.iter_mut().for_each(|worker| worker.supervise(panics.clone()));
        }
        let mut typed: BTreeSet<Kind> = workers.iter().flat_map(|worker| worker.kinds()).collect();
        let all = workers.iter().any(|worker| worker.needs_all_metadata());
        let mut feeds = SelectAll::new();
        if all {
            typed.insert(Kind::CustomResourceDefinition);
            feeds.push(catalog::discover(&client, &clock));
        }
        for kind in &typed {
            feeds.push(kind.updates(&client, &clock));
        }
        Self {
            recorder: recorder(clock.clone(), seed.stream("events")),
            client,
            clock,
            caches: Caches::default(),
            workers,
            feeds,
            under_way: FuturesUnordered::new(),
            records: FuturesUnordered::new(),
            typed,
            metadata: all.then(BTreeMap::new),
        }
    }

    async fn work(&mut self) {
        self.wake_workers();
        loop {
            let now = self.clock.now();
            self.resume_workers(now);
            self.start_due_keys();
            let due = self.workers.iter().filter_map(|worker| worker.next_due()).min();
            let resume = next_resume(self.workers.iter().map(|worker| worker.resume_at()), now);
            let due = [due, resume].into_iter().flatten().min();
            let clock = self.clock.clone();
            tokio::select! {
                biased;
                Some(done) = self.under_way.next(), if !self.under_way.is_empty() => self.finish(done),
                Some(update) = self.feeds.next(), if !self.feeds.is_empty() => self.apply_update(update),
                Some(()) = self.records.next(), if !self.records.is_empty() => {}
                () = sleep_until(&clock, due) => {}
            }
        }
    }

    fn start_due_keys(&mut self) {
        let now = self.clock.now();
        for worker in 0..self.workers.len() {
            loop {
                let view = View {
                    caches: &self.caches,
                    now,
                };
                let Some((ticket, action)) = self.workers[worker].begin(view) else {
                    break;
                };
                self.start(worker, ticket, action);
            }
        }
    }

    /// Starts an action; events are sent in the background.
    fn start(&mut self, worker: usize, ticket: u64, action: Action) {
        let mut next = Some(action);
        while let Some(action) = next.take() {
            let Some(occurrence) = occurrence(self.workers[worker].name(), &action) else {
                let client = self.client.clone();
                let request = async move {
                    let outcome = perform(&client, &action).await;
                    Done {
                        worker,
                        ticket,
                        action,
                        outcome,
                    }
                };
                self.under_way.push(request.boxed());
                return;
            };
            let record = self.recorder.record(occurrence);
            let client = self.client.clone();
            self.records.push(async move { send(&client, record).await }.boxed());
            let view = View {
                caches: &self.caches,
                now: self.clock.now(),
            };
            next = self.workers[worker].continue_plan(ticket, &action, &Ok(None), view);
        }
    }

    fn finish(&mut self, done: Done) {
        let Done {
            worker,
            ticket,
            action,
            outcome,
        } = done;
        let changes = self.store_response(&action, &outcome);
        self.notify_workers(&changes);
        let view = View {
            caches: &self.caches,
            now: self.clock.now(),
        };
        if let Some(next) = self.workers[worker].continue_plan(ticket, &action, &outcome, view) {
            self.start(worker, ticket, next);
        }
    }

    /// Stores a response in the caches.
    fn store_response(&mut self, action: &Action, outcome: &Outcome) -> Vec<Change> {
        match (action, outcome) {
            (Action::Create { resource, .. }, Ok(Some(object))) => self.caches.accept(resource, object),
            (
                Action::Patch { target, .. } | Action::Replace { target, .. } | Action::Delete { target, .. },
                Ok(Some(object)),
            ) => self.caches.accept(&target.resource, object),
            (Action::Delete { target, deletion }, Ok(None)) => {
                let uid = deletion.preconditions.uid.as_deref().unwrap_or_default();
                self.caches.accept_removal(&target.resource, &target.key, uid)
            }
            _ => Vec::new(),
        }
    }

    fn apply_update(&mut self, update: Update) {
        let mut changes = update(&mut self.caches);
        let mut moved = self.changes_catalog(&changes);
        self.notify_workers(&changes);
        for _ in 1..BATCH {
            let Some(Some(update)) = self.feeds.next().now_or_never() else {
                break;
            };
            changes = update(&mut self.caches);
            moved |= self.changes_catalog(&changes);
            self.notify_workers(&changes);
        }
        if moved {
            self.update_metadata_watches();
        }
        self.wake_workers();
    }

    fn notify_workers(&mut self, changes: &[Change]) {
        let view = View {
            caches: &self.caches,
            now: self.clock.now(),
        };
        for change in changes {
            for worker in &mut self.workers {
                worker.observe(change, view);
            }
        }
    }

    /// Starts the workers that panicked and have waited long enough.
    fn resume_workers(&mut self, now: Timestamp) {
        let mut waiting = self.workers.iter().filter_map(|worker| worker.resume_at());
        if waiting.any(|at| at <= now) {
            self.wake_workers();
        }
    }

    /// Starts the workers whose kinds are all listed.
    fn wake_workers(&mut self) {
        let view = View {
            caches: &self.caches,
            now: self.clock.now(),
        };
        for worker in self.workers.iter_mut().filter(|worker| worker.is_waiting()) {
            if worker.resume_at().is_some_and(|at| at > view.now) {
                continue;
            }
            let knows_all =
                || view.caches.discovered.is_some() && view.caches.metadata.values().all(super::Cache::is_listed);
            if all_listed(&worker.kinds(), view.caches) && (!worker.needs_all_metadata() || knows_all()) {
                tracing::debug!(controller = worker.name(), "begins");
                worker.synced(view);
            }
        }
    }

    fn changes_catalog(&self, changes: &[Change]) -> bool {
        let Some(watched) = &self.metadata else {
            return false;
        };
        let definitions = Kind::CustomResourceDefinition.resource();
        watched.is_empty() || changes.iter().any(|change| *change.resource == definitions)
    }

    /// Starts and stops metadata watches to match the kinds that are currently served.
    fn update_metadata_watches(&mut self) {
        let Some(watched) = &mut self.metadata else {
            return;
        };
        if self.caches.discovered.is_none() {
            return;
        }
        let covered: BTreeSet<_> = self
            .typed
            .iter()
            .filter(|kind| kind.selection() == super::feed::Selection::All)
            .map(|kind| kind.resource())
            .map(|resource| (resource.group, resource.plural))
            .collect();
        let wanted: BTreeSet<ResourceType> = catalog::served(&self.caches)
            .into_iter()
            .filter(super::Served::can_be_collected)
            .map(|served| served.resource)
            .filter(|resource| !covered.contains(&(resource.group.clone(), resource.plural.clone())))
            .collect();
        let ended: Vec<ResourceType> = watched
            .keys()
            .filter(|known| !wanted.contains(*known))
            .cloned()
            .collect();
        let mut changes = Vec::new();
        for resource in ended {
            if let Some(token) = watched.remove(&resource) {
                token.cancel();
            }
            changes.extend(self.caches.drop_metadata(&resource));
        }
        for resource in wanted {
            if watched.contains_key(&resource) {
                continue;
            }
            let token = CancellationToken::new();
            self.caches
                .metadata
                .insert(resource.clone(), super::Cache::new(|_| None));
            let shared = Arc::new(resource.clone());
            let updates = metadata_updates(&self.client, &self.clock, &shared);
            let ended = token.clone().cancelled_owned();
            self.feeds.push(updates.take_until(Box::pin(ended)).boxed());
            watched.insert(resource, token);
        }
        self.notify_workers(&changes);
    }
}

/// When the next worker starts again. A worker whose time has passed waits for initial lists, not for a time.
fn next_resume(times: impl Iterator<Item = Option<Timestamp>>, now: Timestamp) -> Option<Timestamp> {
    times.flatten().filter(|at| *at > now).min()
}

async fn sleep_until(clock: &Clock, moment: Option<Timestamp>) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[], None)]
    #[case::running(&[None], None)]
    #[case::first(&[Some(9), None, Some(8)], Some(8))]
    #[case::passed(&[Some(3), Some(5), Some(9)], Some(9))]
    #[case::all_passed(&[Some(5)], None)]
    fn the_loop_does_not_wake_up_for_a_time_that_has_passed(#[case] times: &[Option<i64>], #[case] next: Option<i64>) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let times = times.iter().map(|second| second.map(at));
        assert_eq!(next_resume(times, at(5)), next.map(at));
    }
}
