//! The process that runs a target's inputs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use clock::Clock;
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use serde::{Deserialize, Serialize};

use crate::target::{execute, on_small_stack};
use crate::{Outcome, Target, corpus, mutate};

/// The memory of a worker, in bytes. An allocation above it ends the process.
pub const MEMORY: u64 = 1 << 30;

/// Longer descriptions of violations are cut off, in characters.
const MESSAGE: usize = 500;

/// What a worker runs.
#[derive(Clone, Debug)]
pub struct Work {
    /// The seed of all inputs.
    pub seed: u64,
    /// The first round.
    pub from: u64,
    /// The number of rounds; `None`: until the time is up.
    pub rounds: Option<u64>,
    /// When to stop.
    pub time: Duration,
    /// The file with the number of the round that runs.
    pub progress: PathBuf,
}

/// What a worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of inputs.
    pub executions: u64,
    /// Those that were accepted.
    pub accepted: u64,
    /// The violation that ended the work, with its round.
    pub violation: Option<(u64, String)>,
    /// The round of the slowest input, and its time.
    pub slowest: (u64, Duration),
    /// The largest resident memory, in KiB.
    pub peak: u64,
}

/// Runs rounds until the time is up or a property is violated.
///
/// # Errors
/// A file cannot be used, or the corpus is empty.
pub fn run(target: &'static Target, work: Work) -> anyhow::Result<Summary> {
    limit_memory()?;
    // Panics are reported by the summary.
    std::panic::set_hook(Box::new(|_| {}));
    let corpus = corpus::inputs(target)?;
    anyhow::ensure!(!corpus.is_empty(), "the corpus of {} is empty", target.name);
    let mut summary = on_small_stack(move || rounds(target, &work, &corpus))??;
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    summary.peak = u64::try_from(usage.max_rss()).unwrap_or(0);
    Ok(summary)
}

fn rounds(target: &Target, work: &Work, corpus: &[Vec<u8>]) -> anyhow::Result<Summary> {
    // It has the first round already, to which a failure of the start counts.
    let progress = File::options().write(true).open(&work.progress)?;
    let clock = Clock::wall();
    let end = clock.now() + work.time;
    let mut runner = (target.start)()?;
    let mut summary = Summary::default();
    let last = work.rounds.map_or(u64::MAX, |rounds| work.from.saturating_add(rounds));
    for round in work.from..last {
        let start = clock.now();
        if start >= end {
            break;
        }
        note(&progress, round)?;
        let input = mutate::input(target.form, corpus, target.name, work.seed, round);
        summary.executions += 1;
        let outcome = execute(&mut runner, &input);
        let time = Duration::try_from(clock.now() - start).unwrap_or_default();
        if time > summary.slowest.1 {
            summary.slowest = (round, time);
        }
        match outcome {
            Ok(Outcome::Accepted) => summary.accepted += 1,
            Ok(Outcome::Refused) => {}
            Err(violation) => {
                summary.violation = Some((round, violation.to_string().chars().take(MESSAGE).collect()));
                break;
            }
        }
    }
    Ok(summary)
}

fn note(progress: &File, round: u64) -> io::Result<()> {
    progress.write_all_at(&round.to_le_bytes(), 0)
}

fn limit_memory() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)
}

/// Runs one input as a worker does.
///
/// # Errors
/// The violated property, or the memory cannot be limited.
pub fn replay(target: &'static Target, input: Vec<u8>) -> anyhow::Result<Outcome> {
    limit_memory()?;
    Ok(on_small_stack(move || execute(&mut (target.start)()?, &input))??)
}
