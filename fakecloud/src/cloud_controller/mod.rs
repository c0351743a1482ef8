//! The part of a cloud controller manager that this cloud needs: it completes Nodes that register
//! with the taint `node.cloudprovider.kubernetes.io/uninitialized`, deletes the Nodes of VMs that
//! are gone, and taints those of stopped VMs.
//!
//! What lives here: the loop that carries changes of Nodes and VMs to the decision, and its calls.
//! What must not: the decision (in `decide`), and Nodes of other clouds.

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

/// How many calls are under way at once.
const CONCURRENCY: usize = 16;
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long after a call that failed a Node is looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// Looks after the Nodes of `cloud` behind `client` until `token` is cancelled.
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
        // In this order, not at random: a simulated run must replay.
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

/// The Nodes of this kind of cloud, and when which is looked at.
#[derive(Debug)]
struct Controller {
    settings: Settings,
    nodes: BTreeMap<String, NodeView>,
    by_vm: BTreeMap<String, BTreeSet<String>>,
    timers: Timers<String>,
    /// Those with a call under way.
    busy: BTreeSet<String>,
    /// The version that was changed last, until the watch shows another.
    settled: BTreeMap<String, String>,
    /// What a new list has not shown yet.
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

    /// Looks at the Nodes of the VMs that have changed after that record of the cloud's log;
    /// answers the last record.
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

    /// The Node is no more.
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

    /// Something is to be done about the Node soon, or nothing: completing it does not wait for the
    /// next monitoring.
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

    /// The next Node whose time has come, with what is still to be done.
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
                    Action::Initialize(_) => ("NodeInitialized", format!("the Node {name} is completed")),
                    Action::Delete(reason) => ("NodeDeleted", format!("the Node {name} is deleted: {reason}")),
                    Action::Taint(reason, _) => ("NodeTainted", format!("the Node {name} has other taints: {reason}")),
                };
                cloud.step(|cloud, now| cloud.controller_reports(vm, operation, &message, now));
                if self.nodes.contains_key(&name) {
                    self.settled.insert(name.clone(), node.version.clone());
                }
                self.consider(cloud, &name);
            }
            Err(error) => {
                // A conflict is ordinary: the watch brings the Node as it is, and it is decided anew.
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
            // With the version that was looked at, so that nobody else's taint is lost.
            let metadata = json!({"resourceVersion": node.version, "uid": node.uid});
            let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
            nodes.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
    }
}

/// Addresses first: once the taint is gone, the Node is to be complete.
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
