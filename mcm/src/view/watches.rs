//! The watches that fill the caches.

mod defects;

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use runtime::decode::Decoded;
use runtime::error::brief_watch;
use runtime::watch::Signal;
use serde::de::DeserializeOwned;

use super::cluster_state::{ClusterState, TargetState};
use super::work::{Trigger, Work};
use crate::cache::{Cache, Change, Indexed, Key};
use crate::memory::Connection;

/// The first wait after a watch failed.
const WATCH_RETRY: Duration = Duration::from_millis(200);

impl ClusterState {
    /// An endless stream of the work that results from the watches; polling it fills the caches. A watch request lasts
    /// `watch_seconds`.
    pub(crate) fn triggers(
        &self,
        control: &Client,
        target: Option<&Client>,
        watch_seconds: u32,
    ) -> BoxStream<'static, Vec<Trigger>> {
        let state = self.clone();
        let machines = watch_connected(
            Api::namespaced(control.clone(), &self.namespace),
            self.machines.clone(),
            watch_seconds,
            Some(self.connection.clone()),
        )
        .map(move |delivery| state.triggered(delivery, ClusterState::machine_changed, Work::Machine));
        if self.enabled.only_health_checks() {
            let mut streams = vec![machines.boxed(), self.health_check_watch(control, watch_seconds)];
            streams.extend(self.node_watch(target, watch_seconds));
            return stream::select_all(streams).boxed();
        }
        let state = self.clone();
        let classes = watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.classes.clone(),
            watch_seconds,
        )
        .map(move |delivery| state.triggered(delivery, ClusterState::class_changed, Work::Class));
        let state = self.clone();
        let secrets = watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.secrets.clone(),
            watch_seconds,
        )
        .map(move |delivery| state.triggered(delivery, ClusterState::secret_changed, Work::Secret));
        let secrets = secrets.boxed();
        let secrets = if defect!(SecretsReadOnce) {
            self.read_once(secrets)
        } else {
            secrets
        };
        let mut streams = vec![machines.boxed(), classes.boxed(), secrets];
        if self.enabled.owners() {
            let state = self.clone();
            let sets = watch(
                Api::namespaced(control.clone(), &self.namespace),
                self.sets.clone(),
                watch_seconds,
            )
            .map(move |delivery| state.triggered(delivery, ClusterState::set_changed, Work::Set));
            let state = self.clone();
            let deployments = watch(
                Api::namespaced(control.clone(), &self.namespace),
                self.deployments.clone(),
                watch_seconds,
            )
            .map(move |delivery| state.triggered(delivery, ClusterState::deployment_changed, Work::Deployment));
            streams.extend([sets.boxed(), deployments.boxed()]);
        }
        if let (Some(caches), Some(client)) = (&self.target, target) {
            let nodes = self.node_watch(target, watch_seconds);
            let state = self.clone();
            let pods = watch(Api::all(client.clone()), caches.pods.clone(), watch_seconds)
                .map(move |delivery| state.all(delivery.changes, ClusterState::pod_changed));
            let state = self.clone();
            let attachments = watch(Api::all(client.clone()), caches.attachments.clone(), watch_seconds)
                .map(move |delivery| state.all(delivery.changes, ClusterState::attachment_changed));
            streams.extend(nodes.into_iter().chain([pods.boxed(), attachments.boxed()]));
            streams.extend(caches.drain_watches(client, watch_seconds));
        }
        if self.enabled.health_checks {
            streams.push(self.health_check_watch(control, watch_seconds));
        }
        stream::select_all(streams).boxed()
    }

    fn node_watch(&self, target: Option<&Client>, watch_seconds: u32) -> Option<BoxStream<'static, Vec<Trigger>>> {
        let (client, caches) = target.zip(self.target.as_ref())?;
        let (state, connection) = (self.clone(), Some(self.connection.clone()));
        let nodes = watch_connected(
            Api::all(client.clone()),
            caches.nodes.clone(),
            watch_seconds,
            connection,
        );
        Some(
            nodes
                .map(move |delivery| state.all(delivery.changes, ClusterState::node_changed))
                .boxed(),
        )
    }

    fn health_check_watch(&self, control: &Client, watch_seconds: u32) -> BoxStream<'static, Vec<Trigger>> {
        let state = self.clone();
        watch(
            Api::namespaced(control.clone(), &self.namespace),
            self.health_checks.clone(),
            watch_seconds,
        )
        .map(move |delivery| state.triggered(delivery, ClusterState::health_check_changed, Work::HealthCheck))
        .boxed()
    }
}

impl TargetState {
    /// The watches of objects that only drains use. Their changes cause no work.
    fn drain_watches(&self, client: &Client, watch_seconds: u32) -> [BoxStream<'static, Vec<Trigger>>; 3] {
        fn silent<K: 'static>(_: Delivery<K>) -> Vec<Trigger> {
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
}

/// What an event of a watch changed in a cache.
pub(super) struct Delivery<K> {
    pub(super) changes: Vec<Change<K>>,
    /// Objects that could not be decoded completely.
    pub(super) damaged: Vec<Key>,
}

impl<K> Default for Delivery<K> {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            damaged: Vec::new(),
        }
    }
}

/// As [`watch_connected`], for a kind whose watch tells nothing about the connection.
fn watch<K>(api: Api<Decoded<K>>, cache: Cache<K>, watch_seconds: u32) -> impl Stream<Item = Delivery<K>> + Send
where
    K: Indexed + Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync,
{
    watch_connected(api, cache, watch_seconds, None)
}

/// Fills `cache` from a watch of `api` and returns what changed. Failures are logged, and the watch is requested again.
/// `connection` gets to know whether the watch works.
fn watch_connected<K>(
    api: Api<Decoded<K>>,
    cache: Cache<K>,
    watch_seconds: u32,
    connection: Option<Connection>,
) -> impl Stream<Item = Delivery<K>> + Send
where
    K: Indexed + Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync,
{
    let config = watcher::Config::default().timeout(watch_seconds);
    let signals = runtime::watch::watch_signals(api, config, WATCH_RETRY);
    // Empty batches are passed on: after the last list the work loop must check whether the caches are filled, and after each
    // signal whether the connection works.
    signals.map(move |signal| match signal {
        Ok(Signal::Event(event)) => {
            if let Some(connection) = connection.as_ref().filter(|_| !matches!(event, watcher::Event::Init)) {
                connection.watch_works(&K::kind(&()));
            }
            let changes = cache.apply(event);
            let damaged = cache.take_newly_damaged();
            for key in &damaged {
                let damage = cache.damage(key).map(|damage| damage.problems.to_string());
                tracing::warn!(kind = %K::kind(&()), object = %key, damage, "the object cannot be decoded completely");
            }
            Delivery { changes, damaged }
        }
        Ok(Signal::Resumed) => {
            if let Some(connection) = &connection {
                connection.watch_works(&K::kind(&()));
            }
            Delivery::default()
        }
        Err(error) => {
            if let Some(connection) = &connection {
                connection.watch_failed(&K::kind(&()));
            }
            tracing::warn!(kind = %K::kind(&()), error = brief_watch(&error), "the watch failed and is requested again");
            Delivery::default()
        }
    })
}
