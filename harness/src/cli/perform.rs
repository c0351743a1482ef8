//! The hidden command `perform`: reads a simulated job from standard input and writes its result to standard output.

use std::io::Write;

use clap::Args;
use scenario::StageKind;
use scenario::job::Job;
use stage::child::end_with_parent;
use stage::logs;

use super::{Ended, Outcome, Stop};
use crate::runner;

#[derive(Args, Debug)]
pub(super) struct Perform {
    /// The process id of the parent that this one must not outlive
    #[arg(long)]
    parent: Option<i32>,
}

impl Perform {
    pub(super) fn execute(self) -> Ended {
        if let Some(parent) = self.parent {
            end_with_parent(parent)?;
        }
        perform()
    }
}

fn perform() -> Ended {
    let job: Job = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| Stop::Usage(format!("standard input does not contain a job: {error}")))?;
    if job.stage != StageKind::Sim {
        return Err(Stop::Usage("only simulated jobs run in a separate process".to_owned()));
    }
    logs::keep();
    let mut result = runner::run_simulated(&job);
    result.occurred.reasons = logs::reasons();
    let text =
        serde_json::to_vec(&result).map_err(|error| Stop::Usage(format!("the result has no JSON form: {error}")))?;
    std::io::stdout()
        .lock()
        .write_all(&text)
        .map_err(|error| Stop::Usage(format!("cannot write the result: {error}")))?;
    Ok(if result.passed() {
        Outcome::Passed
    } else {
        Outcome::Failed
    })
}
