//! Two days of virtual time with many nodes: memory must not grow.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::Clock;
use tokio::process::Command;

use crate::figures::Figures;
use crate::process::seconds_since;
use crate::{DRYDOCK, kernel};

/// The interval of memory samples.
const SAMPLE: Duration = Duration::from_millis(500);

/// Runs `nodes` nodes that renew their leases for 48 virtual hours.
pub async fn measure(figures: &mut Figures, nodes: u32) -> Result<()> {
    let clock = Clock::wall();
    let from = clock.now();
    let mut child = Command::new(DRYDOCK)
        .args(["idle", "--virtual=48h", &format!("--nodes={nodes}")])
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let id = child.id().context("a process that was just started has no id")?;
    let mut samples = Vec::new();
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = clock.sleep(SAMPLE) => {
                let resident = kernel::family(id).and_then(|family| kernel::sum(&family, kernel::resident_mebibytes));
                // It may have ended in the meantime.
                samples.extend(resident.ok());
            }
        }
    };
    ensure!(status.success(), "drydock idle failed: {status}");
    let seconds = seconds_since(&clock, from);
    // Virtual time passes evenly here: the first tenth is start-up; the rest is compared in halves.
    let steady = samples.get(samples.len() / 10..).unwrap_or_default();
    let (earlier, later) = steady.split_at(steady.len() / 2);
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let label = format!("{nodes} nodes for 48 virtual hours");
    figures.add(format!("{label}, wall time"), seconds, "s", None);
    figures.add(
        format!("{label}, virtual over real"),
        48.0 * 3600.0 / seconds,
        "times",
        None,
    );
    figures.add(
        format!("{label}, peak of memory in the first half"),
        most(earlier),
        "MiB",
        None,
    );
    figures.add(
        format!("{label}, growth in the second half"),
        (most(later) / most(earlier) - 1.0) * 100.0,
        "%",
        None,
    );
    Ok(())
}
