//! The output while jobs run: a progress line on a terminal, plain lines without one.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use judge::evaluate::{between, short};
use scenario::job::Job;
use scenario::result::RunResult;
use stage::kind;
use terminal::{failure, is_quiet, is_verbose};

use super::durations;
use super::output::{inform, say};
use crate::report::record::REPORT;

/// The progress of a number of jobs.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Number of jobs.
    all: usize,
    /// Number of finished jobs.
    done: Cell<usize>,
    /// The busy workers and the names of their jobs, in order of start.
    running: RefCell<Vec<(usize, String)>>,
}

impl Progress {
    /// Prints a summary of the jobs, and starts the progress line.
    pub(super) fn new(jobs: &[Job], workers: usize) -> Self {
        if let [first, _, ..] = jobs {
            inform!("{}", plan(jobs, first, workers));
        }
        let target = if std::io::stderr().is_terminal() && !is_quiet() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(jobs.len() as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} runs, {elapsed}; running: {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            all: jobs.len(),
            done: Cell::new(0),
            running: RefCell::default(),
        }
    }

    /// A function that prints lines above the progress line.
    pub(super) fn line_printer(&self) -> kind::Progress {
        let bar = self.bar.clone();
        Arc::new(move |line| bar.suspend(|| inform!("     {line}")))
    }

    /// Shows that a worker has started a job.
    pub(super) fn started(&self, worker: usize, job: &Job) {
        self.running.borrow_mut().push((worker, job.plan.scenario.name.clone()));
        self.show_running();
    }

    /// Prints the result of a worker's job, with its number unless there is only one.
    pub(super) fn finished(&self, worker: usize, job: &Job, result: &RunResult) {
        self.running.borrow_mut().retain(|(of, _)| *of != worker);
        self.done.set(self.done.get() + 1);
        let width = self.all.to_string().len();
        let number = match self.all {
            1 => String::new(),
            all => format!("{:width$}/{all} ", self.done.get()),
        };
        self.bar.suspend(|| match job.expected_to_fail {
            true => print_expected(&number, result),
            false => print(&number, result),
        });
        self.bar.inc(1);
        self.show_running();
    }

    fn show_running(&self) {
        let running = self.running.borrow();
        let names: Vec<&str> = running.iter().map(|(_, name)| name.as_str()).collect();
        self.bar.set_message(names.join(", "));
    }
}

/// A summary of the jobs in one line.
fn plan(jobs: &[Job], first: &Job, workers: usize) -> String {
    let place = match first.target {
        Some(target) => format!("{} with nodes on {target}", first.stage),
        None => first.stage.to_string(),
    };
    let last = durations::last(first.stage, jobs.len());
    let last = last.map_or_else(String::new, |last| format!("; the last time this took {}", short(last)));
    format!("{} runs on stage {place}, {workers} at a time{last}", jobs.len())
}

/// The progress of a campaign: a bar with an estimate on a terminal; without one a line every ten seconds, and each
/// failure.
#[derive(Debug)]
pub(super) struct CampaignProgress {
    bar: ProgressBar,
    clock: Clock,
    started: Timestamp,
    last: Cell<Timestamp>,
    done: Cell<u64>,
    /// Number of seeds; `None`: the campaign is limited by time.
    seeds: Option<u64>,
    time: Option<Duration>,
}

/// Period of progress lines without a terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of failures of a campaign that are printed one by one; the groups at its end contain all.
const MOST_PRINTED: usize = 10;

impl CampaignProgress {
    pub(super) fn new(seeds: Option<u64>, time: Option<Duration>) -> Self {
        let clock = Clock::wall();
        let started = clock.now();
        let bar = if std::io::stderr().is_terminal() && !is_quiet() {
            let bar = seeds.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let template = match seeds {
                Some(_) => "{wide_bar} {pos}/{len} seeds, {msg}{elapsed}, about {eta} left",
                None => "{spinner} {pos} seeds, {msg}{elapsed}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            bar,
            clock,
            started,
            last: Cell::new(started),
            done: Cell::new(0),
            seeds,
            time,
        }
    }

    /// Processes one result; `failures` is the number of failures so far.
    pub(super) fn finished(&self, result: &RunResult, failures: usize) {
        self.done.set(self.done.get() + 1);
        self.bar.inc(1);
        if failures > 0 {
            self.bar.set_message(format!("{failures} failed, "));
        }
        if !result.passed() && failures <= MOST_PRINTED {
            self.bar.suspend(|| print("", result));
        }
        let now = self.clock.now();
        if self.bar.is_hidden() && between(self.last.get(), now) >= LINE_PERIOD {
            self.last.set(now);
            inform!("     {}", self.line(between(self.started, now), failures));
        }
    }

    fn line(&self, elapsed: Duration, failures: usize) -> String {
        let done = self.done.get();
        let (of, left) = match (self.seeds, self.time) {
            (Some(seeds), _) => {
                let rest = seeds.saturating_sub(done) as f64 / (done.max(1) as f64);
                (format!(" of {seeds}"), elapsed.mul_f64(rest))
            }
            (None, Some(time)) => (String::new(), time.saturating_sub(elapsed)),
            (None, None) => (String::new(), Duration::ZERO),
        };
        let whole = |time: Duration| short(Duration::from_secs(time.as_secs()));
        format!(
            "{done}{of} seeds, {failures} failed, {}, about {} left",
            whole(elapsed),
            whole(left)
        )
    }
}

impl Drop for CampaignProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Prints a run that shows whether a planted defect is found: either result is information.
fn print_expected(number: &str, result: &RunResult) {
    let what = match &result.failure {
        Some(failure) => format!("fails, as expected: {}", failure.reason),
        None => "passes".to_owned(),
    };
    inform!("ok   {number}{}: {what}", name(result));
}

/// Prints a result: a passed run in one line, a failed one with its reason.
pub(super) fn print(number: &str, result: &RunResult) {
    let took = if result.trace.is_some() {
        format!(
            "{} virtual in {}",
            seconds(result.stage_seconds),
            seconds(result.wall_seconds)
        )
    } else {
        seconds(result.wall_seconds)
    };
    let trace = result
        .trace
        .as_ref()
        .filter(|_| is_verbose())
        .map(|trace| format!(", trace {} ({} entries)", trace.hash, trace.entries))
        .unwrap_or_default();
    let line = format!("{number}{}: {took}{trace}", name(result));
    match result.passed() {
        true => inform!("ok   {line}"),
        false => say!("{} {line}", failure("FAIL")),
    }
    if let Some(record) = &result.record {
        inform!("     report: {}", record.join(REPORT).display());
    }
    for disturbance in result.disturbances.iter().filter(|disturbance| disturbance.hits == 0) {
        inform!("     warning: {} never hit", disturbance.what);
    }
    if let Some(failed) = &result.failure {
        let place = match failed.step {
            0 => String::new(),
            step => format!(" in step {step}"),
        };
        say!(
            "     after {}{place}: {}",
            seconds(failed.after_seconds),
            failure(&failed.reason)
        );
        if let Some(report) = &result.report {
            say!("     report: {}", report.display());
        }
        say!("     replay: {}", result.replay);
    }
}

/// The scenario of a result, its place and seed, and the disturbances if there are few.
fn name(result: &RunResult) -> String {
    let disturbed = match result.disturbances.as_slice() {
        few if few.len() <= 2 => few
            .iter()
            .map(|disturbance| format!(", {}", disturbance.what))
            .collect(),
        many => format!(", {} disturbances", many.len()),
    };
    let defect = result.mutant.as_ref();
    let defect = defect.map_or_else(String::new, |defect| format!(" with the defect {defect}"));
    let (scenario, place, seed) = (&result.scenario, result.place(), result.seed);
    format!("{scenario} on {place} seed {seed}{defect}{disturbed}")
}

fn seconds(seconds: f64) -> String {
    short(Duration::from_secs_f64(seconds.max(0.0)))
}
