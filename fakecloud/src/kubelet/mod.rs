//! Simulated kubelets: one loop for all of them, with no task per node.
//!
//! This module holds the loop that passes events of the cloud, the API server and time to the pure model in `fleet`,
//! and performs its API calls, a bounded number at once. It makes no decisions.

mod admission;
mod api;
mod calls;
mod conditions;
mod dispatch;
mod duties;
mod facts;
mod fleet;
mod join;
mod kill;
#[cfg(test)]
mod loop_tests;
mod objects;
mod outages;
mod plan;
mod pod;
mod pods;
mod quantity;
mod settings;
mod steps;
#[cfg(test)]
mod tests;
mod token;
mod tracked;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use futures::StreamExt;
use futures::stream::{BoxStream, FuturesUnordered};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::calls::{Effect, Gate, Outcome, Request, Run};
use self::facts::{NodeFacts, PodFacts, PodKey};
use self::fleet::Fleet;
pub(crate) use self::kill::PodError;
use self::objects::Host;
pub(crate) use self::objects::{CLOUD, UNINITIALIZED};
pub(crate) use self::settings::Settings;
pub(crate) use self::view::KubeletView;
use crate::Fakecloud;
use crate::model::{Cloud, Vm};

/// The running kubelets, for queries and for actions on their pods. Clones share the kubelets. They exist only
/// while [`run`] runs.
#[derive(Clone, Default)]
pub(crate) struct Kubelets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    fleet: Mutex<Option<Fleet>>,
    /// A pod was changed by an action.
    touched: Notify,
}

impl fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelets").finish_non_exhaustive()
    }
}

impl Kubelets {
    fn lock(&self) -> MutexGuard<'_, Option<Fleet>> {
        self.0.fleet.lock()
    }

    /// Accesses the fleet, if it exists. The cloud must not be locked by `action`.
    fn with<T>(&self, action: impl FnOnce(&mut Fleet) -> T) -> Option<T> {
        self.lock().as_mut().map(action)
    }

    /// The state of the kubelet of a VM.
    pub(crate) fn view(&self, vm: u64, now: Timestamp) -> Option<KubeletView> {
        self.with(|fleet| fleet.view(vm, now)).flatten()
    }

    /// Kills a container with exit code 137 and a reason; without a name, the pod's only container.
    ///
    /// # Errors
    /// No such container runs. Returns `None` if no kubelets run.
    pub(crate) fn kill_container(
        &self,
        pod: &(String, String),
        container: &str,
        reason: &'static str,
        now: Timestamp,
    ) -> Option<Result<String, PodError>> {
        let killed = self.with(|fleet| fleet.kill_container(pod, container, reason, now));
        self.0.touched.notify_one();
        killed
    }
}

/// Removes the fleet when the loop ends or is dropped.
struct Running {
    kubelets: Kubelets,
    clock: Clock,
}

impl Drop for Running {
    fn drop(&mut self) {
        let fleet = self.kubelets.lock().take();
        if let Some(pulses) = fleet.and_then(|fleet| fleet.pulses) {
            pulses.end_all(self.clock.now());
        }
    }
}

/// Runs the kubelets of all VMs of `cloud` against the API server behind `client`, until `token`
/// is cancelled. Also lets VMs boot and end in time.
pub(crate) async fn run(cloud: Fakecloud, settings: Settings, client: Client, token: CancellationToken) {
    let concurrency = settings.concurrency;
    let kubelets = cloud.kubelets().clone();
    let mut fleet = Fleet::new(settings, cloud.instance());
    fleet.pulses = cloud.pulses();
    *kubelets.lock() = Some(fleet);
    let _running = Running {
        kubelets: kubelets.clone(),
        clock: cloud.clock().clone(),
    };
    let mut follower = Follower::default();
    let mut nodes = Listing::default();
    let mut pods = Listing::default();
    let config = watch_config(cloud.clock());
    let mut node_events = pin!(watch::<Node>(client.clone(), config.clone()));
    let mut pod_events = pin!(watch::<Pod>(client.clone(), config.fields("spec.nodeName!=")));
    let mut changes = cloud.changes();
    let mut waiting: VecDeque<(Run, Request)> = VecDeque::new();
    let mut calls = FuturesUnordered::new();
    loop {
        changes.borrow_and_update();
        let now = cloud.clock().now();
        let next_in_cloud = follower.follow(&cloud, &kubelets);
        let (effects, next_in_fleet) = kubelets.with(|fleet| advance(fleet, now)).unwrap_or_default();
        for effect in effects {
            match effect {
                Effect::Call(run, request) => waiting.push_back((run, request)),
                Effect::Joined { vm } => cloud.step(|cloud, now| cloud.kubelet_joined(&vm, now)),
                Effect::Report { vm, operation, message } => {
                    cloud.step(|cloud, now| cloud.kubelet_reports(&vm, operation, &message, now));
                }
            }
        }
        // A kubelet that lost its connection while its calls were queued gets their outcome at once.
        let mut lost = false;
        while calls.len() < concurrency {
            let Some((run, request)) = waiting.pop_front() else {
                break;
            };
            match kubelets.with(|fleet| fleet.gate(run)) {
                Some(Gate::Open) => calls.push(perform(client.clone(), run, request)),
                Some(Gate::Unreachable) => {
                    lost = true;
                    let outcome = Outcome::Failed("the API server is unreachable".to_owned());
                    kubelets.with(|fleet| fleet.done(run, &request, outcome, now));
                }
                Some(Gate::Dropped) | None => {}
            }
        }
        if lost {
            continue;
        }
        let next = [next_in_cloud, next_in_fleet].into_iter().flatten().min();
        let clock = cloud.clock();
        // Biased: a simulated run must replay.
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            _ = changes.changed() => {}
            () = kubelets.0.touched.notified() => {}
            Some((run, request, outcome)) = calls.next(), if !calls.is_empty() => {
                kubelets.with(|fleet| fleet.done(run, &request, outcome, clock.now()));
            }
            Some(event) = node_events.next() => {
                kubelets.with(|fleet| node_event(fleet, &mut nodes, event, clock.now()));
            }
            Some(event) = pod_events.next() => {
                kubelets.with(|fleet| pod_event(fleet, &mut pods, event, clock.now()));
            }
            () = clock.sleep_until(next.unwrap_or(Timestamp::MAX)), if next.is_some() => {}
        }
    }
}

/// Processes what is due; returns the effects and the next deadline.
fn advance(fleet: &mut Fleet, now: Timestamp) -> (Vec<Effect>, Option<Timestamp>) {
    fleet.advance(now);
    (fleet.take_effects(), fleet.next_deadline())
}

async fn perform(client: Client, run: Run, request: Request) -> (Run, Request, Outcome) {
    let outcome = api::perform(client, &request).await;
    (run, request, outcome)
}

/// Follows the cloud's log for changed VMs.
#[derive(Default)]
struct Follower {
    /// The last record that was read; `None`: none yet.
    after: Option<u64>,
}

impl Follower {
    /// Passes all changed VMs to the fleet. Returns the next deadline of the cloud.
    fn follow(&mut self, cloud: &Fakecloud, kubelets: &Kubelets) -> Option<Timestamp> {
        cloud.step(|cloud, now| {
            cloud.advance(now);
            let mut fleet = kubelets.lock();
            let Some(fleet) = fleet.as_mut() else {
                return cloud.next_deadline();
            };
            let changed = self.after.and_then(|after| changed_since(cloud, after));
            let tell = |fleet: &mut Fleet, vm: &Vm| {
                fleet.vm(
                    vm,
                    |vm| Host::of(vm, cloud.settings().machine_types.get(&vm.machine_type)),
                    now,
                );
            };
            match changed {
                Some(ids) => ids.iter().filter_map(|id| cloud.vm(id)).for_each(|vm| tell(fleet, vm)),
                None => cloud.vms().for_each(|vm| tell(fleet, vm)),
            }
            self.after = Some(cloud.log().last());
            cloud.next_deadline()
        })
    }
}

/// IDs of the VMs in records after `after`; `None`: some records are no longer kept.
fn changed_since(cloud: &Cloud, after: u64) -> Option<BTreeSet<String>> {
    let records = cloud.log().after(after).ok()?;
    Some(
        records
            .filter(|record| !record.vm.is_empty())
            .map(|record| record.vm.clone())
            .collect(),
    )
}

/// The first pause after a failed watch.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// Configuration of watches.
pub(crate) fn watch_config(clock: &Clock) -> Config {
    Config::default().timeout(clock.watch_seconds())
}

/// Watches all objects of a kind.
pub(crate) fn watch<K>(client: Client, config: Config) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    runtime::watch::watch(Api::<K>::all(client), config, WATCH_RETRY).boxed()
}

/// Objects before a relist that the relist has not delivered yet: at its end, the removed ones.
#[derive(Debug)]
struct Listing<T> {
    missing: BTreeSet<T>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self {
            missing: BTreeSet::new(),
        }
    }
}

fn node_event(
    fleet: &mut Fleet,
    listing: &mut Listing<(String, String)>,
    event: watcher::Result<Event<Node>>,
    now: Timestamp,
) {
    let identity = |node: &Node| {
        (
            node.metadata.name.clone().unwrap_or_default(),
            node.metadata.uid.clone().unwrap_or_default(),
        )
    };
    match event {
        Ok(Event::Init) => listing.missing = fleet.registrations().into_iter().collect(),
        Ok(Event::InitApply(node) | Event::Apply(node)) => {
            let identity = identity(&node);
            listing.missing.remove(&identity);
            fleet.node_seen(&identity.0, &NodeFacts::of(&node), now);
        }
        Ok(Event::InitDone) => {
            for (name, uid) in std::mem::take(&mut listing.missing) {
                fleet.node_gone(&name, &uid, now);
            }
        }
        Ok(Event::Delete(node)) => {
            let (name, uid) = identity(&node);
            fleet.node_gone(&name, &uid, now);
        }
        Err(error) => tracing::debug!(%error, "the watch of nodes failed"),
    }
}

fn pod_event(fleet: &mut Fleet, listing: &mut Listing<PodKey>, event: watcher::Result<Event<Pod>>, now: Timestamp) {
    match event {
        Ok(Event::Init) => listing.missing = fleet.pods.keys().cloned().collect(),
        Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
            if let Some((key, facts)) = PodFacts::of(&pod) {
                listing.missing.remove(&key);
                fleet.pod_seen(key, facts, now);
            }
        }
        Ok(Event::InitDone) => {
            for key in std::mem::take(&mut listing.missing) {
                fleet.pod_gone(&key, now);
            }
        }
        Ok(Event::Delete(pod)) => {
            let namespace = pod.metadata.namespace.unwrap_or_default();
            fleet.pod_gone(&(namespace, pod.metadata.name.unwrap_or_default()), now);
        }
        Err(error) => tracing::debug!(%error, "the watch of pods failed"),
    }
}
