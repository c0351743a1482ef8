//! Simulated kubelets: one loop for all of them, with no task per node.
//!
//! What lives here: the loop that carries events of cloud, API server and time to the pure model in
//! `fleet`, and its calls to the API server, a bounded number at once. What must not: decisions.

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

/// The kubelets that run, for whoever asks after them or does something to their pods. Clones are
/// the same kubelets. None run before [`run`] begins and after it ends.
#[derive(Clone, Default)]
pub(crate) struct Kubelets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    fleet: Mutex<Option<Fleet>>,
    /// Something was done to a pod.
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

    /// Looks at the fleet, if there is one. The cloud must not be locked from within.
    fn with<T>(&self, action: impl FnOnce(&mut Fleet) -> T) -> Option<T> {
        self.lock().as_mut().map(action)
    }

    /// What the VM of that number has for a kubelet.
    pub(crate) fn view(&self, vm: u64, now: Timestamp) -> Option<KubeletView> {
        self.with(|fleet| fleet.view(vm, now)).flatten()
    }

    /// Ends a container, with exit code 137 and that reason; without a name, the pod's only one.
    ///
    /// # Errors
    /// When no such container runs; `None` when no kubelets run.
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

/// Takes the fleet away when the loop ends or is dropped: nobody is alive any more.
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
        // A kubelet that lost its way while its calls waited for their turn is told at once.
        let mut lost = false;
        while calls.len() < concurrency {
            let Some((run, request)) = waiting.pop_front() else {
                break;
            };
            match kubelets.with(|fleet| fleet.gate(run)) {
                Some(Gate::Open) => calls.push(perform(client.clone(), run, request)),
                Some(Gate::Unreachable) => {
                    lost = true;
                    let outcome = Outcome::Failed("the API server is out of reach".to_owned());
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
        // In this order, not at random: a simulated run must replay.
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

/// Does what is due; what is wanted, and when something is due next.
fn advance(fleet: &mut Fleet, now: Timestamp) -> (Vec<Effect>, Option<Timestamp>) {
    fleet.advance(now);
    (fleet.take_effects(), fleet.next_deadline())
}

async fn perform(client: Client, run: Run, request: Request) -> (Run, Request, Outcome) {
    let outcome = api::perform(client, &request).await;
    (run, request, outcome)
}

/// Follows the cloud's log, to learn which VMs have changed.
#[derive(Default)]
struct Follower {
    /// The last record that was read; `None`: nothing was read yet.
    after: Option<u64>,
}

impl Follower {
    /// Tells the fleet of all VMs that changed. Answers when the cloud changes by itself next.
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

/// The ids of the VMs that the log mentions after `after`; `None` when that part of it is gone.
fn changed_since(cloud: &Cloud, after: u64) -> Option<BTreeSet<String>> {
    let records = cloud.log().after(after).ok()?;
    Some(
        records
            .filter(|record| !record.vm.is_empty())
            .map(|record| record.vm.clone())
            .collect(),
    )
}

/// The first wait after a watch failed.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// How this process asks for watches.
pub(crate) fn watch_config(clock: &Clock) -> Config {
    Config::default().timeout(clock.watch_seconds())
}

/// Follows all objects of a kind.
pub(crate) fn watch<K>(client: Client, config: Config) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    runtime::watch::watch(Api::<K>::all(client), config, WATCH_RETRY).boxed()
}

/// What a new list began with, less what it has shown so far: in the end, what is gone.
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
