//! The program `fuzz`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use clock::Clock;
use fuzz::campaign::{self, Report, Settings};
use fuzz::worker::{self, Work};
use fuzz::{ALL, Target, attack, corpus, mutate, target};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A year.
const MAX_SECONDS: u64 = 31_536_000;

/// Runs mutated inputs against every parser and server of the project.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Runs each target in another process, one for each processor at a time.
    Run {
        /// The targets. None: all.
        targets: Vec<String>,
        /// The time of all targets together, in seconds.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
        seconds: u64,
        /// The number of inputs of each target, instead of the time.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        rounds: Option<u64>,
        /// The seed of all inputs. Absent: the current time in seconds.
        #[arg(long)]
        seed: Option<u64>,
        /// The folder for failing inputs.
        #[arg(long, default_value = ".drydock/fuzz")]
        folder: PathBuf,
    },
    /// Starts `drydock up` and sends classes of hostile requests to it, while it measures how long `/healthz` takes.
    Attack {
        /// The classes. None: all.
        classes: Vec<String>,
        /// The number of requests of each class; classes of heavy requests send fewer.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
        inputs: u64,
        /// The seed of all requests. Absent: the current time in seconds.
        #[arg(long)]
        seed: Option<u64>,
        /// The program that is attacked, with mcm and fakecloud beside it.
        #[arg(long, default_value = "target/debug/drydock")]
        drydock: PathBuf,
    },
    /// Runs one input.
    Replay {
        /// The target.
        target: String,
        /// The file with the input.
        file: PathBuf,
    },
    /// Prints the input of a round, for example of the slowest one.
    Input {
        /// The target.
        target: String,
        /// The seed of all inputs.
        #[arg(long)]
        seed: u64,
        /// The round.
        #[arg(long)]
        round: u64,
    },
    /// The process of a target.
    #[command(hide = true)]
    Worker {
        target: String,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        from: u64,
        #[arg(long)]
        rounds: Option<u64>,
        #[arg(long)]
        milliseconds: u64,
        #[arg(long)]
        progress: PathBuf,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Action::Run {
            targets,
            seconds,
            rounds,
            seed,
            folder,
        } => {
            let targets = named(&targets, &ALL, find)?;
            let settings = Settings {
                seed: seed.unwrap_or_else(from_time),
                time: Duration::from_secs(seconds),
                rounds,
                folder,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run(targets, settings))
        }
        Action::Attack {
            classes,
            inputs,
            seed,
            drydock,
        } => {
            let classes = named(&classes, &attack::ALL, find_class)?;
            let settings = attack::Settings {
                seed: seed.unwrap_or_else(from_time),
                inputs,
                drydock,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run_attack(classes, &settings))
        }
        Action::Replay { target, file } => {
            let input = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            let outcome = worker::replay(find(&target)?, input)?;
            println!("{outcome:?}");
            Ok(ExitCode::SUCCESS)
        }
        Action::Input { target, seed, round } => {
            let target = find(&target)?;
            let input = mutate::input(target.form, &corpus::inputs(target)?, target.name, seed, round);
            std::io::stdout().write_all(&input)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Worker {
            target,
            seed,
            from,
            rounds,
            milliseconds,
            progress,
        } => {
            let work = Work {
                seed,
                from,
                rounds,
                time: Duration::from_millis(milliseconds),
                progress,
            };
            println!("{}", serde_json::to_string(&worker::run(find(&target)?, work)?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn from_time() -> u64 {
    Clock::wall().now().as_second().unsigned_abs()
}

fn find(name: &str) -> anyhow::Result<&'static Target> {
    target(name).ok_or_else(|| unknown("target", name, ALL.iter().map(|target| target.name)))
}

fn find_class(name: &str) -> anyhow::Result<&'static attack::Class> {
    attack::class(name).ok_or_else(|| unknown("class", name, attack::ALL.iter().map(|class| class.name)))
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let known: Vec<&str> = known.collect();
    anyhow::anyhow!("there is no {kind} {name:?}; known: {}", known.join(", "))
}

/// What has these names; all, if there are none.
fn named<T>(
    names: &[String],
    all: &'static [T],
    find: impl Fn(&str) -> anyhow::Result<&'static T>,
) -> anyhow::Result<Vec<&'static T>> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    names.iter().map(|name| find(name)).collect()
}

async fn run_attack(classes: Vec<&'static attack::Class>, settings: &attack::Settings) -> anyhow::Result<ExitCode> {
    println!(
        "seed {}; {} requests of each class, fewer of heavy ones",
        settings.seed, settings.inputs
    );
    for class in &classes {
        println!("  {:<10} {}", class.name, class.tries);
    }
    println!("{}", attack::Report::HEADER);
    let mut passed = true;
    for class in classes {
        let report = attack::run(class, settings).await?;
        println!("{report}");
        for violation in &report.violations {
            println!("  {violation}");
        }
        passed &= report.is_passed();
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(targets: Vec<&'static Target>, mut settings: Settings) -> anyhow::Result<ExitCode> {
    let processors = std::thread::available_parallelism()?.get();
    let turns = targets.len().div_ceil(processors);
    settings.time = match settings.rounds {
        // Only hanging inputs are stopped.
        Some(_) => Duration::from_secs(24 * 3600),
        None => settings.time / u32::try_from(turns)?,
    };
    println!(
        "seed {}; {:?} for each of {} targets",
        settings.seed,
        settings.time,
        targets.len()
    );
    let (settings, places) = (Arc::new(settings), Arc::new(Semaphore::new(processors)));
    let mut running = JoinSet::new();
    for target in targets {
        let (settings, places) = (Arc::clone(&settings), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire().await?;
            let report = campaign::run(target, &settings).await?;
            print(&report);
            Ok::<_, anyhow::Error>(report)
        });
    }
    let (mut executions, mut failures) = (0, 0);
    while let Some(report) = running.join_next().await {
        let report = report??;
        executions += report.executions;
        failures += report.failures.len();
    }
    println!("{executions} executions, {failures} failures");
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(report: &Report) {
    println!("{report}");
    for failure in &report.failures {
        println!("  round {}: {}", failure.round, failure.what);
        println!(
            "  replay: target/debug/fuzz replay {} {}",
            report.target,
            failure.file.display()
        );
    }
}
