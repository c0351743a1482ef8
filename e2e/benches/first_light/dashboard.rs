//! The cost of the dashboard of `drydock up` while no page is open.

use std::time::Duration;

use anyhow::Result;
use clock::Clock;

use crate::figures::Figures;
use crate::kernel;
use crate::process::Drydock;

/// How long the worlds are measured, and how long they run before that.
const MEASURED: Duration = Duration::from_mins(1);
const WARM: Duration = Duration::from_secs(10);
/// The timeout for the nodes.
const LIMIT: Duration = Duration::from_mins(2);
/// Pairs of worlds.
const PAIRS: usize = 3;
const NODES: u32 = 100;

/// Measures the CPU time of worlds with and without a dashboard. The worlds of a pair run at the same time, so that what
/// else the machine does slows both.
pub async fn measure(figures: &mut Figures) -> Result<()> {
    let mut with = 0.0;
    let mut without = 0.0;
    for _ in 0..PAIRS {
        let nodes = format!("--nodes={NODES}");
        let plain = Folder::world(&[&nodes, "--no-dashboard"]).await?;
        let shown = Folder::world(&[&nodes]).await?;
        let clock = Clock::wall();
        clock.sleep(WARM).await;
        let before = (plain.cpu_seconds()?, shown.cpu_seconds()?);
        clock.sleep(MEASURED).await;
        without += plain.cpu_seconds()? - before.0;
        with += shown.cpu_seconds()? - before.1;
        plain.drydock.process.stop().await?;
        shown.drydock.process.stop().await?;
    }
    #[allow(clippy::cast_precision_loss)]
    let seconds = PAIRS as f64 * MEASURED.as_secs_f64();
    for (name, cpu) in [
        ("with a dashboard that no page shows", with),
        ("without a dashboard", without),
    ] {
        figures.add(format!("{NODES} nodes {name}: CPU"), cpu / seconds, "cores", None);
    }
    figures.add(
        "the dashboard's part of the CPU",
        100.0 * (with / without - 1.0),
        "%",
        None,
    );
    Ok(())
}

/// A running `drydock up` in its own folder, because a folder can have only one.
struct Folder {
    drydock: Drydock,
    _folder: tempfile::TempDir,
}

impl Folder {
    /// Starts a world; returns when its nodes are Ready.
    async fn world(arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut drydock = Drydock::start_in(folder.path(), arguments).await?;
        drydock
            .line_with(&format!("{NODES} of {NODES} nodes Ready"), LIMIT)
            .await?;
        Ok(Self {
            drydock,
            _folder: folder,
        })
    }

    /// The CPU time so far of all its processes.
    fn cpu_seconds(&self) -> Result<f64> {
        kernel::sum(&kernel::family(self.drydock.process.id())?, kernel::cpu_seconds)
    }
}
