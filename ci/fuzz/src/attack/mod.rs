//! Attacks on a running system: classes of hostile requests over HTTPS to `drydock up`, while another thread measures how long
//! `/healthz` takes.
//!
//! A class fails if a process ends, a request ends with an internal error or without a response, a right is gained, or
//! `/healthz` is late.

mod classes;
mod client;
mod probe;
mod system;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clock::{Clock, Seed};
use futures::{StreamExt as _, stream};

pub use self::classes::{ALL, Class};
use self::client::{Client, Count};
use self::probe::Probe;
use self::system::System;

/// The rounds that run at the same time.
const AT_ONCE: usize = 16;
/// A later response to `/healthz` is a failure.
pub const LATEST_HEALTH: Duration = Duration::from_secs(1);
/// How long the controllers get to process the last objects of a class.
const SETTLE: Duration = Duration::from_secs(2);
/// The number of violations of a class that are described.
const DESCRIBED: usize = 5;

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all requests.
    pub seed: u64,
    /// The number of requests of a class, at least. Classes of heavy requests send fewer.
    pub inputs: u64,
    /// The program `drydock`, with `mcm` and `fakecloud` beside it.
    pub drydock: PathBuf,
}

/// The result of a class.
#[derive(Clone, Debug)]
pub struct Report {
    /// The class.
    pub class: &'static str,
    /// The responses.
    pub count: Count,
    /// The longest time until a response to `/healthz`.
    pub health: Duration,
    /// The number of measurements of it.
    pub probes: u64,
    /// The largest resident memory of the API server and of mcm, in KiB.
    pub peak: [u64; 2],
    /// Descriptions of violated properties.
    pub violations: Vec<String>,
}

impl Report {
    /// The first line of a table of reports.
    pub const HEADER: &'static str =
        "class       inputs accepted refused   busy violations  /healthz max  peak of server   of mcm";

    /// Whether every property held.
    pub fn is_passed(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<10} {:>7} {:>8} {:>7} {:>6} {:>10} {:>10} ms {:>11} MiB {:>4} MiB",
            self.class,
            self.count.inputs,
            self.count.accepted,
            self.count.refused,
            self.count.busy,
            self.violations.len(),
            self.health.as_millis(),
            self.peak[0] / 1024,
            self.peak[1] / 1024,
        )
    }
}

/// Starts a system and runs a class against it.
///
/// # Errors
/// The system does not start, or an object of the class cannot be created.
pub async fn run(class: &'static Class, settings: &Settings) -> anyhow::Result<Report> {
    let system = System::start(&settings.drydock)?;
    let client = Client::new(system.kubeconfig()).await?;
    for prepared in (class.prepare)() {
        client.prepare(prepared).await?;
    }
    let before = system.processes();
    before.reset_peaks()?;
    let probe = Probe::start(system.kubeconfig().to_owned(), client.in_flight());
    let (seed, rounds) = (Seed::new(settings.seed).child(class.name), settings.inputs / class.cost);
    let count = stream::iter(0..rounds.max(1))
        .map(|round| {
            let requests = (class.requests)(&mut seed.stream(&format!("round/{round}")), round);
            client.send_all(round, requests)
        })
        .buffer_unordered(AT_ONCE)
        .fold(Count::default(), async |all, count| all.and(count))
        .await;
    Clock::wall().sleep(SETTLE).await;
    let (health, probes, late) = probe.end();
    let mut violations: Vec<String> = count.violations.iter().take(DESCRIBED).cloned().collect();
    if count.inputs == 0 {
        violations.push("no request was sent".to_owned());
    }
    violations.extend(late);
    violations.extend(
        system
            .ended()
            .into_iter()
            .map(|line| format!("a process ended: {line}")),
    );
    for path in class.still_served {
        violations.extend(client.is_served(path).await.err());
    }
    violations.extend(client.panics().await?);
    Ok(Report {
        class: class.name,
        count,
        health,
        probes,
        peak: system.processes().peaks(),
        violations,
    })
}

/// The class with that name.
pub fn class(name: &str) -> Option<&'static Class> {
    ALL.iter().find(|class| class.name == name)
}
