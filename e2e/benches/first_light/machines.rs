//! Machines: how fast `mcm` creates and deletes them, at what cost, and the cost of idle machines.
//!
//! The API server, fakecloud and mcm run as separate processes, with production flags and a cloud whose VMs
//! boot immediately. The number of API requests comes from mcm's metrics; CPU and memory are those of the mcm
//! process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::Clock;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use mcm_api::{Machine, MachineClass, Phase};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::figures::Figures;
use crate::metrics::{Requests, leads, requests};
use crate::objects::{self, NAMESPACE};
use crate::peer::{Peer, Programs, free_port};
use crate::process::{Drydock, Process, seconds_since};
use crate::{DRYDOCK, kernel};

/// The idle time for the idle cost.
const IDLE: Duration = Duration::from_secs(30);
/// The timeout for all machines, for creation and for deletion.
const LIMIT: Duration = Duration::from_mins(10);
/// Concurrent requests.
const AT_ONCE: usize = 32;
/// The timeout for the start of fakecloud and mcm, and the polling interval.
const START_LIMIT: Duration = Duration::from_secs(30);
const START_PROBE: Duration = Duration::from_millis(50);
/// The latency of a cloud that is not on this host.
const LATENCY: Duration = Duration::from_millis(50);
/// So many nodes that `drydock up` configures Lease renewals as rare as in production.
const MANY_KUBELETS: u32 = 1000;
/// The factor of machines in one world, for their idle cost.
const MANY: u32 = 5;

/// Creates and deletes `count` machines with a fast and with a slow cloud, and idles with them and with many
/// more.
pub async fn measure(figures: &mut Figures, peer: Option<&Programs>, count: u32) -> Result<()> {
    for latency in [Duration::ZERO, LATENCY] {
        let ours = with_ours(count, latency).await?;
        let theirs = match peer {
            Some(programs) => Some(with_peer(programs, count, latency).await?),
            None => None,
        };
        let cloud = match latency.as_millis() {
            0 => "machines".to_owned(),
            milliseconds => format!("machines, cloud {milliseconds} ms away"),
        };
        ours.add_to(figures, &format!("{count} {cloud}"), theirs.as_ref());
    }
    let many = with_ours(MANY * count, Duration::ZERO).await?;
    many.add_to(figures, &format!("{} machines", MANY * count), None);
    Ok(())
}

async fn with_ours(count: u32, latency: Duration) -> Result<Measured> {
    // The nodes' kubelets renew their Leases as in production, so the control plane needs the same grace
    // period.
    let kubelets = format!("--kubelets={}", count.max(MANY_KUBELETS));
    let drydock = Drydock::start_with(&["--without=mcm,fakecloud", &kubelets]).await?;
    let measured = Box::pin(run(&drydock.kubeconfig, count, latency)).await;
    drydock.process.stop().await?;
    measured
}

async fn with_peer(programs: &Programs, count: u32, latency: Duration) -> Result<Measured> {
    let peer = Peer::start(programs).await?;
    let measured = async {
        objects::install_machine_api(&peer.client().await?).await?;
        let kubeconfig = peer.write_kubeconfig()?;
        Box::pin(run(&kubeconfig, count, latency)).await
    };
    let measured = measured.await;
    peer.stop().await?;
    measured
}

/// The measurements of one world.
#[derive(Debug)]
struct Measured {
    count: f64,
    created: f64,
    deleted: f64,
    /// The time from each machine's creation to Running, sorted.
    joins: Vec<f64>,
    /// The requests until all machines ran, and until all were gone.
    creating: Requests,
    deleting: Requests,
    cpu: f64,
    peak: f64,
    idle_cpu: f64,
    idle: Requests,
}

impl Measured {
    fn add_to(&self, figures: &mut Figures, what: &str, peer: Option<&Self>) {
        let mut add = |name: &str, unit, figure: fn(&Self) -> f64| {
            figures.add(format!("{what}: {name}"), figure(self), unit, peer.map(figure));
        };
        add("all Running", "s", |measured| measured.created);
        add("create to Running, p50", "s", |measured| measured.percentile(50));
        add("create to Running, p99", "s", |measured| measured.percentile(99));
        add("all gone", "s", |measured| measured.deleted);
        add("calls up", "a machine", |measured| {
            measured.creating.all / measured.count
        });
        add("writes up", "a machine", |measured| {
            measured.creating.writes / measured.count
        });
        add("calls down", "a machine", |measured| {
            measured.deleting.all / measured.count
        });
        add("writes down", "a machine", |measured| {
            measured.deleting.writes / measured.count
        });
        add("mcm, CPU up and down", "s", |measured| measured.cpu);
        add("mcm, memory, peak", "MiB", |measured| measured.peak);
        add("mcm, idle: CPU", "cores", |measured| {
            measured.idle_cpu / IDLE.as_secs_f64()
        });
        add("mcm, idle: requests", "a second", |measured| {
            measured.idle.all / IDLE.as_secs_f64()
        });
    }

    fn percentile(&self, percent: usize) -> f64 {
        let index = (self.joins.len() * percent / 100).min(self.joins.len().saturating_sub(1));
        self.joins.get(index).copied().unwrap_or_default()
    }
}

async fn run(kubeconfig: &Path, count: u32, latency: Duration) -> Result<Measured> {
    let clock = Clock::wall();
    let client = objects::client(kubeconfig).await?;
    let programs = Pair::start(kubeconfig, latency, &clock).await?;
    let machines = Machines {
        api: Api::namespaced(client.clone(), NAMESPACE),
        clock: clock.clone(),
        count,
    };
    class(&client).await?;
    let mcm = programs.mcm.id();

    let start = requests(programs.metrics).await?;
    let (created, joins) = within("run", machines.create()).await?;
    let running = requests(programs.metrics).await?;
    let up_cpu = kernel::cpu_seconds(mcm)?;

    clock.sleep(IDLE).await;
    let rested = requests(programs.metrics).await?;
    let idle_cpu = kernel::cpu_seconds(mcm)? - up_cpu;

    let deleted = within("are gone", machines.delete()).await?;
    let gone = requests(programs.metrics).await?;
    let measured = Measured {
        count: f64::from(count),
        created,
        deleted,
        joins,
        creating: running - start,
        deleting: gone - rested,
        cpu: kernel::cpu_seconds(mcm)? - idle_cpu,
        peak: kernel::peak_mebibytes(mcm)?,
        idle_cpu,
        idle: rested - running,
    };
    programs.stop().await?;
    Ok(measured)
}

async fn within<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = tokio::time::timeout(LIMIT, work).await;
    done.with_context(|| format!("not all machines {what} within {LIMIT:?}"))?
}

/// fakecloud and mcm.
struct Pair {
    mcm: Process,
    fakecloud: Process,
    /// The port of mcm's metrics.
    metrics: u16,
    // Last: the processes above may still read it while they stop.
    _folder: TempDir,
}

impl Pair {
    /// Starts both, and waits until mcm leads.
    async fn start(kubeconfig: &Path, latency: Duration, clock: &Clock) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("drydock-bench-").tempdir()?;
        let config = folder.path().join("fakecloud.yaml");
        std::fs::write(&config, configuration(latency))?;
        let (cloud, metrics) = (free_port()?, free_port()?);
        let log = |name: &str| std::fs::File::create(folder.path().join(name));
        let mut command = Command::new(beside("fakecloud")?);
        command.args(["serve", &format!("--address=127.0.0.1:{cloud}"), "--seed=1"]);
        command
            .arg(flag("--kubeconfig=", kubeconfig))
            .arg(flag("--config=", &config));
        let mut fakecloud = Process::start(command.stdout(log("fakecloud.out")?).stderr(log("fakecloud.log")?))?;
        let mut command = Command::new(beside("mcm")?);
        command.args([
            format!("--driver=grpc://127.0.0.1:{cloud}"),
            format!("--port={metrics}"),
            format!("--namespace={NAMESPACE}"),
            "--address=127.0.0.1".to_owned(),
        ]);
        for cluster in ["--control-kubeconfig=", "--target-kubeconfig="] {
            command.arg(flag(cluster, kubeconfig));
        }
        let mut mcm = Process::start(command.stdout(log("mcm.out")?).stderr(log("mcm.log")?))?;
        let leading = async {
            while !leads(metrics).await {
                fakecloud.alive().context("fakecloud")?;
                mcm.alive().context("mcm")?;
                clock.sleep(START_PROBE).await;
            }
            anyhow::Ok(())
        };
        let led = tokio::time::timeout(START_LIMIT, leading).await;
        led.with_context(|| format!("mcm does not lead after {START_LIMIT:?}"))??;
        Ok(Self {
            mcm,
            fakecloud,
            metrics,
            _folder: folder,
        })
    }

    async fn stop(self) -> Result<()> {
        self.mcm.stop().await?;
        self.fakecloud.stop().await
    }
}

/// A cloud whose VMs boot and stop immediately.
fn configuration(latency: Duration) -> String {
    format!(
        "bootDelay: 0s\nterminationDelay: 0s\ncallLatency: {}ms\nkubelet:\n  startDelay: 0s\n",
        latency.as_millis()
    )
}

/// A flag with a path.
pub fn flag(name: &str, value: &Path) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(name);
    flag.push(value);
    flag
}

/// A program, built in the same profile as this one.
pub fn beside(name: &str) -> Result<PathBuf> {
    let path = Path::new(DRYDOCK).with_file_name(name);
    ensure!(
        path.is_file(),
        "there is no {}: `make bench` builds it, or `cargo build --profile release-fast -p {name}`",
        path.display()
    );
    Ok(path)
}

/// The class of all machines, and its Secret.
async fn class(client: &Client) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "bench" },
        "stringData": { "apiToken": "bench", "userData": "join <<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>" },
    }))?;
    let class: MachineClass = serde_json::from_value(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "bench" },
        "provider": "fakecloud",
        "secretRef": { "name": "bench", "namespace": NAMESPACE },
        "providerSpec": {
            "machineType": "small",
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/bench": "1", "kubernetes.io/role/node": "1" },
        },
    }))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await?;
    let classes: Api<MachineClass> = Api::namespaced(client.clone(), NAMESPACE);
    classes.create(&PostParams::default(), &class).await?;
    Ok(())
}

/// The machines of a world.
struct Machines {
    api: Api<Machine>,
    clock: Clock,
    count: u32,
}

impl Machines {
    /// Seconds from the first creation to the last Running, and from each machine's creation to its own.
    async fn create(&self) -> Result<(f64, Vec<f64>)> {
        let from = self.clock.now();
        let creating = futures::stream::iter(0..self.count).map(|number| async move {
            let machine: Machine = serde_json::from_value(json!({
                "apiVersion": "machine.sapcloud.io/v1alpha1",
                "kind": "Machine",
                "metadata": { "name": name(number) },
                "spec": { "class": { "kind": "MachineClass", "name": "bench" } },
            }))?;
            let at = self.clock.now();
            self.api.create(&PostParams::default(), &machine).await?;
            anyhow::Ok((name(number), at))
        });
        let creating = creating
            .buffer_unordered(AT_ONCE)
            .try_collect::<BTreeMap<String, Timestamp>>();
        let (requested, ran) = tokio::try_join!(creating, self.until_all_run())?;
        let mut joins: Vec<f64> = ran
            .iter()
            .filter_map(|(name, at)| Some(at.duration_since(*requested.get(name)?).as_secs_f64()))
            .collect();
        joins.sort_by(f64::total_cmp);
        let last = ran.values().max().context("no machine runs")?;
        Ok((last.duration_since(from).as_secs_f64(), joins))
    }

    /// When each machine was first observed Running.
    async fn until_all_run(&self) -> Result<BTreeMap<String, Timestamp>> {
        let mut ran = BTreeMap::new();
        let mut events = std::pin::pin!(objects::watch(self.api.clone()));
        while ran.len() < self.count as usize {
            match events.next().await.context("the watch of machines ended")? {
                Event::InitApply(machine) | Event::Apply(machine) => {
                    if machine.status.current_status.phase == Some(Phase::Running) {
                        ran.entry(machine.name_any()).or_insert_with(|| self.clock.now());
                    }
                }
                Event::Init | Event::InitDone | Event::Delete(_) => {}
            }
        }
        Ok(ran)
    }

    /// Seconds from the first deletion until the last machine is gone.
    async fn delete(&self) -> Result<f64> {
        let from = self.clock.now();
        let deleting = futures::stream::iter(0..self.count).map(|number| async move {
            self.api.delete(&name(number), &DeleteParams::default()).await?;
            anyhow::Ok(())
        });
        let deleting = deleting.buffer_unordered(AT_ONCE).try_collect::<()>();
        tokio::try_join!(deleting, self.until_all_are_gone())?;
        Ok(seconds_since(&self.clock, from))
    }

    async fn until_all_are_gone(&self) -> Result<()> {
        let mut left = BTreeSet::new();
        let mut events = std::pin::pin!(objects::watch(self.api.clone()));
        loop {
            match events.next().await.context("the watch of machines ended")? {
                Event::Init => left.clear(),
                Event::InitApply(machine) | Event::Apply(machine) => {
                    left.insert(machine.name_any());
                }
                Event::InitDone if left.is_empty() => return Ok(()),
                Event::InitDone => {}
                Event::Delete(machine) => {
                    left.remove(&machine.name_any());
                    if left.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn name(number: u32) -> String {
    format!("bench-{number}")
}
