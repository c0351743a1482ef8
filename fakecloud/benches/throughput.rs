//! Throughput of a fake cloud: `cargo bench -p fakecloud --bench throughput` creates and deletes ten thousand VMs over
//! gRPC in a process with one core, once with the ledger in memory and once in a folder. It prints calls per second,
//! the 99th percentile, the process's memory, and the time until the process serves. On Linux, with `taskset`.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::ByteString;
use mcm_api::{Machine, MachineClass};
use mcm_driver::client::GrpcDriver;
use mcm_driver::{Driver, MachineRequest};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::Instant;

const VMS: u64 = 10_000;
const CLIENTS: usize = 64;
const STARTS: usize = 20;
/// Timeout of a start.
const LIMIT: Duration = Duration::from_secs(20);

struct Process {
    child: Child,
    address: String,
    started: Duration,
}

async fn start(data: Option<&std::path::Path>) -> Result<Process> {
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        "0",
        env!("CARGO_BIN_EXE_fakecloud"),
        "serve",
        "--without-kubelets",
    ]);
    command.args(["--address=127.0.0.1:0", "--boot-delay=0s", "--seed=1"]);
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    command
        .env("RUST_LOG", "warn")
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let begin = now();
    let mut child = command
        .spawn()
        .context("taskset cannot be started; it is a part of util-linux")?;
    let output = child.stdout.take().context("no standard output")?;
    let mut lines = BufReader::new(output).lines();
    let line = tokio::time::timeout(LIMIT, lines.next_line())
        .await
        .context("it does not serve")??;
    let started = begin.elapsed();
    let line = line.context("it ended")?;
    let address = line
        .strip_prefix("fakecloud serves on ")
        .and_then(|rest| rest.split(';').next());
    let address = format!("grpc://{}", address.context("it prints no address")?);
    Ok(Process {
        child,
        address,
        started,
    })
}

/// The current time, for measuring other processes.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

fn request(index: u64) -> MachineRequest {
    let mut class = MachineClass::default();
    class.metadata.name = Some("pool".to_owned());
    class.provider_spec = json!({
        "machineType": "small", "image": "linux-1", "zone": "local-1",
        "tags": {"kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1"},
    });
    let mut machine = Machine::default();
    machine.metadata.name = Some(format!("machine-{index}"));
    machine.metadata.namespace = Some("default".to_owned());
    machine.metadata.uid = Some(format!("uid-{index}"));
    MachineRequest {
        machine,
        class,
        secret: [("apiToken".to_owned(), ByteString(b"any".to_vec()))].into(),
    }
}

/// Creates or deletes all VMs; returns the duration of each call.
async fn calls(address: &str, create: bool) -> Result<Vec<Duration>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (driver, next) = (GrpcDriver::connect(address)?, Arc::clone(&next));
        clients.spawn(async move {
            let mut took = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= VMS {
                    return Ok::<_, anyhow::Error>(took);
                }
                let begin = now();
                if create {
                    driver.create_machine(request(index)).await?;
                } else {
                    driver.delete_machine(request(index)).await?;
                }
                took.push(begin.elapsed());
            }
        });
    }
    let mut all = Vec::new();
    while let Some(took) = clients.join_next().await {
        all.extend(took??);
    }
    Ok(all)
}

/// Peak memory of the process, in MiB.
fn peak(child: &Child) -> Result<u64> {
    let id = child.id().context("the process has ended")?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).context("/proc, which Linux has, is needed")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024)
}

async fn measure(name: &str, data: Option<&std::path::Path>) -> Result<()> {
    let process = start(data).await?;
    for (what, create) in [("creations", true), ("deletions", false)] {
        let begin = now();
        let mut took = calls(&process.address, create).await?;
        let all = begin.elapsed();
        took.sort();
        if took.len() as u64 != VMS {
            bail!("{} calls succeeded", took.len());
        }
        let p99 = took[took.len() * 99 / 100];
        println!(
            "{name}: {what}: {:.0} calls/s, p99 {:.1} ms, at most {} MiB",
            VMS as f64 / all.as_secs_f64(),
            p99.as_secs_f64() * 1e3,
            peak(&process.child)?
        );
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    // `cargo test --benches` only checks whether this runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(start(None).await?.started);
    }
    starts.sort();
    println!(
        "start to serving: median {:.1} ms, worst of {STARTS} {:.1} ms",
        starts[STARTS / 2].as_secs_f64() * 1e3,
        starts[STARTS - 1].as_secs_f64() * 1e3
    );
    measure("in memory", None).await?;
    let folder = tempfile::tempdir()?;
    measure("in a folder", Some(folder.path())).await
}
