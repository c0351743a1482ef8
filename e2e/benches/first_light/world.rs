//! A world with many nodes: the time to join, the idle cost, and the time of their pods.
//!
//! `drydock up` runs the API server and the controllers in one process and fakecloud in another; both are
//! measured.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::Clock;
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::figures::Figures;
use crate::kernel;
use crate::objects::{self, NAMESPACE};
use crate::process::{Drydock, seconds_since};

/// The idle time for the idle cost.
const IDLE: Duration = Duration::from_secs(30);
/// The timeout for nodes and pods.
const LIMIT: Duration = Duration::from_secs(240);

/// Lets `count` nodes join, idle, and run one pod each.
pub async fn measure(figures: &mut Figures, count: u32) -> Result<()> {
    let clock = Clock::wall();
    let nodes = format!("--nodes={count}");
    let from = clock.now();
    let mut drydock = Drydock::start_with(&["--without=mcm", &nodes]).await?;
    let serving = seconds_since(&clock, from);
    drydock.line_with("nodes Ready", LIMIT).await?;
    let joined = seconds_since(&clock, from);
    let client = objects::client(&drydock.kubeconfig).await?;
    let family = kernel::family(drydock.process.id())?;
    let joining_cpu = kernel::sum(&family, kernel::cpu_seconds)?;
    let listed = Api::<Node>::all(client.clone())
        .list_metadata(&ListParams::default())
        .await?;
    ensure!(
        listed.items.len() == count as usize,
        "there are {} nodes",
        listed.items.len()
    );

    figures.add(
        format!("{count} nodes, from the API to all Ready"),
        joined - serving,
        "s",
        None,
    );
    figures.add(
        format!("{count} nodes, CPU until all are Ready"),
        joining_cpu,
        "s",
        None,
    );
    let before = kernel::sum(&family, kernel::cpu_seconds)?;
    clock.sleep(IDLE).await;
    let idle = kernel::sum(&family, kernel::cpu_seconds)? - before;
    figures.add(
        format!("{count} nodes, idle: CPU"),
        idle / IDLE.as_secs_f64(),
        "cores",
        None,
    );
    let resident = kernel::sum(&family, kernel::resident_mebibytes)?;
    figures.add(
        format!("{count} nodes, memory of both processes by the nodes"),
        resident * 1024.0 / f64::from(count),
        "KiB/node",
        None,
    );

    let pods = Pods::new(client, count);
    let before = kernel::sum(&family, kernel::cpu_seconds)?;
    let running = tokio::time::timeout(LIMIT, pods.run(&clock)).await;
    let running = running.with_context(|| format!("{count} pods do not run within {LIMIT:?}"))??;
    figures.add(format!("{count} pods of a Deployment to Running"), running, "s", None);
    let deleted = tokio::time::timeout(LIMIT, pods.delete(&clock)).await;
    let deleted = deleted.with_context(|| format!("{count} pods are not gone within {LIMIT:?}"))??;
    figures.add(format!("{count} pods to gone"), deleted, "s", None);
    let cpu = kernel::sum(&family, kernel::cpu_seconds)? - before;
    figures.add(format!("{count} pods, CPU for both"), cpu, "s", None);
    drydock.process.stop().await
}

/// The pods of one Deployment.
struct Pods {
    deployments: Api<Deployment>,
    pods: Api<Pod>,
    count: u32,
}

impl Pods {
    fn new(client: Client, count: u32) -> Self {
        Self {
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            pods: Api::namespaced(client, NAMESPACE),
            count,
        }
    }

    /// Seconds from the Deployment's creation until the last pod is Running.
    async fn run(&self, clock: &Clock) -> Result<f64> {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": "load" },
            "spec": {
                "replicas": self.count,
                "selector": { "matchLabels": { "app": "load" } },
                "template": {
                    "metadata": { "labels": { "app": "load" } },
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "100m" } } }]
                    }
                }
            }
        }))?;
        let from = clock.now();
        self.deployments.create(&PostParams::default(), &deployment).await?;
        self.watch(clock, from, |running, _| running == self.count as usize)
            .await
    }

    /// Seconds from the Deployment's deletion until the last pod is gone.
    async fn delete(&self, clock: &Clock) -> Result<f64> {
        let from = clock.now();
        let _ = self.deployments.delete("load", &DeleteParams::default()).await?;
        self.watch(clock, from, |_, all| all == 0).await
    }

    /// Seconds until the wanted numbers of running pods and of all pods are reached.
    async fn watch(&self, clock: &Clock, from: Timestamp, done: impl Fn(usize, usize) -> bool) -> Result<f64> {
        let listed = self.pods.list(&ListParams::default().labels("app=load")).await?;
        let version = listed.metadata.resource_version.clone().unwrap_or_default();
        let is_running = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running")
        };
        let mut pods: BTreeMap<String, bool> = listed
            .items
            .iter()
            .map(|pod| (pod.name_any(), is_running(pod)))
            .collect();
        let parameters = WatchParams::default().labels("app=load").timeout(290);
        let mut events = std::pin::pin!(self.pods.watch(&parameters, &version).await?);
        loop {
            let running = pods.values().filter(|running| **running).count();
            if done(running, pods.len()) {
                return Ok(seconds_since(clock, from));
            }
            match events.try_next().await?.context("the watch of pods ended")? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    pods.insert(pod.name_any(), is_running(&pod));
                }
                WatchEvent::Deleted(pod) => {
                    pods.remove(&pod.name_any());
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
        }
    }
}
