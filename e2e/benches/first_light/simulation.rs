//! Virtual time: its ratio to wall time, and the resulting number of seeds a minute.

use anyhow::{Context, Result, ensure};
use clock::Clock;
use serde::Deserialize;
use tokio::process::Command;

use crate::DRYDOCK;
use crate::figures::Figures;
use crate::process::seconds_since;

const SCENARIOS: [&str; 4] = ["lifecycle", "vm_dies", "create_errors", "kubelet_pause"];
const SEEDS: u32 = 50;

/// The relevant part of the JSON result.
#[derive(Deserialize)]
struct Results {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    stage_seconds: f64,
    wall_seconds: f64,
}

/// Runs the scenarios one at a time, the long idle run, and many seeds in parallel.
pub async fn measure(figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("results.json");
    let mut one_by_one = command("run");
    one_by_one
        .args(SCENARIOS)
        .args(["--stage=sim", "--seed=7", "--jobs=1", "--json"])
        .arg(&json);
    run(&mut one_by_one).await?;
    let results: Results = serde_json::from_slice(&std::fs::read(&json)?).context("the JSON result")?;
    let sum = |of: fn(&Run) -> f64| results.runs.iter().map(of).sum::<f64>();
    let (stage, wall) = (sum(|run| run.stage_seconds), sum(|run| run.wall_seconds));
    figures.add("four scenarios, virtual time", stage / 60.0, "min", None);
    figures.add("four scenarios, wall time", wall, "s", None);
    figures.add("four scenarios, virtual over real", stage / wall, "times", None);

    let idle_seconds = run(command("idle").arg("--virtual=72h")).await?;
    figures.add("idle for 72 virtual hours, wall time", idle_seconds, "s", None);
    figures.add(
        "idle for 72 virtual hours, virtual over real",
        72.0 * 3600.0 / idle_seconds,
        "times",
        None,
    );

    let mut many = command("run");
    many.args(SCENARIOS).args(["--stage=sim", &format!("--seeds={SEEDS}")]);
    let seconds = run(&mut many).await?;
    figures.add(
        "seeds a minute, four scenarios each",
        f64::from(SEEDS) / seconds * 60.0,
        "seeds",
        None,
    );
    Ok(())
}

fn command(name: &str) -> Command {
    let mut command = Command::new(DRYDOCK);
    command.arg(name).kill_on_drop(true);
    command
}

/// Runs a command that must succeed; returns its seconds, including process start.
async fn run(command: &mut Command) -> Result<f64> {
    let clock = Clock::wall();
    let from = clock.now();
    let output = command.output().await?;
    let seconds = seconds_since(&clock, from);
    ensure!(
        output.status.success(),
        "{:?} failed:\n{}{}",
        command.as_std(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(seconds)
}
