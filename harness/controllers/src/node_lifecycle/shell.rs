//! The loop: watch nodes and leases, decide about the nodes that changed or whose deadline has
//! come, act.
//!
//! One task, no spawning: dropping [`run`] kills the controller, and its next incarnation starts
//! from the API server's state.

use std::collections::BTreeSet;

use clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::act::act;
use super::{Action, Observations, Settings, decide};
use crate::schedule::Schedule;
use crate::watch::Watch;

/// Where kubelets keep the leases of their nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Runs the node lifecycle controller until it is cancelled. Errors are logged and tried again.
pub async fn run(client: Client, clock: Clock, settings: Settings, cancelled: CancellationToken) {
    let mut nodes = Watch::new("nodes", Api::<Node>::all(client.clone()), clock.clone());
    let mut leases = Watch::new(
        "leases",
        Api::<Lease>::namespaced(client.clone(), LEASE_NAMESPACE),
        clock.clone(),
    );
    let mut controller = Controller::new(client, clock.clone(), settings);
    let work = async {
        loop {
            let next = controller.next_due();
            tokio::select! {
                biased;
                event = nodes.next() => controller.on_node(event),
                event = leases.next() => controller.on_lease(event),
                () = sleep_until(&clock, next) => controller.work().await,
            }
        }
    };
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = work => {}
    }
}

async fn sleep_until(clock: &Clock, moment: Option<Timestamp>) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

struct Controller {
    client: Client,
    clock: Clock,
    settings: Settings,
    observations: Observations,
    /// When to decide about which node again.
    due: Schedule,
    nodes_listed: bool,
    leases_listed: bool,
    listing: BTreeSet<String>,
}

impl Controller {
    fn new(client: Client, clock: Clock, settings: Settings) -> Self {
        let observations = Observations::new(clock.now(), settings.monitor_period);
        Self {
            client,
            clock,
            settings,
            observations,
            due: Schedule::default(),
            nodes_listed: false,
            leases_listed: false,
            listing: BTreeSet::new(),
        }
    }

    fn on_node(&mut self, event: Event<Node>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(node) => {
                self.listing.insert(node.name_any());
                self.node_changed(node);
            }
            Event::InitDone => {
                self.observations.keep_nodes(&self.listing);
                self.due.retain(|name| self.listing.contains(name));
                self.listing.clear();
                self.nodes_listed = true;
            }
            Event::Apply(node) => self.node_changed(node),
            Event::Delete(node) => {
                self.observations.node_gone(&node.name_any());
                self.due.remove(&node.name_any());
            }
        }
    }

    fn node_changed(&mut self, node: Node) {
        let now = self.clock.now();
        self.due.set(node.name_any(), now);
        self.observations.node_seen(node, now);
    }

    /// A renewal only moves a deadline, which is looked up when it comes.
    fn on_lease(&mut self, event: Event<Lease>) {
        match event {
            Event::Init => {}
            Event::InitApply(lease) | Event::Apply(lease) => self.observations.lease_seen(&lease, self.clock.now()),
            Event::InitDone => self.leases_listed = true,
            Event::Delete(lease) => self.observations.lease_gone(&lease.name_any()),
        }
    }

    /// When there is something to decide; nothing is decided before both lists are in.
    fn next_due(&self) -> Option<Timestamp> {
        if self.nodes_listed && self.leases_listed {
            self.due.earliest()
        } else {
            None
        }
    }

    /// Decides about every node that is due.
    async fn work(&mut self) {
        for name in self.due.take_until(self.clock.now()) {
            if let Some(next) = self.work_on(&name).await {
                self.due.set(name, next);
            }
        }
    }

    /// Decides about one node and acts; returns when to decide about it again.
    async fn work_on(&mut self, name: &str) -> Option<Timestamp> {
        let now = self.clock.now();
        let view = self.observations.view(name)?;
        let plan = decide(&view, now, &self.settings);
        if plan.actions.is_empty() {
            return plan
                .deadline
                .map(|deadline| self.observations.look_at_or_after(deadline));
        }
        let node = view.node.clone();
        for action in &plan.actions {
            match act(&self.client, &self.clock, &node, action).await {
                // What comes next is decided when the watch shows the write, at the next look at the latest.
                Ok(Some(written)) => {
                    self.observations.node_seen(written, self.clock.now());
                    return Some(self.observations.look_after(now));
                }
                Ok(None) => {
                    if let Action::MarkPodsNotReady { since } = action {
                        self.observations.pods_marked(name, *since);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "trying again at the next look");
                    return Some(self.observations.look_after(self.clock.now()));
                }
            }
        }
        plan.deadline
            .map(|deadline| self.observations.look_at_or_after(deadline))
    }
}
