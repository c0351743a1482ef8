//! `drydock shrink`: reduces a failing plan to the minimum that still fails, and writes it to a file.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use scenario::job::Job;
use scenario::plan::Plan;
use scenario::result::RunResult;
use scenario::{Scenario, StageKind};
use stage::run_folder::RunFolder;

use super::files::read_plan;
use super::output::say;
use super::{Ended, Outcome, Stop, block_on, interrupted, jobs};
use crate::campaign::groups;
use crate::report::folder;
use crate::shrink::{Shrunk, Trial, shrink};

/// Maximum number of narrative lines in the comment at the beginning of a file.
const MOST_LINES: usize = 200;

#[derive(Args, Debug)]
pub(super) struct ShrinkCommand {
    /// The plan of a failed run
    plan: PathBuf,

    /// The file for the smaller plan; the default is next to the plan
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ShrinkCommand {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let plan = read_plan(&self.plan, scenarios)?;
        let output = self.output.unwrap_or_else(|| self.plan.with_extension("shrunk.yaml"));
        let scratch =
            RunFolder::new().map_err(|error| Stop::Usage(format!("cannot create a temporary folder: {error}")))?;
        let work = Box::pin(find(plan, scratch.path()));
        let found = block_on(async {
            tokio::select! {
                biased;
                interrupt = interrupted() => Err(Stop::Interrupted(interrupt)),
                found = work => Ok(found),
            }
        })??;
        let Some((broken, Shrunk { plan, trials }, last)) = found else {
            say!("the plan does not fail: there is nothing to shrink");
            return Ok(Outcome::Failed);
        };
        let text = file(&plan, &last, &output)?;
        folder::write_file(&output, text.as_bytes())
            .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
        say!(
            "{broken} after {trials} runs: {} and {} left",
            count(plan.scenario.steps.len(), "step"),
            count(plan.disturbances.len(), "disturbance")
        );
        say!("     plan: {}", output.display());
        say!("     replay: drydock run --plan {}", output.display());
        Ok(Outcome::Passed)
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

async fn perform(plan: &Plan, reports: &Path) -> RunResult {
    let job = Job {
        reports: reports.to_owned(),
        ..Job::of(plan.clone(), StageKind::Sim)
    };
    jobs::run_simulated(&job).await
}

/// The cause of the failure, the smallest plan, and the result of its run.
async fn find(plan: Plan, reports: &Path) -> Option<(String, Shrunk, RunResult)> {
    let first = perform(&plan, reports).await;
    let broken = groups::broken(first.failure.as_ref()?);
    let bar = ProgressBar::new_spinner();
    let trial = async |plan: &Plan| {
        let result = perform(plan, reports).await;
        bar.set_message(format!(
            "{} and {}",
            count(plan.scenario.steps.len(), "step"),
            count(plan.disturbances.len(), "disturbance")
        ));
        bar.tick();
        Trial {
            fails: result
                .failure
                .as_ref()
                .is_some_and(|failure| groups::broken(failure) == broken),
            effects: result.effects.into_iter().map(|effect| effect.description).collect(),
        }
    };
    let shrunk = shrink(plan, trial).await;
    bar.finish_and_clear();
    let shrunk = shrunk?;
    let last = perform(&shrunk.plan, reports).await;
    Some((broken, shrunk, last))
}

/// The text of a plan file that begins with the narrative as a comment.
fn file(plan: &Plan, result: &RunResult, path: &Path) -> Result<String, Stop> {
    let yaml = plan
        .to_yaml()
        .map_err(|error| Stop::Usage(format!("the plan has no YAML form: {error}")))?;
    let reason = result.failure.as_ref().map(|failure| failure.reason.as_str());
    let mut lines = vec![
        reason.unwrap_or_default().to_owned(),
        format!("Replay with: drydock run --plan {}", path.display()),
        String::new(),
        "What happens:".to_owned(),
    ];
    lines.extend(result.narrative.iter().take(MOST_LINES).map(|line| format!("- {line}")));
    let comments: String = lines
        .iter()
        .map(|line| format!("# {}", line.replace('\n', " ")).trim_end().to_owned() + "\n")
        .collect();
    Ok(comments + &yaml)
}
