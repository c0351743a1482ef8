//! Large scale-ups beside a process that keeps a core busy: mcm must keep its Lease.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use clock::Clock;
use serde_json::json;
use tokio::process::Command;

use crate::figures::Figures;
use crate::kernel;
use crate::process::Process;
use crate::rollout::{World, mcm_of};

/// Scales a deployment to this number of machines and back to none, `runs` times, each time in a new world.
pub async fn measure(figures: &mut Figures, runs: u32, size: u32) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]).stdout(Stdio::null());
    let busy = Process::start(&mut command)?;
    let clock = Clock::wall();
    let (mut longest_up, mut longest_down) = (0.0_f64, 0.0_f64);
    for run in 1..=runs {
        let world = World::start(size).await?;
        world.deployment("roll", 0, 1).await?;
        let (up, _) = world.scaled(&clock, "roll", json!({ "replicas": size }), size).await?;
        let (down, _) = world.scaled(&clock, "roll", json!({ "replicas": 0 }), 0).await?;
        let (now, _) = mcm_of(&kernel::family(world.drydock.process.id())?).context("mcm ended")?;
        ensure!(now == world.mcm, "mcm ended in run {run} and was started again");
        eprintln!("run {run}: up {up:.1} s, down {down:.1} s");
        (longest_up, longest_down) = (longest_up.max(up), longest_down.max(down));
        world.drydock.process.stop().await?;
    }
    busy.kill().await?;
    let name = format!("0 to {size} to 0 machines beside a busy process");
    figures.add(
        format!("{name}: runs in which mcm kept running"),
        runs.into(),
        "runs",
        None,
    );
    figures.add(format!("{name}: longest time up"), longest_up, "s", None);
    figures.add(format!("{name}: longest time down"), longest_down, "s", None);
    Ok(())
}
