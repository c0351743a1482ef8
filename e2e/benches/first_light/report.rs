//! The report of a failed run: its size, and the time until it is written.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clock::Clock;
use tokio::process::Command;

use crate::DRYDOCK;
use crate::figures::Figures;
use crate::process::seconds_since;
use crate::start::quantile;

/// Repetitions.
const RUNS: usize = 25;
/// A known bug, and the folder of its report.
const FAILS: [&str; 6] = [
    "run",
    "r04-lost-lease",
    "--stage=sim",
    "--seed=1",
    "--mutant=R04",
    "--jobs=1",
];
const REPORT: &str = ".drydock/reports/sim-r04-lost-lease-1";

/// Lets a run fail, and writes its report repeatedly.
pub async fn measure(figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let failed = drydock(folder.path(), &FAILS).await?;
    ensure!(failed == Some(1), "the run does not fail: {failed:?}");
    let clock = Clock::wall();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (arguments, times) in [&["--version"][..], &["report", REPORT]].iter().zip(&mut times) {
            let from = clock.now();
            let ended = drydock(folder.path(), arguments).await?;
            ensure!(ended == Some(0), "drydock {arguments:?} fails: {ended:?}");
            times.push(seconds_since(&clock, from));
        }
    }
    let [start, all] = times.map(|mut times| quantile(&mut times, 0.5).unwrap_or_default() * 1000.0);
    let bytes = std::fs::metadata(folder.path().join(REPORT).join("report.html"))
        .context("the report")?
        .len();
    #[allow(clippy::cast_precision_loss)]
    let kilobytes = bytes as f64 / 1000.0;
    figures.add("report of a failed run: size", kilobytes, "kB", None);
    figures.add(
        "report of a failed run: read and written, median",
        all - start,
        "ms",
        None,
    );
    figures.add(
        "report of a failed run: the same with the start of the process",
        all,
        "ms",
        None,
    );
    Ok(())
}

/// Runs a command in a folder. Returns its exit code.
async fn drydock(folder: &Path, arguments: &[&str]) -> Result<Option<i32>> {
    let output = Command::new(DRYDOCK)
        .args(arguments)
        .current_dir(folder)
        .output()
        .await?;
    Ok(output.status.code())
}
