//! A process that only checks the health of machines: its memory by the machines, and the time of its passes.

use std::time::Duration;

use anyhow::{Context, Result};
use clock::Clock;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mcm_api::{Machine, MachineHealthCheck};
use serde_json::json;
use tokio::process::Command;

use crate::figures::Figures;
use crate::kernel;
use crate::machines::{beside, flag};
use crate::metrics;
use crate::objects::{self, NAMESPACE};
use crate::peer::free_port;
use crate::process::{Drydock, Process};

/// Concurrent requests.
const AT_ONCE: usize = 32;
/// How long the process may take until it has evaluated all machines, and the polling interval.
const LIMIT: Duration = Duration::from_mins(2);
const PROBE: Duration = Duration::from_millis(100);
const CHECK: &str = "workers";

/// What is measured of a process.
struct Measured {
    resident_mebibytes: f64,
    /// The mean time of a pass, without reads from API servers and writes.
    pass_milliseconds: f64,
}

/// Measures the resident memory of the process with `machines` machines, less that with one, and its passes.
pub async fn measure(figures: &mut Figures, machines: u32) -> Result<()> {
    // Nothing renews the Leases of the nodes, which a node lifecycle controller would therefore make Unknown.
    let drydock = Drydock::start_with(&["--without=mcm,fakecloud,controllers"]).await?;
    let measured = async {
        let world = World::new(&drydock).await?;
        world.add(0..1).await?;
        let one = world.process(1).await?;
        world.add(1..machines).await?;
        // The first process writes the status of the machines; the second has only passes without changes.
        world.process(machines).await?;
        let all = world.process(machines).await?;
        anyhow::Ok((one, all))
    };
    let measured = Box::pin(measured).await;
    drydock.process.stop().await?;
    let (one, all) = measured?;
    let name = format!("a health check of {machines} machines, memory of its process");
    figures.add(name, all.resident_mebibytes, "MiB", None);
    let each = (all.resident_mebibytes - one.resident_mebibytes) * 1024.0 / f64::from(machines);
    figures.add(
        format!("a health check of {machines} machines, memory by the machines"),
        each,
        "KiB/machine",
        None,
    );
    let name = format!("a health check of {machines} machines, one pass of its process");
    figures.add(name, all.pass_milliseconds, "ms", None);
    Ok(())
}

struct World<'a> {
    drydock: &'a Drydock,
    clock: Clock,
    machines: Api<Machine>,
    nodes: Api<Node>,
    checks: Api<MachineHealthCheck>,
}

impl<'a> World<'a> {
    async fn new(drydock: &'a Drydock) -> Result<Self> {
        let client = objects::client(&drydock.kubeconfig).await?;
        objects::install_machine_api(&client).await?;
        let world = Self {
            drydock,
            clock: Clock::wall(),
            machines: Api::namespaced(client.clone(), NAMESPACE),
            nodes: Api::all(client.clone()),
            checks: Api::namespaced(client, NAMESPACE),
        };
        let check = serde_json::from_value(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineHealthCheck",
            "metadata": { "name": CHECK },
            "spec": {
                "selector": { "matchLabels": { "name": "pool" } },
                "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "5m" }],
            },
        }))?;
        world.checks.create(&PostParams::default(), &check).await?;
        Ok(world)
    }

    /// Creates machines with healthy nodes.
    async fn add(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        let add = |number: u32| async move {
            let name = format!("pool-{number:05}");
            let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                "lastHeartbeatTime": "2026-02-01T00:00:00Z", "lastTransitionTime": "2026-02-01T00:00:00Z" });
            let status = json!({ "status": { "conditions": [ready] } });
            let node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
            self.nodes.create(&PostParams::default(), &node).await?;
            self.nodes
                .patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status))
                .await?;
            let machine = json!({
                "apiVersion": "machine.sapcloud.io/v1alpha1",
                "kind": "Machine",
                "metadata": { "name": name, "labels": { "name": "pool", "node": name } },
                "spec": { "class": { "kind": "MachineClass", "name": "bench" }, "providerID": format!("bench:///{name}") },
            });
            self.machines
                .create(&PostParams::default(), &serde_json::from_value(machine)?)
                .await?;
            let status = json!({ "status": { "conditions": [ready], "currentStatus": { "phase": "Running" } } });
            self.machines
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
                .await?;
            anyhow::Ok(())
        };
        let all = futures::stream::iter(numbers).map(add).buffer_unordered(AT_ONCE);
        all.try_collect::<()>().await
    }

    /// Measures a new process that has evaluated this number of machines.
    async fn process(&self, machines: u32) -> Result<Measured> {
        let port = free_port()?;
        let mut command = Command::new(beside("mcm")?);
        command.args([
            "--controllers=machinehealthcheck".to_owned(),
            "--leader-elect=false".to_owned(),
            "--address=127.0.0.1".to_owned(),
            format!("--port={port}"),
            format!("--namespace={NAMESPACE}"),
        ]);
        for cluster in ["--control-kubeconfig=", "--target-kubeconfig="] {
            command.arg(flag(cluster, &self.drydock.kubeconfig));
        }
        let process = Process::start(
            command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null()),
        )?;
        let evaluated = async {
            loop {
                let check = serde_json::to_value(self.checks.get(CHECK).await?)?;
                if check["status"]["currentHealthy"] == machines
                    && let Some(pass) = metrics::mean_health_evaluation(port).await
                {
                    return anyhow::Ok(pass);
                }
                self.clock.sleep(PROBE).await;
            }
        };
        let evaluated = tokio::time::timeout(LIMIT, evaluated).await;
        let pass_milliseconds =
            evaluated.with_context(|| format!("not all machines are healthy after {LIMIT:?}"))??;
        let measured = Measured {
            resident_mebibytes: kernel::resident_mebibytes(process.id())?,
            pass_milliseconds,
        };
        process.stop().await?;
        Ok(measured)
    }
}
