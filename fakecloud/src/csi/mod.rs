//! The cloud's storage: a CSI driver's provisioner, attacher and node registrar in one, for simulated
//! nodes.
//!
//! This module holds [`run`], the loop that watches claims, volumes, attachments and nodes and performs the calls that
//! the pure [`world`] decides, each after its delay. The control plane binds volumes and runs attach-detach; kubelets
//! mount.
//!
//! A StorageClass for it: `provisioner: csi.fakecloud.drydock`, preferably with `volumeBindingMode:
//! WaitForFirstConsumer`, so that volumes are created in the zone of their pods' nodes.

mod calls;
mod settings;
#[cfg(test)]
mod tests;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, select_all};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use kube::runtime::watcher::{Config, Event};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use self::settings::Settings;
use self::world::{Action, Task, World};
use crate::Fakecloud;
use crate::kubelet::{watch, watch_config};
use crate::model::{CloudCall, StorageReply, VmState, later};

/// Maximum number of concurrent API calls.
const CONCURRENCY: usize = 16;

/// A change that a watch delivered, and the tasks that it may affect.
type Update = Box<dyn FnOnce(&mut World) -> Vec<Task> + Send>;

/// Runs the storage of `cloud` against the API server behind `client`, until `token` is cancelled. Dropping the future
/// kills it; the next run continues with the existing objects.
pub async fn run(cloud: Fakecloud, settings: Settings, client: Client, token: CancellationToken) {
    let mut tasks = Tasks {
        world: World {
            settings,
            ..World::default()
        },
        ..Tasks::default()
    };
    let mut updates = updates(&client, &watch_config(cloud.clock()));
    let mut calls = FuturesUnordered::new();
    loop {
        let now = cloud.clock().now();
        while calls.len() < CONCURRENCY
            && let Some((task, action)) = tasks.next(&cloud, now)
        {
            calls.push(perform(client.clone(), task, action));
        }
        let next = tasks.next_due().filter(|_| calls.len() < CONCURRENCY);
        let clock = cloud.clock();
        // Biased: a simulated run must replay.
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            Some((task, done)) = calls.next(), if !calls.is_empty() => tasks.done(task, done, clock.now()),
            Some(update) = updates.next() => tasks.update(update, clock.now()),
            () = clock.sleep_until(next.unwrap_or(Timestamp::MAX)), if next.is_some() => {}
        }
    }
}

async fn perform(client: Client, task: Task, action: Action) -> (Task, bool) {
    let done = calls::perform(client, &action).await;
    (task, done)
}

/// Pending tasks with their times.
#[derive(Default)]
struct Tasks {
    world: World,
    due: BTreeMap<Task, Timestamp>,
    busy: BTreeSet<Task>,
    /// Scheduled tasks that the cloud has accepted, with a delay: it is not asked again when they are due.
    accepted: BTreeSet<Task>,
    /// Recent registrations, and until when they are not repeated: a client that reverts one may have newer
    /// information, for example that the Node was deleted, which this cache observes soon.
    done: BTreeMap<Task, Timestamp>,
}

impl Tasks {
    fn update(&mut self, update: Update, now: Timestamp) {
        for task in update(&mut self.world) {
            self.review(task, now);
        }
    }

    /// Schedules a task that has become necessary after its delay, and drops one that is no longer needed.
    fn review(&mut self, task: Task, now: Timestamp) {
        if !self.world.needs(&task) {
            self.due.remove(&task);
            self.accepted.remove(&task);
            return;
        }
        if self.busy.contains(&task) || self.due.contains_key(&task) {
            return;
        }
        let at = later(now, self.delay(&task));
        let at = self.done.get(&task).map_or(at, |rested| at.max(*rested));
        self.due.insert(task, at);
    }

    fn delay(&self, task: &Task) -> Duration {
        let settings = &self.world.settings;
        match task {
            Task::Driver | Task::Register(_) => Duration::ZERO,
            Task::Provision(..) => settings.provision_delay,
            Task::Delete(_) => settings.delete_delay,
            // The first step of attaching only marks the attachment.
            Task::Attach(name) => match self.world.attachments.get(name) {
                Some(attachment) if attachment.finalizers().is_empty() => Duration::ZERO,
                _ => settings.attach_delay,
            },
            Task::Detach(_) => settings.detach_delay,
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }

    /// The first due task with its action.
    fn next(&mut self, cloud: &Fakecloud, now: Timestamp) -> Option<(Task, Action)> {
        let due: Vec<Task> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(task, _)| task.clone())
            .collect();
        for task in due {
            self.due.remove(&task);
            let accepted = self.accepted.contains(&task);
            let runs = |provider_id: &str| {
                cloud.step(|cloud, _| {
                    let vm = cloud.vms().find(|vm| vm.provider_id == provider_id)?;
                    Some(vm.state == VmState::Running)
                })
            };
            if let Some(action) = self.world.decide(&task, &runs) {
                let reply = match accepted {
                    true => StorageReply::Done,
                    false => self.ask(cloud, &task, &action, now),
                };
                match reply {
                    StorageReply::Done => {
                        self.busy.insert(task.clone());
                        return Some((task, action));
                    }
                    StorageReply::Later(delay) => {
                        self.accepted.insert(task.clone());
                        self.due.insert(task, later(now, delay));
                    }
                    StorageReply::Refused => {
                        self.due.insert(task, later(now, self.world.settings.retry_delay));
                    }
                }
            }
        }
        None
    }

    /// Asks the cloud, whose fault rules may hit the action.
    fn ask(&self, cloud: &Fakecloud, task: &Task, action: &Action, now: Timestamp) -> StorageReply {
        let (operation, name) = match (task, action) {
            (_, Action::CreateVolume(volume)) => {
                let name = volume["metadata"]["name"].as_str().unwrap_or_default();
                cloud.step(|cloud, now| cloud.note_storage("CreateVolume", name, now));
                return StorageReply::Done;
            }
            (_, Action::DeleteVolume(name, _)) => {
                cloud.step(|cloud, now| cloud.note_storage("DeleteVolume", name, now));
                return StorageReply::Done;
            }
            (Task::Attach(name), Action::AttachmentStatus(_, patch)) if patch["status"]["attached"] == true => {
                (CloudCall::AttachVolume, name)
            }
            (Task::Detach(name), _) => (CloudCall::DetachVolume, name),
            _ => return StorageReply::Done,
        };
        let Some(attachment) = self.world.attachments.get(name) else {
            return StorageReply::Done;
        };
        let node = &attachment.spec.node_name;
        let zone = self
            .world
            .nodes
            .get(node)
            .and_then(|node| node.labels().get(world::ZONE));
        let volume = attachment
            .spec
            .source
            .persistent_volume_name
            .as_deref()
            .unwrap_or_default();
        let zone = zone.map(String::as_str).unwrap_or_default();
        cloud.step(|cloud, _| cloud.storage_reply(operation, volume, node, zone, now))
    }

    /// Completes a call. If the task is still needed when the watch has delivered the effect, it is scheduled again; a
    /// failed one after a pause.
    fn done(&mut self, task: Task, done: bool, now: Timestamp) {
        self.busy.remove(&task);
        if done {
            self.accepted.remove(&task);
        }
        self.done.retain(|_, rested| *rested > now);
        if done && matches!(task, Task::Register(_)) {
            let rested = later(now, self.world.settings.retry_delay);
            self.done.insert(task.clone(), rested);
        }
        if self.world.needs(&task) {
            let rest = if done {
                self.delay(&task).max(self.world.settings.retry_delay)
            } else {
                self.world.settings.retry_delay
            };
            self.due.insert(task, later(now, rest));
        }
    }
}

/// Changes of all relevant kinds.
fn updates(client: &Client, config: &Config) -> impl Stream<Item = Update> + Send + use<> {
    select_all([
        follow(
            client,
            config,
            |world: &mut World| &mut world.nodes,
            |node: &Node| node.name_any(),
            |world, node: &Node| {
                let attachments = world.attachments.values();
                let mut tasks = vec![Task::Register(node.name_any())];
                let here = attachments.filter(|attachment| attachment.spec.node_name == node.name_any());
                tasks.extend(here.map(|attachment| Task::Attach(attachment.name_any())));
                tasks
            },
        ),
        follow(
            client,
            config,
            |world| &mut world.csi_nodes,
            |node: &CSINode| node.name_any(),
            |_, node: &CSINode| vec![Task::Register(node.name_any())],
        ),
        follow(
            client,
            config,
            |world| &mut world.drivers,
            |driver: &CSIDriver| driver.name_any(),
            |_, _: &CSIDriver| vec![Task::Driver],
        ),
        follow(
            client,
            config,
            |world| &mut world.classes,
            |class: &StorageClass| class.name_any(),
            |world, _: &StorageClass| {
                let claims = world.claims.keys().cloned();
                claims
                    .map(|(namespace, name)| Task::Provision(namespace, name))
                    .collect()
            },
        ),
        follow(
            client,
            config,
            |world| &mut world.claims,
            |claim: &PersistentVolumeClaim| (claim.namespace().unwrap_or_default(), claim.name_any()),
            |_, claim: &PersistentVolumeClaim| {
                vec![Task::Provision(claim.namespace().unwrap_or_default(), claim.name_any())]
            },
        ),
        follow(
            client,
            config,
            |world| &mut world.volumes,
            |volume: &PersistentVolume| volume.name_any(),
            |_, volume: &PersistentVolume| vec![Task::Delete(volume.name_any())],
        ),
        follow(
            client,
            config,
            |world| &mut world.attachments,
            |attachment: &VolumeAttachment| attachment.name_any(),
            |_, attachment: &VolumeAttachment| {
                let mut tasks = vec![Task::Attach(attachment.name_any()), Task::Detach(attachment.name_any())];
                let volume = attachment.spec.source.persistent_volume_name.clone();
                tasks.extend(volume.map(Task::Delete));
                tasks
            },
        ),
    ])
}

/// Watches one kind into its map; `tasks` returns the tasks that a change of an object may affect.
fn follow<K, N, T>(
    client: &Client,
    config: &Config,
    map: fn(&mut World) -> &mut BTreeMap<N, K>,
    name: fn(&K) -> N,
    tasks: T,
) -> Pin<Box<dyn Stream<Item = Update> + Send>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    N: Ord + Clone + Send + 'static,
    T: Fn(&World, &K) -> Vec<Task> + Copy + Send + 'static,
{
    let events = watch::<K>(client.clone(), config.clone());
    let mut listing: Option<BTreeSet<N>> = None;
    events
        .filter_map(move |event| {
            let update: Option<Update> = match event {
                Ok(Event::Init) => {
                    listing = Some(BTreeSet::new());
                    None
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    if let Some(listing) = &mut listing {
                        listing.insert(name(&object));
                    }
                    Some(Box::new(move |world: &mut World| {
                        map(world).insert(name(&object), object.clone());
                        tasks(world, &object)
                    }))
                }
                Ok(Event::Delete(object)) => Some(Box::new(move |world: &mut World| {
                    map(world).remove(&name(&object));
                    tasks(world, &object)
                })),
                Ok(Event::InitDone) => {
                    let there = listing.take().unwrap_or_default();
                    Some(Box::new(move |world: &mut World| {
                        map(world).retain(|name, _| there.contains(name));
                        vec![Task::Driver]
                    }))
                }
                Err(error) => {
                    tracing::debug!(%error, "a watch of the storage failed");
                    None
                }
            };
            std::future::ready(update)
        })
        .boxed()
}
