//! The part of a cloud controller manager that this cloud needs: it initializes Nodes that register with the taint
//! `node.cloudprovider.kubernetes.io/uninitialized`, deletes the Nodes of terminated VMs, and taints those of stopped
//! VMs.
//!
//! This module holds the loop that passes changes of Nodes and VMs to the decision in `decide`, and performs the calls.
//! It ignores Nodes of other clouds.

mod decide;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Error};
use runtime::timers::Timers;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use self::settings::Settings;

use self::decide::{Action, Completion, Ledger, NodeView, decide};
use crate::Fakecloud;
use crate::kubelet::{UNINITIALIZED, watch, watch_config};
use crate::model::later;

/// Maximum number of concurrent calls.
const CONCURRENCY: usize = 16;
/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed call before the Node is checked again.
const RETRY: Duration = Duration::from_secs(1);

/// Manages the Nodes of `cloud` until `token` is cancelled.
pub(crate) async fn run(cloud: Fakecloud, settings: Settings, client: Client, token: CancellationToken) {
    let mut controller = Controller::new(settings);
    let mut events = pin!(watch::<Node>(client.clone(), watch_config(cloud.clock())));
    let mut changes = cloud.changes();
    let mut calls = FuturesUnordered::new();
    let mut followed = 0;
    loop {
        changes.borrow_and_update();
        followed = controller.follow(&cloud, followed);
        while calls.len() < CONCURRENCY {
            let Some((name, node, action)) = controller.next_action(&cloud) else {
                break;
            };
            calls.push(perform(client.clone(), name, node, action));
        }
        let next = controller.timers.next().filter(|_| calls.len() < CONCURRENCY);
        let clock = cloud.clock();
        // Biased: a simulated run must replay.
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            _ = changes.changed() => {}
            Some((name, node, action, outcome)) = calls.next(), if !calls.is_empty() => {
                controller.done(&cloud, name, &node, &action, outcome);
            }
            Some(event) = events.next() => controller.event(&cloud, event),
            () = clock.sleep_until(next.unwrap_or(Timestamp::MAX)), if next.is_some() => {}
        }
    }
}

/// The Nodes of this kind of cloud, and when each is checked.
#[derive(Debug)]
struct Controller {
    settings: Settings,
    nodes: BTreeMap<String, NodeView>,
    by_vm: BTreeMap<String, BTreeSet<String>>,
    timers: Timers<String>,
    /// Nodes with a call in flight.
    busy: BTreeSet<String>,
    /// The version that was changed last, until the watch delivers another one.
    settled: BTreeMap<String, String>,
    /// Nodes that a relist has not delivered yet.
    missing: BTreeSet<String>,
}

impl Controller {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            nodes: BTreeMap::new(),
            by_vm: BTreeMap::new(),
            timers: Timers::default(),
            busy: BTreeSet::new(),
            settled: BTreeMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Checks the Nodes of VMs that changed after a record of the cloud's log; returns the last record.
    fn follow(&mut self, cloud: &Fakecloud, after: u64) -> u64 {
        let (changed, last) = cloud.step(|cloud, _| {
            let changed: Option<BTreeSet<String>> = cloud.log().after(after).ok().map(|records| {
                let ids = records.map(|record| record.provider_id.clone());
                ids.filter(|id| !id.is_empty()).collect()
            });
            (changed, cloud.log().last())
        });
        let of_vms = |ids: &BTreeSet<String>| -> Vec<String> {
            let names = ids.iter().filter_map(|id| self.by_vm.get(id));
            names.flatten().cloned().collect()
        };
        let names = match &changed {
            Some(ids) => of_vms(ids),
            None => self.nodes.keys().cloned().collect(),
        };
        for name in names {
            self.consider(cloud, &name);
        }
        last
    }

    fn event(&mut self, cloud: &Fakecloud, event: watcher::Result<Event<Node>>) {
        match event {
            Ok(Event::Init) => self.missing = self.nodes.keys().cloned().collect(),
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                self.missing.remove(&name);
                self.forget(&name);
                let view = NodeView::of(&node);
                if view
                    .as_ref()
                    .is_none_or(|view| self.settled.get(&name) != Some(&view.version))
                {
                    self.settled.remove(&name);
                }
                if let Some(view) = view {
                    let of_vm = self.by_vm.entry(view.provider_id.clone()).or_default();
                    of_vm.insert(name.clone());
                    self.nodes.insert(name.clone(), view);
                }
                self.consider(cloud, &name);
            }
            Ok(Event::InitDone) => {
                for name in std::mem::take(&mut self.missing) {
                    self.end(&name);
                }
            }
            Ok(Event::Delete(node)) => {
                self.end(&node.metadata.name.unwrap_or_default());
            }
            Err(error) => tracing::debug!(%error, "the watch of Nodes failed"),
        }
    }

    /// Records the removal of a Node.
    fn end(&mut self, name: &str) {
        self.forget(name);
        self.settled.remove(name);
        self.timers.cancel(&name.to_owned());
    }

    fn forget(&mut self, name: &str) {
        let Some(view) = self.nodes.remove(name) else { return };
        if let Some(names) = self.by_vm.get_mut(&view.provider_id) {
            names.remove(name);
            if names.is_empty() {
                self.by_vm.remove(&view.provider_id);
            }
        }
    }

    /// Schedules the next check of the Node, if it needs an action: initialization does not wait for the next
    /// monitoring period.
    fn consider(&mut self, cloud: &Fakecloud, name: &str) {
        let now = cloud.clock().now();
        match self.decide(cloud, name) {
            Some(Action::Initialize(_)) => self.timers.set_earlier(name.to_owned(), now),
            Some(Action::Delete(_) | Action::Taint(..)) => {
                let at = later(now, self.settings.monitor_period);
                self.timers.set_earlier(name.to_owned(), at);
            }
            None => self.timers.cancel(&name.to_owned()),
        }
    }

    fn decide(&self, cloud: &Fakecloud, name: &str) -> Option<Action> {
        let node = self.nodes.get(name).filter(|_| !self.busy.contains(name))?;
        if self.settled.get(name) == Some(&node.version) {
            return None;
        }
        let (instance, opened) = (cloud.instance(), cloud.opened());
        cloud.step(|cloud, _| {
            let id = node.provider_id.rsplit('/').next().unwrap_or_default();
            let ledger = Ledger {
                vm: cloud.vm(id).filter(|vm| vm.provider_id == node.provider_id),
                cloud: &instance,
                opened,
                used: cloud.has_had_vms(),
            };
            decide(node, &ledger, self.settings.wait_for_not_ready)
        })
    }

    /// The next due Node, with the action that it still needs.
    fn next_action(&mut self, cloud: &Fakecloud) -> Option<(String, NodeView, Action)> {
        while let Some(name) = self.timers.pop(cloud.clock().now()) {
            if let (Some(action), Some(node)) = (self.decide(cloud, &name), self.nodes.get(&name).cloned()) {
                self.busy.insert(name.clone());
                return Some((name, node, action));
            }
        }
        None
    }

    fn done(&mut self, cloud: &Fakecloud, name: String, node: &NodeView, action: &Action, outcome: Result<(), Error>) {
        self.busy.remove(&name);
        match outcome {
            Ok(()) => {
                let vm = node.provider_id.rsplit('/').next().unwrap_or_default();
                let (operation, message) = match action {
                    Action::Initialize(_) => ("NodeInitialized", format!("the Node {name} is initialized")),
                    Action::Delete(reason) => ("NodeDeleted", format!("the Node {name} is deleted: {reason}")),
                    Action::Taint(reason, _) => ("NodeTainted", format!("the Node {name} gets other taints: {reason}")),
                };
                cloud.step(|cloud, now| cloud.controller_reports(vm, operation, &message, now));
                if self.nodes.contains_key(&name) {
                    self.settled.insert(name.clone(), node.version.clone());
                }
                self.consider(cloud, &name);
            }
            Err(error) => {
                // Conflicts are normal: the watch delivers the current Node, and the decision is repeated.
                tracing::debug!(%error, node = name, "a Node could not be changed");
                let at = later(cloud.clock().now(), RETRY);
                self.timers.set_earlier(name, at);
            }
        }
    }
}

async fn perform(
    client: Client,
    name: String,
    node: NodeView,
    action: Action,
) -> (String, NodeView, Action, Result<(), Error>) {
    let call = call(Api::all(client), &name, &node, &action);
    let outcome = match tokio::time::timeout(TIMEOUT, call).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(Error::Service(Box::new(elapsed))),
    };
    (name, node, action, outcome)
}

async fn call(nodes: Api<Node>, name: &str, node: &NodeView, action: &Action) -> Result<(), Error> {
    let parameters = PatchParams::default();
    match action {
        Action::Initialize(completion) => initialize(&nodes, name, node, completion).await,
        Action::Delete(_) => {
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(node.uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match nodes.delete(name, &parameters).await {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted.map(drop),
            }
        }
        Action::Taint(_, taints) => {
            // With the observed version, so that no taint of another writer is lost.
            let metadata = json!({"resourceVersion": node.version, "uid": node.uid});
            let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
            nodes.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
    }
}

/// Sets addresses first, because the Node must be complete when the taint is removed.
async fn initialize(nodes: &Api<Node>, name: &str, node: &NodeView, completion: &Completion) -> Result<(), Error> {
    let parameters = PatchParams::default();
    let status = json!({"metadata": {"uid": node.uid}, "status": {"addresses": completion.addresses}});
    let written = nodes.patch_status(name, &parameters, &Patch::Strategic(status)).await?;
    let taints = written.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let rest: Vec<_> = taints.into_iter().filter(|taint| taint.key != UNINITIALIZED).collect();
    let patch = json!({
        "metadata": {
            "uid": node.uid,
            "resourceVersion": written.metadata.resource_version,
            "labels": completion.labels,
        },
        "spec": {"providerID": completion.provider_id, "taints": rest},
    });
    nodes.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
}
