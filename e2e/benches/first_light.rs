//! `make bench`: speed and size of the programs, as users experience them.
//!
//! All figures come from real processes: the benchmark starts them, sends requests over HTTPS, and reads their
//! CPU time and memory from the kernel. If an etcd and a kube-apiserver are available, they get the same load
//! in the same run. The sections are modules; `docs/reference/benchmarks.md` explains the figures.

#[path = "first_light/dashboard.rs"]
mod dashboard;
#[path = "first_light/endurance.rs"]
mod endurance;
#[path = "first_light/figures.rs"]
mod figures;
#[path = "first_light/health_check.rs"]
mod health_check;
#[path = "first_light/health_check_process.rs"]
mod health_check_process;
#[path = "first_light/kernel.rs"]
mod kernel;
#[path = "first_light/load.rs"]
mod load;
#[path = "first_light/machines.rs"]
mod machines;
#[path = "first_light/metrics.rs"]
mod metrics;
#[path = "first_light/objects.rs"]
mod objects;
#[path = "first_light/peer.rs"]
mod peer;
#[path = "first_light/pressure.rs"]
mod pressure;
#[path = "first_light/process.rs"]
mod process;
#[path = "first_light/report.rs"]
mod report;
#[path = "first_light/rollout.rs"]
mod rollout;
#[path = "first_light/simulation.rs"]
mod simulation;
#[path = "first_light/start.rs"]
mod start;
#[path = "first_light/world.rs"]
mod world;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;

use figures::Figures;

/// The program under test, built in the same profile as this one.
const DRYDOCK: &str = env!("CARGO_BIN_EXE_drydock");
/// The timeout of a section; all of them together stay well below the sum.
const SECTION_LIMIT: Duration = Duration::from_secs(300);
/// The same for the long section.
const ENDURANCE_LIMIT: Duration = Duration::from_mins(120);
/// The same for rollouts of many machines.
const ROLLOUT_LIMIT: Duration = Duration::from_mins(40);
/// The same for one run beside a busy process.
const RUN_LIMIT: Duration = Duration::from_mins(4);
/// The same for the section that creates machines several times, on both sides.
const MACHINES_LIMIT: Duration = Duration::from_mins(40);
/// The same for worlds with and without a dashboard.
const DASHBOARD_LIMIT: Duration = Duration::from_mins(15);
/// The machines of a health check in the section health.
const HEALTH_CHECKED: u32 = 10_000;
const SECTIONS: [&str; 11] = [
    "start",
    "api",
    "sim",
    "report",
    "world",
    "machine",
    "rollout",
    "health",
    "dashboard",
    "pressure",
    "endurance",
];

/// Measures start, API, simulation, worlds with many nodes, and machines.
#[derive(Debug, Parser)]
#[command(name = "first_light")]
struct Arguments {
    /// Only the sections whose name contains one of these: start, api, sim, report, world, machine, rollout, health,
    /// dashboard, pressure, endurance
    filters: Vec<String>,

    /// Writes the figures as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Objects of each kind in the section api
    #[arg(long, value_name = "COUNT", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    objects: u32,

    /// Nodes in the section world; half as many in the section endurance
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    nodes: u32,

    /// Machines in the section machine, of which five times as many rest in the last of its worlds, and of the large
    /// deployment in the section rollout, where 100 are the only one
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=2_000))]
    machines: u32,

    /// Runs in the section pressure
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// Skips the peer, even if it is available
    #[arg(long)]
    no_peer: bool,

    /// What `cargo bench` passes; changes nothing
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let chosen = |section: &str| {
        arguments.filters.is_empty() || arguments.filters.iter().any(|filter| section.contains(filter.as_str()))
    };
    if !SECTIONS.into_iter().any(chosen) {
        bail!("no section matches; there are {}", SECTIONS.join(", "));
    }
    let peer = if arguments.no_peer { None } else { peer::find() };
    match &peer {
        Some(programs) => eprintln!("peer: {}", programs.version()?),
        None => eprintln!("peer: not available; DRYDOCK_PEER_BIN names a folder with etcd and kube-apiserver"),
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut figures = Figures::default();
    runtime.block_on(async {
        let peer = peer.as_ref();
        if chosen("start") {
            bounded("start", SECTION_LIMIT, start::measure(&mut figures, peer)).await?;
        }
        if chosen("api") {
            bounded(
                "api",
                SECTION_LIMIT,
                Box::pin(load::measure(&mut figures, peer, arguments.objects as usize)),
            )
            .await?;
        }
        if chosen("sim") {
            bounded("sim", SECTION_LIMIT, simulation::measure(&mut figures)).await?;
        }
        if chosen("report") {
            bounded("report", SECTION_LIMIT, report::measure(&mut figures)).await?;
        }
        if chosen("world") {
            let measured = Box::pin(world::measure(&mut figures, arguments.nodes));
            bounded("world", SECTION_LIMIT, measured).await?;
        }
        if chosen("machine") {
            let measured = Box::pin(machines::measure(&mut figures, peer, arguments.machines));
            bounded("machine", MACHINES_LIMIT, measured).await?;
        }
        if chosen("rollout") {
            let large = arguments.machines > 100;
            let sizes = if large {
                vec![100, arguments.machines]
            } else {
                vec![100]
            };
            let measured = Box::pin(rollout::measure(&mut figures, &sizes, large));
            bounded("rollout", ROLLOUT_LIMIT, measured).await?;
        }
        if chosen("health") {
            let measured = async {
                health_check::measure(&mut figures, HEALTH_CHECKED)?;
                health_check_process::measure(&mut figures, HEALTH_CHECKED).await
            };
            bounded("health", SECTION_LIMIT, Box::pin(measured)).await?;
        }
        if chosen("dashboard") {
            bounded("dashboard", DASHBOARD_LIMIT, Box::pin(dashboard::measure(&mut figures))).await?;
        }
        if chosen("pressure") {
            let measured = Box::pin(pressure::measure(&mut figures, arguments.runs, arguments.machines));
            bounded("pressure", RUN_LIMIT * arguments.runs, measured).await?;
        }
        if chosen("endurance") {
            let measured = endurance::measure(&mut figures, arguments.nodes / 2);
            bounded("endurance", ENDURANCE_LIMIT, measured).await?;
        }
        anyhow::Ok(())
    })?;

    print!("{figures}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, figures.json()?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Runs a section; everything that it started ends with it.
async fn bounded(section: &str, limit: Duration, work: impl Future<Output = Result<()>>) -> Result<()> {
    eprintln!("measuring {section}");
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.with_context(|| format!("section {section}")),
        Err(_) => bail!("section {section} took longer than {limit:?}"),
    }
}
