//! Runs each target in another process, and writes the inputs that end them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{fmt, fs, io};

use clock::Clock;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::target::on_small_stack;
use crate::worker::Summary;
use crate::{Target, corpus, mutate};

/// The longest time of one input.
const LIMIT: Duration = Duration::from_secs(20);
/// How often the progress of a worker is checked.
const CHECK: Duration = Duration::from_millis(500);
/// A target with that many failures is stopped.
const MAX_FAILURES: usize = 5;

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all inputs.
    pub seed: u64,
    /// The time of each target.
    pub time: Duration,
    /// The number of rounds of each target; `None`: until the time is up.
    pub rounds: Option<u64>,
    /// Where failing inputs are written.
    pub folder: PathBuf,
}

/// An input that violates a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its round.
    pub round: u64,
    /// What happened.
    pub what: String,
    /// The file with the input.
    pub file: PathBuf,
}

/// The result of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The target's name.
    pub target: &'static str,
    /// The seed of all inputs.
    pub seed: u64,
    /// The number of inputs in the corpus.
    pub corpus: usize,
    /// The number of executed inputs.
    pub executions: u64,
    /// Those that were accepted.
    pub accepted: u64,
    /// The round of the slowest input, and its time.
    pub slowest: (u64, Duration),
    /// The largest resident memory of a worker, in KiB.
    pub peak: u64,
    /// The failures.
    pub failures: Vec<Failure>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<10} seed {} corpus {:>3} executions {:>9} accepted {:>9} slowest {:>6} ms (round {}) peak {:>5} MiB failures {}",
            self.target,
            self.seed,
            self.corpus,
            self.executions,
            self.accepted,
            self.slowest.1.as_millis(),
            self.slowest.0,
            self.peak / 1024,
            self.failures.len(),
        )
    }
}

/// Runs a target.
///
/// # Errors
/// A process cannot be started, or a file cannot be written.
pub async fn run(target: &'static Target, settings: &Settings) -> anyhow::Result<Report> {
    // The seeds of some targets call `block_on`, which panics on a thread of this runtime.
    let inputs = on_small_stack(move || corpus::inputs(target))??;
    let mut report = Report {
        target: target.name,
        seed: settings.seed,
        corpus: inputs.len(),
        executions: 0,
        accepted: 0,
        slowest: (0, Duration::ZERO),
        peak: 0,
        failures: Vec::new(),
    };
    fs::create_dir_all(&settings.folder)?;
    let scratch = TempDir::new()?;
    let progress = scratch.path().join("round");
    let clock = Clock::wall();
    let end = clock.now() + settings.time;
    let mut from = 0;
    loop {
        let left = clock.until(end);
        let rounds = settings.rounds.map(|rounds| rounds.saturating_sub(from));
        if left.is_zero() || rounds == Some(0) {
            break;
        }
        fs::write(&progress, from.to_le_bytes())?;
        // Not its path: a build may replace the file while the targets run.
        let mut command = Command::new("/proc/self/exe");
        command.args(["worker", target.name, "--progress"]).arg(&progress);
        command.args(["--seed", &settings.seed.to_string(), "--from", &from.to_string()]);
        command.args(["--milliseconds", &left.as_millis().to_string()]);
        if let Some(rounds) = rounds {
            command.args(["--rounds", &rounds.to_string()]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let (round, summary, what) = watch(command.spawn()?, &progress, &clock).await?;
        report.executions += summary.as_ref().map_or(round + 1 - from, |summary| summary.executions);
        let summary = summary.unwrap_or_default();
        report.accepted += summary.accepted;
        report.peak = report.peak.max(summary.peak);
        if summary.slowest.1 > report.slowest.1 {
            report.slowest = summary.slowest;
        }
        let Some(what) = what.or(summary.violation.map(|(_, what)| what)) else {
            break;
        };
        let file = settings
            .folder
            .join(format!("{}-{}-{round}", target.name, settings.seed));
        fs::write(
            &file,
            mutate::input(target.form, &inputs, target.name, settings.seed, round),
        )?;
        report.failures.push(Failure { round, what, file });
        if report.failures.len() == MAX_FAILURES {
            break;
        }
        from = round + 1;
    }
    Ok(report)
}

/// Waits for a worker. Returns its last round, its summary if it ended by itself, and otherwise the reason.
async fn watch(child: Child, progress: &Path, clock: &Clock) -> anyhow::Result<(u64, Option<Summary>, Option<String>)> {
    let mut since = (read(progress)?, clock.now());
    let ended = child.wait_with_output();
    tokio::pin!(ended);
    let output = loop {
        tokio::select! {
            output = &mut ended => break output?,
            () = clock.sleep(CHECK) => {
                let round = read(progress)?;
                if round != since.0 {
                    since = (round, clock.now());
                } else if clock.until(since.1 + LIMIT).is_zero() {
                    // Dropping the future kills the process.
                    return Ok((round, None, Some(format!("takes longer than {} s", LIMIT.as_secs()))));
                }
            }
        }
    };
    let round = read(progress)?;
    match serde_json::from_slice::<Summary>(&output.stdout) {
        Ok(summary) if output.status.success() => Ok((round, Some(summary), None)),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
            Ok((
                round,
                None,
                Some(format!("the process ended: {}: {last}", output.status)),
            ))
        }
    }
}

fn read(progress: &Path) -> io::Result<u64> {
    let bytes = fs::read(progress)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}
