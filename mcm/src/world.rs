//! What this process watches: one cache a kind, and which work a change means.
//!
//! What lives here: the watches and the table from change to work. What must not: what the work is.

mod defects;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use mcm_api::{Machine, MachineClass, MachineDeployment, MachineSet, keys};
use mcm_core::class::secrets_of;
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Change, Key};
use crate::drains::Drains;
use crate::pending_set_writes::PendingSetWrites;
use crate::safety::Guard;
use crate::world_sets::owner_uid;

/// One thing to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Machine(Key),
    Class(Key),
    Secret(Key),
    Set(Key),
    Deployment(Key),
    Overshoot,
}

/// Something to be looked at, and whether somebody changed what it is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) work: Work,
    pub(crate) hurry: bool,
}

/// Position of the machines' index by label `node`.
const BY_NODE: usize = 0;
/// Position of the machines' index by label `name`, their deployment.
const BY_DEPLOYMENT: usize = 1;
/// Position of the machines' index by the name of their class.
const BY_CLASS: usize = 2;
/// Position of the machines' index by the uid of their controller, empty for orphans.
pub(crate) const BY_OWNER: usize = 3;
/// The only index of the other kinds: Nodes by their machine; pods and attachments by their Node.
const FIRST: usize = 0;
/// Position of the attachments' index by PersistentVolume.
const BY_VOLUME: usize = 1;

/// All that is watched. Clones share the caches.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) namespace: String,
    pub(crate) machines: Cache<Machine>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) sets: Cache<MachineSet>,
    pub(crate) deployments: Cache<MachineDeployment>,
    pub(crate) chosen: Chosen,
    pub(crate) target: Option<Target>,
    /// Who is told of what may leave orphan VMs behind.
    pub(crate) guard: Guard,
    pub(crate) drains: Drains,
    pub(crate) pending_set_writes: PendingSetWrites,
}

/// What is watched in the cluster that nodes join.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) nodes: Cache<Node>,
    pods: Cache<Pod>,
    attachments: Cache<VolumeAttachment>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) volumes: Cache<PersistentVolume>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
}

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) machines: bool,
    pub(crate) sets: bool,
    pub(crate) deployments: bool,
}

impl Chosen {
    /// Whether anything is to be known of sets and deployments. Machines look there which of them are preserved.
    pub(crate) fn owners(self) -> bool {
        self.machines || self.sets || self.deployments
    }

    pub(crate) fn runs(self, work: &Work) -> bool {
        match work {
            Work::Machine(_) | Work::Class(_) | Work::Secret(_) => self.machines,
            Work::Set(_) | Work::Overshoot => self.sets,
            Work::Deployment(_) => self.deployments,
        }
    }
}

impl World {
    pub(crate) fn new(namespace: &str, with_target: bool, chosen: Chosen) -> Self {
        Self {
            namespace: namespace.to_owned(),
            machines: Cache::<Machine>::new(&[
                |machine| machine.labels().get(keys::NODE_LABEL).cloned(),
                |machine| machine.labels().get(keys::DEPLOYMENT_LABEL).cloned(),
                |machine| Some(machine.spec.class.name.clone()),
                |machine| Some(owner_uid(&machine.metadata)),
            ])
            .remembering_own(),
            sets: Cache::<MachineSet>::new(&[|set| Some(owner_uid(&set.metadata))]).remembering_own(),
            deployments: Cache::<MachineDeployment>::new(&[]).remembering_own(),
            chosen,
            classes: Cache::new(&[]),
            secrets: Cache::new(&[]),
            guard: Guard::default(),
            drains: Drains::default(),
            pending_set_writes: PendingSetWrites::default(),
            target: with_target.then(|| Target {
                nodes: Cache::<Node>::new(&[|node| node.labels().get(keys::MACHINE_NAME_LABEL).cloned()])
                    .remembering_gone()
                    .remembering_own(),
                pods: Cache::new(&[|pod| pod.spec.as_ref()?.node_name.clone()]),
                attachments: Cache::new(&[
                    |attachment| Some(attachment.spec.node_name.clone()),
                    |attachment| attachment.spec.source.persistent_volume_name.clone(),
                ]),
                claims: Cache::new(&[]),
                volumes: Cache::new(&[]),
                budgets: Cache::new(&[|budget| budget.namespace()]),
            }),
        }
    }

    /// Whether every first list is complete; before that nothing is decided.
    pub(crate) fn synced(&self) -> bool {
        let control = self.machines.synced() && self.classes.synced() && self.secrets.synced();
        let owners = !self.chosen.owners() || self.sets.synced() && self.deployments.synced();
        control && owners && self.target.as_ref().is_none_or(Target::synced)
    }

    pub(crate) fn machines_of_deployment(&self, deployment: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_DEPLOYMENT, deployment)
    }

    /// The machines whose label `node` names it.
    pub(crate) fn machines_of_node(&self, node: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_NODE, node)
    }

    pub(crate) fn machines_of_class(&self, class: &str) -> Vec<Arc<Machine>> {
        self.machines.find(BY_CLASS, class)
    }

    /// Everything that comes of the watches, for ever; each is requested for `watch_seconds` at a time. The caches are filled by polling this.
    pub(crate) fn triggers(
        &self,
        control: &Client,
        target: Option<&Client>,
        watch_seconds: u32,
    ) -> BoxStream<'static, Vec<Trigger>> {
        let world = self.clone();
        let machines = watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.machines.clone(),
            watch_seconds,
        )
        .map(move |changes| world.all(changes, World::machine_changed));
        let world = self.clone();
        let classes = watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.classes.clone(),
            watch_seconds,
        )
        .map(move |changes| world.all(changes, World::class_changed));
        let world = self.clone();
        let secrets = watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.secrets.clone(),
            watch_seconds,
        )
        .map(move |changes| world.all(changes, World::secret_changed));
        let secrets = secrets.boxed();
        let secrets = if defect!(SecretsReadOnce) {
            self.read_once(secrets)
        } else {
            secrets
        };
        let mut streams = vec![machines.boxed(), classes.boxed(), secrets];
        if self.chosen.owners() {
            let world = self.clone();
            let sets = watch(
                Api::namespaced(control.clone(), &self.namespace),
                self.sets.clone(),
                watch_seconds,
            )
            .map(move |changes| world.all(changes, World::set_changed));
            let world = self.clone();
            let deployments = watch(
                Api::namespaced(control.clone(), &self.namespace),
                self.deployments.clone(),
                watch_seconds,
            )
            .map(move |changes| world.all(changes, World::deployment_changed));
            streams.extend([sets.boxed(), deployments.boxed()]);
        }
        if let (Some(caches), Some(client)) = (&self.target, target) {
            let world = self.clone();
            let nodes = watch(Api::all(client.clone()), caches.nodes.clone(), watch_seconds)
                .map(move |changes| world.all(changes, World::node_changed));
            let world = self.clone();
            let pods = watch(Api::all(client.clone()), caches.pods.clone(), watch_seconds)
                .map(move |changes| world.all(changes, World::pod_changed));
            let world = self.clone();
            let attachments = watch(Api::all(client.clone()), caches.attachments.clone(), watch_seconds)
                .map(move |changes| world.all(changes, World::attachment_changed));
            streams.extend([nodes.boxed(), pods.boxed(), attachments.boxed()]);
            streams.extend(caches.looked_up_by_drains(client, watch_seconds));
        }
        stream::select_all(streams).boxed()
    }

    fn all<K>(&self, changes: Vec<Change<K>>, rule: fn(&Self, &Change<K>) -> Vec<Trigger>) -> Vec<Trigger> {
        let triggers = changes.iter().flat_map(|change| rule(self, change));
        triggers.filter(|trigger| self.chosen.runs(&trigger.work)).collect()
    }

    /// What comes of the changes that this process made itself.
    pub(crate) fn own_triggers(&self) -> Vec<Trigger> {
        let mut triggers = self.all(self.machines.take_own(), World::made_or_ordered_away);
        triggers.extend(self.all(self.sets.take_own(), World::set_changed));
        triggers.extend(self.all(self.deployments.take_own(), World::deployment_changed));
        if let Some(target) = &self.target {
            triggers.extend(self.all(target.nodes.take_own(), World::node_ordered));
        }
        triggers
    }

    fn machine_changed(&self, change: &Change<Machine>) -> Vec<Trigger> {
        self.guard.machine_changed(change);
        let hurry = change.is_edit(|machine| machine.metadata.generation);
        let Some(machine) = change.either() else {
            return Vec::new();
        };
        if change.new.is_none()
            && let Some(target) = &self.target
            && let Some(node) = machine.labels().get(keys::NODE_LABEL)
        {
            target.nodes.forget_gone(&Key::new("", node));
        }
        let mut triggers = vec![Trigger {
            work: Work::Machine(Key::of(&**machine)),
            hurry,
        }];
        let classes = |side: &Option<Arc<Machine>>| side.as_ref().map(|machine| machine.spec.class.name.clone());
        let (before, after) = (classes(&change.old), classes(&change.new));
        if before != after {
            let changed = before.into_iter().chain(after);
            triggers.extend(changed.map(|class| quiet(Work::Class(Key::new(&self.namespace, class)))));
        }
        triggers.extend(self.owners_of_machine(change));
        triggers
    }

    fn class_changed(&self, change: &Change<MachineClass>) -> Vec<Trigger> {
        let Some(class) = change.either() else {
            return Vec::new();
        };
        let mut triggers = vec![quiet(Work::Class(Key::of(&**class)))];
        let secrets = [&change.old, &change.new]
            .into_iter()
            .flatten()
            .flat_map(|class| secrets_of(class));
        triggers.extend(secrets.map(|(namespace, name)| quiet(Work::Secret(Key::new(namespace, name)))));
        triggers.extend(self.machines_behind(class, change.is_news(|class| class.metadata.generation)));
        triggers
    }

    fn secret_changed(&self, change: &Change<Secret>) -> Vec<Trigger> {
        let Some(secret) = change.either() else {
            return Vec::new();
        };
        let key = Key::of(&**secret);
        let own = (key.namespace.clone(), key.name.clone());
        let hurry = change.is_news(|secret| secret.data.clone());
        let classes = self
            .classes
            .all()
            .into_iter()
            .filter(|class| secrets_of(class).contains(&own));
        let mut triggers: Vec<_> = classes.flat_map(|class| self.machines_behind(&class, hurry)).collect();
        triggers.push(quiet(Work::Secret(key)));
        triggers
    }

    fn machines_behind(&self, class: &MachineClass, hurry: bool) -> Vec<Trigger> {
        let machines = self.machines_of_class(&class.name_any());
        machines
            .iter()
            .filter(|_| !defect!(ClassChangeWakesNoMachine | UnusableClassSilencesDeletion))
            .map(|machine| Trigger {
                work: Work::Machine(Key::of(&**machine)),
                hurry,
            })
            .collect()
    }

    fn node_changed(&self, change: &Change<Node>) -> Vec<Trigger> {
        let Some(node) = change.either() else { return Vec::new() };
        let mut triggers = self.machines_on(&node.name_any());
        if change.new.is_none()
            && triggers.is_empty()
            && let Some(target) = &self.target
        {
            target.nodes.forget_gone(&Key::of(&**node));
        }
        if let Some(machine) = node.labels().get(keys::MACHINE_NAME_LABEL) {
            let key = Key::new(&self.namespace, machine);
            if self.machines.get(&key).is_some() {
                triggers.push(quiet(Work::Machine(key)));
            }
        }
        triggers
    }

    /// A Node that this process wrote: the machine controller looks at it if an update in place is asked for or over.
    fn node_ordered(&self, change: &Change<Node>) -> Vec<Trigger> {
        let asked = |node: &Option<Arc<Node>>| {
            let labels = [
                keys::CANDIDATE_FOR_UPDATE_LABEL,
                keys::SELECTED_FOR_UPDATE_LABEL,
                keys::UPDATE_RESULT_LABEL,
            ];
            node.as_ref()
                .map(|node| labels.map(|label| node.labels().get(label).cloned()))
        };
        if change.new.is_none() || asked(&change.old) == asked(&change.new) {
            return Vec::new();
        }
        self.node_changed(change)
    }

    fn pod_changed(&self, change: &Change<Pod>) -> Vec<Trigger> {
        let node = change
            .either()
            .and_then(|pod| pod.spec.as_ref())
            .and_then(|spec| spec.node_name.as_deref());
        node.map(|node| self.machines_on(node)).unwrap_or_default()
    }

    fn attachment_changed(&self, change: &Change<VolumeAttachment>) -> Vec<Trigger> {
        let Some(attachment) = change.either() else {
            return Vec::new();
        };
        if defect!(DrainListenerFillsUp) && crate::drains::defects::fills_up() {
            return Vec::new();
        }
        let mut triggers = self.machines_on(&attachment.spec.node_name);
        if let Some(volume) = &attachment.spec.source.persistent_volume_name {
            let waiting = self.drains.waiting_for(volume).into_iter();
            triggers.extend(waiting.map(|key| quiet(Work::Machine(key))));
        }
        triggers
    }

    fn machines_on(&self, node: &str) -> Vec<Trigger> {
        let machines = self.machines_of_node(node);
        machines
            .iter()
            .map(|machine| quiet(Work::Machine(Key::of(&**machine))))
            .collect()
    }
}

pub(crate) fn quiet(work: Work) -> Trigger {
    Trigger { work, hurry: false }
}

impl<K> Change<K> {
    /// Whether this part of an object that stays was changed; finalizers and status are none of it.
    fn is_edit<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        self.old
            .as_ref()
            .zip(self.new.as_ref())
            .is_some_and(|(old, new)| part(old) != part(new))
    }

    /// The same, or the object has appeared: what failed without it may succeed now.
    fn is_news<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        let appeared = self.old.is_none() && self.new.is_some() && !self.first_list;
        appeared || self.is_edit(part)
    }

    pub(crate) fn either(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl Target {
    fn synced(&self) -> bool {
        let watched = self.nodes.synced() && self.pods.synced() && self.attachments.synced();
        watched && self.claims.synced() && self.volumes.synced() && self.budgets.synced()
    }

    /// The watches of what drains look up. A change of it means no work by itself.
    fn looked_up_by_drains(&self, client: &Client, watch_seconds: u32) -> [BoxStream<'static, Vec<Trigger>>; 3] {
        fn silent<K: 'static>(_: Vec<Change<K>>) -> Vec<Trigger> {
            Vec::new()
        }
        [
            watch(Api::all(client.clone()), self.claims.clone(), watch_seconds)
                .map(silent)
                .boxed(),
            watch(Api::all(client.clone()), self.volumes.clone(), watch_seconds)
                .map(silent)
                .boxed(),
            watch(Api::all(client.clone()), self.budgets.clone(), watch_seconds)
                .map(silent)
                .boxed(),
        ]
    }

    /// The Nodes whose label says that they are this machine's.
    pub(crate) fn nodes_labelled(&self, machine: &str) -> Vec<Arc<Node>> {
        self.nodes.find(FIRST, machine)
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.find(FIRST, node)
    }

    pub(crate) fn attachments_of(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(FIRST, node)
    }

    pub(crate) fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.find(BY_VOLUME, volume)
    }

    pub(crate) fn budgets_in(&self, namespace: &str) -> Vec<Arc<PodDisruptionBudget>> {
        self.budgets.find(FIRST, namespace)
    }
}

/// Fills `cache` from a watch of `api` and gives what changed. Failures are logged and tried again.
/// The first wait after a watch failed.
const WATCH_RETRY: Duration = Duration::from_millis(200);

fn watch<K>(api: Api<K>, cache: Cache<K>, watch_seconds: u32) -> impl Stream<Item = Vec<Change<K>>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let events = runtime::watch::watch(api, watcher::Config::default().timeout(watch_seconds), WATCH_RETRY);
    // An empty batch passes too: after the end of the last list the loop has to look again.
    events.map(move |event| match event {
        Ok(event) => cache.apply(event.modify(|object| object.managed_fields_mut().clear())),
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), error = watch_error(&error), "the watch failed and is requested again");
            Vec::new()
        }
    })
}

fn watch_error(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::error::brief(error),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
