//! Compares the health checks of Drydock with those of Cluster API: each plan runs on both, with the same policy and the same
//! faults, and the table says which machines each controller marked, and when.
//!
//! Each side has an embedded API server, a fakecloud and its controller: `mcm`, or the core controllers of Cluster API with the
//! infrastructure provider of this crate. `docs/reference/cluster-api.md` has the results and the reasons of differences.

mod apply;
mod faults;
mod kinds;
mod observe;
mod plan;
mod process;
mod provider;
mod proxy;
mod side;
mod table;
mod watch;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use clock::Clock;
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::observe::History;
use self::plan::Plan;
use self::side::Side;
use self::table::Row;
use self::watch::Watch;
use self::world::{Programs, World};

/// The time before the first fault: for a minute after its start, the check of Drydock requests nothing.
const SETTLES: Duration = Duration::from_secs(65);

/// Runs plans on Drydock and on Cluster API, and prints what each did.
#[derive(Debug, Parser)]
struct Arguments {
    /// Names of plans; all without any
    plans: Vec<String>,
    /// The folder of plans
    #[arg(long, value_name = "FOLDER", default_value = "integrations/capi/plans")]
    folder: PathBuf,
    /// The folder of drydock, fakecloud and mcm
    #[arg(long, value_name = "FOLDER", default_value = "target/debug")]
    programs: PathBuf,
    /// The folder that integrations/capi/build prints
    #[arg(long, value_name = "FOLDER")]
    cluster_api: PathBuf,
    /// The number of plans that run at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    jobs: usize,
    /// The folder for logs
    #[arg(long, value_name = "FOLDER", default_value = "target/capi")]
    logs: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::builder()
                .with_default_directive(LevelFilter::OFF.into())
                .from_env_lossy(),
        )
        .with_writer(std::io::stderr)
        .init();
    let mut terminated = signal(SignalKind::terminate())?;
    // Dropping a world ends its processes.
    tokio::select! {
        code = compare(arguments) => code,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        _ = terminated.recv() => Ok(ExitCode::from(143)),
    }
}

/// Runs the plans and prints the table; success: every outcome is as its plan expects.
async fn compare(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let programs = Programs {
        drydock: arguments.programs,
        capi: arguments.cluster_api.join("cluster-api"),
        capi_definitions: arguments.cluster_api.join("definitions"),
    };
    let plans = read(&arguments.folder, &arguments.plans)?;
    let run = |plan| on_both_sides(plan, &programs, &arguments.logs);
    let rows = futures::stream::iter(plans).map(run).buffered(arguments.jobs.max(1));
    let rows: Vec<Row> = rows.try_collect().await?;
    println!("{}", table::table(&rows).trim_end());
    let unexpected: Vec<String> = rows.iter().flat_map(Row::unexpected).collect();
    for text in &unexpected {
        eprintln!("{text}");
    }
    eprintln!("{} passed, {} failed", rows.len() - failed(&rows), failed(&rows));
    Ok(if unexpected.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn failed(rows: &[Row]) -> usize {
    rows.iter().filter(|row| !row.unexpected().is_empty()).count()
}

/// The plans of these names in a folder, in the order of names.
fn read(folder: &Path, names: &[String]) -> anyhow::Result<Vec<Plan>> {
    let files = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut plans = Vec::new();
    for file in files {
        let path = file?.path();
        plans.push(Plan::parse(
            &path.display().to_string(),
            &std::fs::read_to_string(&path)?,
        )?);
    }
    plans.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(unknown) = names.iter().find(|name| plans.iter().all(|plan| plan.name != **name)) {
        let known: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        anyhow::bail!("there is no plan {unknown}; there are: {}", known.join(", "));
    }
    plans.retain(|plan| names.is_empty() || names.contains(&plan.name));
    Ok(plans)
}

/// Runs a plan on both sides at the same time.
async fn on_both_sides(plan: Plan, programs: &Programs, logs: &Path) -> anyhow::Result<Row> {
    eprintln!("{}: {}", plan.name, plan.about);
    let logs = logs.join(&plan.name);
    let (cluster_api, drydock) = tokio::try_join!(
        run(Side::ClusterApi, &plan, programs, &logs),
        run(Side::Drydock, &plan, programs, &logs),
    )
    .with_context(|| plan.name.clone())?;
    Ok(Row {
        plan,
        cluster_api,
        drydock,
    })
}

/// Runs a plan on one side.
async fn run(side: Side, plan: &Plan, programs: &Programs, logs: &Path) -> anyhow::Result<History> {
    let clock = Clock::wall();
    let mut world = World::start(side, plan, programs, logs, clock.clone()).await?;
    clock.sleep(SETTLES).await;
    let mut machines: Vec<String> = world.machines().await?.iter().map(ResourceExt::name_any).collect();
    machines.sort();
    let mut history = History::new(&machines);
    let mut watch = Watch::new(&world);
    let begin = clock.now();
    let end = begin.checked_add(plan.duration())?;
    let mut faults = plan.faults.iter().peekable();
    loop {
        let next = faults.peek().map(|fault| begin.checked_add(fault.at.0)).transpose()?;
        tokio::select! {
            biased;
            () = clock.sleep_until(next.unwrap_or(end).min(end)) => {}
            states = watch.next() => {
                let elapsed = Duration::try_from(clock.now().duration_since(begin))?;
                history.add(elapsed, states?);
                continue;
            }
        }
        world.check_processes()?;
        match faults.next_if(|_| next.is_some_and(|at| at <= end)) {
            Some(fault) => faults::perform(&world, fault, &machines).await?,
            None => return Ok(history),
        }
    }
}
