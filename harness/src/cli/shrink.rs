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
use crate::report::files;
use crate::shrink::{Finding, Findings, Shrunk, Trial, shrink};

/// Maximum number of narrative lines in the comment at the beginning of a file.
const MOST_LINES: usize = 200;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock shrink .drydock/chaos/machine-17/plan.yaml")]
pub(super) struct ShrinkCommand {
    /// The plan of a failed run
    plan: PathBuf,

    /// The file for the smaller plan; the default is a new file next to the plan
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Folder for the report folders of smaller plans that fail in another way
    #[arg(long, value_name = "FOLDER", default_value = ".drydock/reports")]
    report: PathBuf,
}

impl ShrinkCommand {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let plan = read_plan(&self.plan, scenarios)?;
        let output = self.output.unwrap_or_else(|| free_name(&self.plan));
        let scratch =
            RunFolder::new().map_err(|error| Stop::Usage(format!("cannot create a temporary folder: {error}")))?;
        let work = Box::pin(find(plan, scratch.path(), &self.report));
        let found = block_on(async {
            tokio::select! {
                biased;
                interrupt = interrupted() => Err(Stop::Interrupted(interrupt)),
                found = work => Ok(found),
            }
        })??;
        let Some(found) = found else {
            say!("the plan does not fail: there is nothing to shrink");
            return Ok(Outcome::Failed);
        };
        let Shrunk { plan, trials } = &found.shrunk;
        let text = file(plan, &found.last, &output)?;
        files::write_file(&output, text.as_bytes())
            .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
        say!(
            "{} after {trials} runs: {} and {} left",
            found.broken,
            count(plan.scenario.steps.len(), "step"),
            count(plan.disturbances.len(), "disturbance")
        );
        say!("     plan: {}", output.display());
        say!("     replay: drydock run --plan {}", output.display());
        for result in &found.others {
            say!("a smaller plan fails in another way: {}", reason(result));
            if let Some(report) = &result.report {
                say!("     report: {}", report.display());
            }
            say!("     replay: {}", result.replay);
        }
        Ok(Outcome::Passed)
    }
}

/// The first name next to a plan that no file has: `plan.shrunk.yaml`, `plan.shrunk.2.yaml` and so on.
fn free_name(plan: &Path) -> PathBuf {
    let names = std::iter::once("shrunk.yaml".to_owned()).chain((2..).map(|number| format!("shrunk.{number}.yaml")));
    let mut paths = names.map(|name| plan.with_extension(name));
    paths
        .find(|path| !path.exists())
        .unwrap_or_else(|| plan.with_extension("shrunk.yaml"))
}

fn reason(result: &RunResult) -> &str {
    result.failure.as_ref().map_or("it passes", |failure| &failure.reason)
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

async fn perform(plan: &Plan, reports: &Path, is_trial: bool) -> RunResult {
    let job = Job {
        reports: reports.to_owned(),
        expected_to_fail: is_trial,
        ..Job::of(plan.clone(), StageKind::Sim)
    };
    jobs::run_simulated(&job).await
}

/// What shrinking found.
struct Found {
    /// The cause of the failure.
    broken: String,
    shrunk: Shrunk,
    /// The result of the smallest plan.
    last: RunResult,
    /// The results of smaller plans that fail in other ways, one for each way. Each has a report.
    others: Vec<RunResult>,
}

/// Shrinks a plan. `scratch` is for the reports of trials, `reports` for those of other failures. `None`: it does not
/// fail.
async fn find(plan: Plan, scratch: &Path, reports: &Path) -> Option<Found> {
    let first = perform(&plan, scratch, true).await.failure?;
    let mut findings = Findings::new(first.signature.clone());
    let bar = ProgressBar::new_spinner();
    let trial = async |plan: &Plan| {
        let result = perform(plan, scratch, true).await;
        bar.set_message(format!(
            "{} and {}",
            count(plan.scenario.steps.len(), "step"),
            count(plan.disturbances.len(), "disturbance")
        ));
        bar.tick();
        Trial {
            fails: findings.is_same(plan, result.failure.as_ref()),
            effects: result.effects.into_iter().map(|effect| effect.description).collect(),
        }
    };
    let shrunk = shrink(plan, trial).await;
    bar.finish_and_clear();
    let shrunk = shrunk?;
    let last = perform(&shrunk.plan, scratch, true).await;
    let mut others = Vec::new();
    for Finding { plan, .. } in findings.into_found() {
        // A run in virtual time is repeated exactly.
        others.push(perform(&plan, reports, false).await);
    }
    Some(Found {
        broken: groups::broken(&first),
        shrunk,
        last,
        others,
    })
}

/// The text of a plan file that begins with the narrative as a comment.
fn file(plan: &Plan, result: &RunResult, path: &Path) -> Result<String, Stop> {
    let yaml = plan
        .to_yaml()
        .map_err(|error| Stop::Usage(format!("the plan has no YAML form: {error}")))?;
    let mut lines = vec![
        reason(result).to_owned(),
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
