//! The command line as a library: the program `drydock` passes its scenarios.
//!
//! These modules parse arguments, print output and set the exit status.

mod apiserver;
mod availability;
mod chaos;
mod completion;
mod crash;
mod dashboard;
mod data_folder;
mod demo;
mod diff;
mod doctor;
#[cfg(test)]
mod documents;
mod driver;
mod durations;
mod example;
mod faults;
mod files;
mod finding;
mod health;
mod idle;
mod init;
mod jobs;
mod leftovers;
mod list;
mod man;
mod nodes;
mod open_files;
mod output;
mod perform;
mod play;
mod populate;
mod progress;
mod regressions;
mod report;
mod reports;
mod run;
mod running_world;
mod schema;
mod service_addresses;
mod session;
mod shrink;
mod stage;
mod stale;
mod step;
mod up;
mod validate;

use std::process::ExitCode;

use ::runtime::signals::Termination;
use clap::{Parser, Subcommand};
use scenario::Scenario;
use scenario::closest::similar;
use terminal::{OutputFlags, failure_on_stderr};
use tokio::runtime::Runtime;

use crate::regression::Entry;

/// Starts a Kubernetes control plane, a fake cloud and a machine controller, and breaks things until the
/// controller is trusted.
#[derive(Debug, Parser)]
#[command(name = "drydock", version, about, propagate_version = true, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scenarios
    Run(run::Run),
    /// Starts a control plane, fakecloud and mcm for interactive use; Ctrl-C ends them
    Up(up::Up),
    /// Shows a simulated world in the browser: pause it, go on by single events, at a speed or to the next violation; Ctrl-C ends it
    Play(play::PlayCommand),
    /// Shows in ten seconds how a failed machine is kept for analysis, released and replaced
    Demo(demo::Demo),
    /// Starts only a control plane, ready in milliseconds, for tests in any language; Ctrl-C ends it
    Apiserver(apiserver::Apiserver),
    /// Lists, breaks and mends the nodes of a running `drydock up`
    Nodes(nodes::Nodes),
    /// Adds, lists and removes fault rules of a running API server of drydock
    Faults(faults::Faults),
    /// Creates a first scenario, a plan, make targets and a GitHub workflow for your controller or for mcm
    Init(init::Init),
    /// Lists the scenarios and where they run
    List(list::List),
    /// Prints a scenario as the YAML file that `drydock run --file` reads
    Show(list::Show),
    /// Prints an example object of mcm's API
    Example(example::ExampleCommand),
    /// Checks files without running anything
    Validate(validate::Validate),
    /// Prints the JSON Schema of scenarios, plans, fault rules, fakecloud's configuration or records
    Schema(schema::SchemaCommand),
    /// Tests drivers of clouds against the contract
    Driver(driver::DriverCommand),
    /// Reports which stages can run here, and what is missing for the others
    Doctor(doctor::Doctor),
    /// Crashes the controller at every effect of a scenario, before and after it
    ///
    /// An effect is a write to the API server or a cloud call. Every run must pass and have the same final state as the
    /// undisturbed run: the same objects, VMs and Secrets. Differences between two undisturbed runs with different
    /// seeds are learned, printed and ignored; only times, uids, revisions and random suffixes of names may differ. Of
    /// the writes to mcm's own Lease only the creation and the first renewal are crash points: all later renewals are
    /// equivalent, and a scenario of hours has thousands of them. mcm runs in virtual time, a controller of your own
    /// (`--controller`) on the wall clock.
    Crash(crash::CrashCommand),
    /// Performs random plans: worlds, users and faults drawn from many seeds, in virtual time
    ///
    /// In each plan machines are created and deleted while processes crash, pause and observe late, and the cloud, VMs
    /// and kubelets fail. Then all faults end, and the world must reach its desired state. Invariants hold all the
    /// time. A failing seed leaves its plan, which `drydock run --plan` repeats and `drydock shrink` reduces.
    Chaos(chaos::ChaosCommand),
    /// Runs a controller while what it sees is old, and reports writes that later changes contradict
    ///
    /// The embedded API server compares each write of the controller with what it had sent the controller. The report has
    /// the stale writes, and a row for each lag: how many writes were stale, how many a change contradicts, and how many
    /// objects there were too many or too few. docs/using/stale-writes.md has the rules.
    Stale(stale::StaleCommand),
    /// Runs every known bug of the corpus with and without its mutant: each mutant must be detected, and mcm must pass
    Regressions(regressions::Regressions),
    /// Reduces a failing plan to the minimum that still fails
    Shrink(shrink::ShrinkCommand),
    Report(report::ReportCommand),
    Diff(diff::DiffCommand),
    Step(step::StepCommand),
    Reports(reports::Reports),
    /// Runs one idle machine, and optionally other nodes, for a long virtual time
    Idle(idle::Idle),
    /// Prints a script that completes the command line in a shell
    Completion(completion::Completion),
    /// Writes man pages into a folder
    Man(man::Man),
    /// Performs one job, read from standard input as JSON
    #[command(hide = true)]
    Perform(perform::Perform),
    /// Executes another program that ends together with the parent of this process
    #[command(hide = true)]
    Tether(::stage::child::Tether),
}

impl Command {
    /// Whether it may create a kind cluster; `None`: it creates no world at all.
    fn creates(&self) -> Option<bool> {
        match self {
            Self::Run(run) => Some(run.is_on_kind()),
            Self::Up(up) => Some(up.is_on_kind()),
            Self::Crash(_)
            | Self::Chaos(_)
            | Self::Stale(_)
            | Self::Regressions(_)
            | Self::Shrink(_)
            | Self::Idle(_) => Some(false),
            Self::Apiserver(_) | Self::Demo(_) | Self::Play(_) => Some(false),
            Self::Nodes(_) | Self::Faults(_) | Self::List(_) | Self::Show(_) | Self::Driver(_) => None,
            Self::Init(_)
            | Self::Report(_)
            | Self::Diff(_)
            | Self::Step(_)
            | Self::Reports(_)
            | Self::Example(_)
            | Self::Validate(_)
            | Self::Schema(_) => None,
            Self::Doctor(_) | Self::Completion(_) | Self::Man(_) | Self::Perform(_) | Self::Tether(_) => None,
        }
    }
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Exit status 0.
    Passed,
    /// Exit status 1.
    Failed,
    /// It was interrupted, and has reported its partial results.
    Interrupted(Interrupt),
}

impl Outcome {
    /// The outcome of an interrupted command, if it was interrupted.
    fn or_interrupted(self, interrupt: Option<Interrupt>) -> Self {
        interrupt.map_or(self, Self::Interrupted)
    }

    fn status(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Interrupted(interrupt) => interrupt.status(),
        }
    }
}

/// Why a command has no outcome.
#[derive(Debug)]
enum Stop {
    /// An invalid command line or file, or an environment in which the command cannot be executed: exit status 2.
    Usage(String),
    /// This machine cannot run the stage: exit status 3.
    Unavailable(String),
    /// It was interrupted before it had a result.
    Interrupted(Interrupt),
    /// Its work was cancelled, because of an interrupt or of an error elsewhere.
    Cancelled,
}

impl Stop {
    fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Unavailable(_) => 3,
            Self::Interrupted(interrupt) => interrupt.status(),
            Self::Cancelled => Interrupt::CTRL_C.status(),
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(message) | Self::Unavailable(message) => f.write_str(message),
            Self::Interrupted(_) | Self::Cancelled => f.write_str("interrupted"),
        }
    }
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Usage(error.to_string())
    }
}

type Ended = Result<Outcome, Stop>;

/// A signal that ends a program, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interrupt(i32);

impl Interrupt {
    /// SIGINT.
    const CTRL_C: Self = Self(2);

    /// The exit status of a program that such a signal ends: 130 after Ctrl-C, 143 after SIGTERM.
    fn status(self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(130)
    }
}

/// Explains the exit status in `--help`.
const EXIT_STATUS: &str = "Exit status: 0 passed, 1 failures, 2 wrong usage, 3 stage not available, 130 or 143 \
                           interrupted";

/// Parses and executes the command line. Exit status: 0 passed, 1 failures, 2 wrong usage, 3 stage not available,
/// 128 + N interrupted by signal N.
///
/// `corpus` returns the known bugs, whose scenarios can be run by name like others. Both functions are called only if
/// needed.
pub fn main(scenarios: fn() -> Vec<Scenario>, corpus: fn() -> Vec<Entry>) -> ExitCode {
    let arguments = match terminal::parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    arguments.output.apply();
    if let Some(on_kind) = arguments.command.creates() {
        leftovers::remove_before_start(on_kind);
    }
    let ended = match arguments.command {
        Command::Run(run) => {
            let mut scenarios = scenarios();
            if run.names_scenarios() {
                scenarios.extend(cases_of(corpus()));
            }
            run.execute(scenarios)
        }
        Command::Play(play) => {
            let mut scenarios = scenarios();
            if play.names_scenario() {
                scenarios.extend(cases_of(corpus()));
            }
            play.execute(&scenarios)
        }
        Command::Regressions(regressions) => regressions.execute(&corpus()),
        Command::Up(up) => up.execute(),
        Command::Demo(demo) => demo.execute(),
        Command::Apiserver(apiserver) => apiserver.execute(),
        Command::Nodes(nodes) => nodes.execute(),
        Command::Faults(faults) => faults.execute(),
        Command::Init(init) => init.execute(&scenarios()),
        Command::Show(show) => show.execute(&scenarios()),
        Command::List(list) => list.execute(&scenarios()),
        Command::Example(example) => example.execute(),
        Command::Validate(validate) => validate.execute(&scenarios()),
        Command::Schema(schema) => schema.execute(),
        Command::Driver(driver) => driver.execute(),
        Command::Doctor(doctor) => doctor.execute(),
        Command::Crash(crash) => crash.execute(&scenarios()),
        Command::Chaos(chaos) => chaos.execute(),
        Command::Stale(stale) => stale.execute(),
        Command::Shrink(shrink) => shrink.execute(&scenarios()),
        Command::Report(report) => report.execute(),
        Command::Diff(diff) => diff.execute(),
        Command::Step(step) => step.execute(),
        Command::Reports(reports) => reports.execute(),
        Command::Idle(idle) => idle.execute(),
        Command::Completion(completion) => completion.execute(),
        Command::Man(man) => man.execute(),
        Command::Perform(perform) => perform.execute(),
        Command::Tether(tether) => Err(Stop::Usage(tether.become_it())),
    };
    match ended {
        Ok(outcome) => {
            if let Outcome::Interrupted(_) = outcome {
                crate::cli::output::complain!("drydock: interrupted");
            }
            ExitCode::from(outcome.status())
        }
        Err(stop) => {
            crate::cli::output::complain!("{}", failure_on_stderr(&format!("drydock: {stop}")));
            ExitCode::from(stop.status())
        }
    }
}

/// The scenarios of the known bugs.
fn cases_of(corpus: Vec<Entry>) -> impl Iterator<Item = Scenario> {
    let cases = corpus.into_iter().flat_map(|entry| entry.cases);
    cases.map(|case| case.scenario)
}

/// The threads of wall-clock work, also on fewer cores: a large list or a large object occupies one of them for long, and
/// `/healthz` must be answered meanwhile.
const WORKERS: usize = 8;

/// Runs asynchronous work on the wall clock.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Stop> {
    let runtime = runtime(WORKERS)?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// A runtime with that number of threads in addition to the calling one.
fn runtime(threads: usize) -> Result<Runtime, Stop> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(threads).enable_all().build();
    built.map_err(|error| Stop::Usage(format!("cannot start the runtime: {error}")))
}

/// Returns on Ctrl-C and the other signals that end a program.
async fn interrupted() -> Interrupt {
    match Interrupts::new() {
        Ok(mut interrupts) => interrupts.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// Receives every Ctrl-C and the other signals that end a program.
struct Interrupts(Termination);

impl Interrupts {
    fn new() -> Result<Self, Stop> {
        let listening = Termination::listen();
        listening
            .map(Self)
            .map_err(|error| Stop::Usage(format!("cannot listen for Ctrl-C: {error}")))
    }

    /// Waits for the next interrupt.
    async fn next(&mut self) -> Interrupt {
        Interrupt(self.0.next().await)
    }
}

/// The scenarios and suites of these names, each scenario once. Scenarios of suites for which `runs` is false are left
/// out.
fn named(scenarios: &[Scenario], names: &[String], runs: impl Fn(&Scenario) -> bool) -> Result<Vec<Scenario>, Stop> {
    let mut chosen: Vec<Scenario> = Vec::new();
    for name in names {
        let mut suite = scenarios
            .iter()
            .filter(|scenario| scenario.tags.contains(name))
            .peekable();
        let matching: Vec<Scenario> = match suite.peek() {
            None => vec![find(scenarios, name)?],
            Some(_) => suite.filter(|scenario| runs(scenario)).cloned().collect(),
        };
        if matching.is_empty() {
            return Err(Stop::Usage(format!(
                "no scenario of the suite {name:?} runs on that stage, with the process that is asked for"
            )));
        }
        for scenario in matching {
            if chosen.iter().all(|known| known.name != scenario.name) {
                chosen.push(scenario);
            }
        }
    }
    Ok(chosen)
}

/// The scenario of that name.
fn find(scenarios: &[Scenario], name: &str) -> Result<Scenario, Stop> {
    if let Some(scenario) = scenarios.iter().find(|scenario| scenario.name == name) {
        return Ok(scenario.clone());
    }
    let near = similar(name, scenarios.iter().map(|scenario| scenario.name.as_str()));
    Err(Stop::Usage(match near.as_slice() {
        [] => format!("there is no scenario {name:?}; `drydock list` lists them"),
        near => format!("there is no scenario {name:?}; near it are: {}", near.join(", ")),
    }))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_end_of_a_command_has_its_exit_status() {
        let ends = [
            Outcome::Passed.status(),
            Outcome::Failed.status(),
            Stop::Usage(String::new()).status(),
            Stop::Unavailable(String::new()).status(),
            Outcome::Interrupted(Interrupt::CTRL_C).status(),
            Outcome::Passed.or_interrupted(Some(Interrupt(15))).status(),
        ];
        assert_eq!(ends, [0, 1, 2, 3, 130, 143]);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_of_each_command_has_an_example() {
        assert_eq!(
            terminal::commands_without_examples(&Arguments::command()),
            Vec::<String>::new()
        );
    }
}
