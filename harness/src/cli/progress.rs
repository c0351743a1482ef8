//! What is shown while jobs run: a live line on a terminal, plain lines without one.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::evaluate::short;
use crate::runner::RunResult;
use crate::stage::kind;

/// The progress of a number of jobs.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(jobs: usize) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(jobs as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} runs, {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows lines that others say, above the live one.
    pub(super) fn teller(&self) -> kind::Progress {
        let bar = self.0.clone();
        Arc::new(move |line| bar.suspend(|| println!("     {line}")))
    }

    /// Shows one result.
    pub(super) fn finished(&self, result: &RunResult) {
        self.0.suspend(|| print(result));
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn print(result: &RunResult) {
    let verdict = if result.passed() { "ok  " } else { "FAIL" };
    let disturbed = match result.disturbances.as_slice() {
        few if few.len() <= 2 => few.iter().map(|struck| format!(", {}", struck.what)).collect(),
        many => format!(", {} disturbances", many.len()),
    };
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
        .map(|trace| format!(", trace {} ({} entries)", trace.hash, trace.entries))
        .unwrap_or_default();
    println!(
        "{verdict} {} on {} seed {}{disturbed}: {took}{trace}",
        result.scenario, result.stage, result.seed
    );
    for never in result.disturbances.iter().filter(|struck| struck.hits == 0) {
        println!("     warning: {} never struck", never.what);
    }
    if let Some(failure) = &result.failure {
        println!(
            "     after {} in step {}: {}",
            seconds(failure.after_seconds),
            failure.step,
            failure.reason
        );
        if let Some(report) = &result.report {
            println!("     report: {}", report.display());
        }
        println!("     replay: {}", result.replay);
    }
}

fn seconds(seconds: f64) -> String {
    short(Duration::from_secs_f64(seconds.max(0.0)))
}
