//! Deployments of machines: scaled up from zero, rolled out, scaled down to zero; and many small idle
//! deployments. VMs boot immediately, so that the time is the controller's.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clock::Clock;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use mcm_api::{Machine, MachineDeployment};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::figures::Figures;
use crate::kernel;
use crate::objects::{self, NAMESPACE};
use crate::process::{Drydock, seconds_since};

/// The timeout for one step of a deployment.
const LIMIT: Duration = Duration::from_mins(10);
/// The idle time of the small deployments, for their idle cost.
const IDLE: Duration = Duration::from_secs(30);
/// The number of small deployments, and the machines of each.
const SMALL: (u32, u32) = (200, 5);
/// The number of machines that are rolled one at a time.
const ONE_BY_ONE: u32 = 300;
/// The number of large deployments, and the machines of each.
const LARGE: (u32, u32) = (5, 1000);
const CLASSES: [&str; 2] = ["class-a", "class-b"];

/// Rolls deployments of these sizes, and idles with small ones.
pub async fn measure(figures: &mut Figures, sizes: &[u32], small: bool) -> Result<()> {
    for size in sizes {
        roll(figures, *size).await.with_context(|| format!("{size} machines"))?;
    }
    if small {
        roll_one_by_one(figures).await.context("one at a time")?;
        several(figures).await.context("several deployments")?;
        rest(figures).await.context("small deployments")?;
    }
    Ok(())
}

async fn roll(figures: &mut Figures, size: u32) -> Result<()> {
    let clock = Clock::wall();
    let world = World::start(size).await?;
    world.deployment("roll", 0, size.div_ceil(10)).await?;

    let from = kernel::cpu_seconds(world.mcm)?;
    let (seconds, most) = world.scaled(&clock, "roll", json!({ "replicas": size }), size).await?;
    let up = kernel::cpu_seconds(world.mcm)? - from;
    figures.add(format!("0 to {size} machines: time"), seconds, "s", None);
    figures.add(
        format!("0 to {size} machines: memory of mcm, peak"),
        kernel::peak_mebibytes(world.mcm)?,
        "MiB",
        None,
    );
    figures.add(
        format!("0 to {size} machines: most at a time"),
        most as f64,
        "machines",
        None,
    );

    let before = world.requests().await?;
    let cpu = kernel::cpu_seconds(world.mcm)?;
    let template = json!({ "template": { "spec": { "class": { "name": CLASSES[1] } } } });
    let (seconds, most) = world.scaled(&clock, "roll", template, size).await?;
    let requests = world.requests().await? - before;
    figures.add(format!("{size} machines rolled: time"), seconds, "s", None);
    figures.add(
        format!("{size} machines rolled: most at a time"),
        most as f64,
        "machines",
        None,
    );
    figures.add(
        format!("{size} machines rolled: requests of mcm"),
        requests / f64::from(size),
        "requests/machine",
        None,
    );
    figures.add(
        format!("{size} machines rolled: CPU of mcm"),
        kernel::cpu_seconds(world.mcm)? - cpu,
        "s",
        None,
    );
    figures.add(
        format!("{size} machines rolled: memory of mcm, peak"),
        kernel::peak_mebibytes(world.mcm)?,
        "MiB",
        None,
    );

    let from = kernel::cpu_seconds(world.mcm)?;
    let (seconds, most) = world.scaled(&clock, "roll", json!({ "replicas": 0 }), 0).await?;
    let down = kernel::cpu_seconds(world.mcm)? - from;
    figures.add(format!("{size} to 0 machines: time"), seconds, "s", None);
    figures.add(format!("0 to {size} to 0 machines: CPU of mcm"), up + down, "s", None);
    figures.add(
        format!("{size} to 0 machines: most at a time"),
        most as f64,
        "machines",
        None,
    );
    world.drydock.process.stop().await
}

/// Rolls a deployment with a surge of one machine.
async fn roll_one_by_one(figures: &mut Figures) -> Result<()> {
    let clock = Clock::wall();
    let world = World::start(ONE_BY_ONE).await?;
    world.deployment("roll", 0, 1).await?;
    let size = json!({ "replicas": ONE_BY_ONE });
    world.scaled(&clock, "roll", size, ONE_BY_ONE).await?;
    let from = kernel::cpu_seconds(world.mcm)?;
    let template = json!({ "template": { "spec": { "class": { "name": CLASSES[1] } } } });
    let (seconds, _) = world.scaled(&clock, "roll", template, ONE_BY_ONE).await?;
    let name = format!("{ONE_BY_ONE} machines rolled one at a time");
    figures.add(format!("{name}: time"), seconds, "s", None);
    let cpu = kernel::cpu_seconds(world.mcm)? - from;
    figures.add(format!("{name}: CPU of mcm"), cpu, "s", None);
    world.drydock.process.stop().await
}

/// Scales several large deployments from zero and to zero.
async fn several(figures: &mut Figures) -> Result<()> {
    let (deployments, machines) = LARGE;
    let clock = Clock::wall();
    let world = World::start(deployments * machines).await?;
    let names: Vec<String> = (0..deployments).map(|number| format!("large-{number}")).collect();
    for name in &names {
        world.deployment(name, 0, 1).await?;
    }
    let all = deployments * machines;
    for (what, size) in [
        (format!("0 to {all} machines in {deployments} sets"), machines),
        (format!("{all} to 0 machines in {deployments} sets"), 0),
    ] {
        let (from, cpu) = (clock.now(), kernel::cpu_seconds(world.mcm)?);
        for name in &names {
            let patch = Patch::Merge(json!({ "spec": { "replicas": size } }));
            world.deployments().patch(name, &PatchParams::default(), &patch).await?;
        }
        world.steady(&clock, deployments, size).await?;
        figures.add(format!("{what}: time"), seconds_since(&clock, from), "s", None);
        let cpu = kernel::cpu_seconds(world.mcm)? - cpu;
        figures.add(format!("{what}: CPU of mcm"), cpu, "s", None);
    }
    let peak = kernel::peak_mebibytes(world.mcm)?;
    figures.add(
        format!("{all} machines in {deployments} sets: memory of mcm, peak"),
        peak,
        "MiB",
        None,
    );
    world.drydock.process.stop().await
}

async fn rest(figures: &mut Figures) -> Result<()> {
    let (deployments, machines) = SMALL;
    let clock = Clock::wall();
    let world = World::start(deployments * machines).await?;
    let from = clock.now();
    for number in 0..deployments {
        world.deployment(&format!("small-{number}"), machines, 1).await?;
    }
    world.steady(&clock, deployments, machines).await?;
    let seconds = seconds_since(&clock, from);
    let name = format!("{deployments} deployments of {machines}");
    figures.add(format!("{name}: time to steady"), seconds, "s", None);
    let before = kernel::cpu_seconds(world.mcm)?;
    clock.sleep(IDLE).await;
    let idle = kernel::cpu_seconds(world.mcm)? - before;
    figures.add(
        format!("{name}, idle: CPU of mcm"),
        idle / IDLE.as_secs_f64(),
        "cores",
        None,
    );
    figures.add(
        format!("{name}, idle: memory of mcm"),
        kernel::resident_mebibytes(world.mcm)?,
        "MiB",
        None,
    );
    world.drydock.process.stop().await
}

/// Whether the deployment has this number of machines, all of the newest template and available, and its status
/// matches the newest spec.
fn is_steady(deployment: &MachineDeployment, size: u32) -> bool {
    let status = &deployment.status;
    let numbers = [status.replicas, status.updated_replicas, status.available_replicas];
    let observed = deployment.metadata.generation == Some(status.observed_generation);
    observed && numbers.iter().all(|number| u32::try_from(*number) == Ok(size))
}

/// A control plane with mcm and fakecloud.
pub struct World {
    pub drydock: Drydock,
    client: Client,
    /// The process of mcm, and its metrics port.
    pub mcm: u32,
    port: u16,
}

impl World {
    /// Starts it, with kubelets for twice as many machines.
    pub async fn start(machines: u32) -> Result<Self> {
        // A rollout has more machines than the deployment; Leases are renewed as in production.
        let kubelets = format!("--kubelets={}", 2 * machines);
        let mut drydock = Drydock::start_with(&["--boot-delay=0s", &kubelets]).await?;
        drydock.process.alive()?;
        let client = objects::client(&drydock.kubeconfig).await?;
        let family = kernel::family(drydock.process.id())?;
        let (mcm, port) = mcm_of(&family).context("no process of mcm")?;
        let world = Self {
            drydock,
            client,
            mcm,
            port,
        };
        world.classes().await?;
        Ok(world)
    }

    /// Waits until there are this number of deployments, each steady with this number of machines.
    async fn steady(&self, clock: &Clock, deployments: u32, machines: u32) -> Result<()> {
        let api = self.deployments();
        let steady = async {
            loop {
                let listed = api.list(&ListParams::default()).await?;
                let steady = |one: &MachineDeployment| is_steady(one, machines);
                if listed.items.len() == deployments as usize && listed.items.iter().all(steady) {
                    return anyhow::Ok(());
                }
                clock.sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(LIMIT, steady)
            .await
            .context("they are not steady")?
    }

    fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn classes(&self) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "bench" },
            "stringData": { "apiToken": "bench", "userData": "join --token <<BOOTSTRAP_TOKEN>>" },
        });
        self.create("", "v1", "Secret", "secrets", secret).await?;
        for name in CLASSES {
            let class = json!({
                "apiVersion": "machine.sapcloud.io/v1alpha1",
                "kind": "MachineClass",
                "metadata": { "name": name },
                "provider": "fakecloud",
                "providerSpec": {
                    "machineType": "small", "image": "linux-1", "zone": "local-1",
                    "tags": { "kubernetes.io/cluster/bench": "1", "kubernetes.io/role/node": "1" },
                },
                "secretRef": { "name": "bench", "namespace": NAMESPACE },
            });
            self.create(
                "machine.sapcloud.io",
                "v1alpha1",
                "MachineClass",
                "machineclasses",
                class,
            )
            .await?;
        }
        Ok(())
    }

    async fn create(&self, group: &str, version: &str, kind: &str, plural: &str, object: Value) -> Result<()> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    /// Creates a deployment.
    pub async fn deployment(&self, name: &str, replicas: u32, surge: u32) -> Result<()> {
        let deployment: MachineDeployment = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "name": name } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": { "name": name } },
                    "spec": { "class": { "kind": "MachineClass", "name": CLASSES[0] } },
                },
            },
        }))?;
        self.deployments().create(&PostParams::default(), &deployment).await?;
        Ok(())
    }

    /// Changes the spec. Returns the seconds until exactly the wanted machines exist, and the maximum number of
    /// machines at a time.
    pub async fn scaled(&self, clock: &Clock, name: &str, spec: Value, size: u32) -> Result<(f64, usize)> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), NAMESPACE);
        let (mut there, mut most) = (BTreeSet::new(), 0);
        let mut events = std::pin::pin!(objects::watch(machines));
        let from = clock.now();
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.deployments().patch(name, &PatchParams::default(), &patch).await?;
        let reached = async {
            loop {
                tokio::select! {
                    event = events.next() => match event.context("the watch of machines ended")? {
                        Event::Init => there.clear(),
                        Event::InitApply(machine) | Event::Apply(machine) => {
                            there.insert(machine.name_any());
                            most = most.max(there.len());
                        }
                        Event::Delete(machine) => drop(there.remove(&machine.name_any())),
                        Event::InitDone => {}
                    },
                    () = clock.sleep(Duration::from_millis(100)) => {}
                }
                if there.len() == size as usize && self.is_steady(name, size).await? {
                    return Ok::<Timestamp, anyhow::Error>(clock.now());
                }
            }
        };
        let reached = tokio::time::timeout(LIMIT, reached).await;
        let _ = reached.with_context(|| format!("{name} has not {size} machines within {LIMIT:?}"))??;
        Ok((seconds_since(clock, from), most))
    }

    async fn is_steady(&self, name: &str, size: u32) -> Result<bool> {
        Ok(is_steady(&self.deployments().get(name).await?, size))
    }

    /// The number of mcm's API requests so far, from its metrics.
    async fn requests(&self) -> Result<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        ensure!(text.contains(" 200 "), "no metrics: {text}");
        let lines = text
            .lines()
            .filter(|line| line.starts_with("mcm_kube_api_requests_total{"));
        let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(numbers.sum())
    }
}

/// mcm's process among these, and its metrics port.
pub fn mcm_of(family: &[u32]) -> Result<(u32, u16)> {
    for process in family {
        let command = std::fs::read(format!("/proc/{process}/cmdline"))?;
        let arguments: Vec<String> = command
            .split(|byte| *byte == 0)
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect();
        if !arguments.first().is_some_and(|program| program.ends_with("/mcm")) {
            continue;
        }
        let port = arguments.iter().find_map(|argument| argument.strip_prefix("--port="));
        return Ok((*process, port.context("mcm has no port")?.parse()?));
    }
    bail!("none of {family:?} is mcm")
}
