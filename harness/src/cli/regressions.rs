//! `drydock regressions`: every known bug, brought back by its mutant, must be found, and the product must not have it.

use std::path::PathBuf;

use clap::Args;
use judge::invariants::inert::difference;
use scenario::PreservationDialect;
use scenario::StageKind;
use scenario::job::Job;
use scenario::result::{FailureResult, RunResult};

use super::output::say;
use super::stage::StageArguments;
use super::{Ended, Outcome, Usage, jobs};
use crate::regression::{CaseVerdict, Entry, Verdicts, document, jittered};

/// What is particular about a run of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Nothing,
    Mutant,
    /// It is what others are compared with.
    NoPreservation,
}

/// Runs the regression corpus in virtual time: each entry without and with the bug.
#[derive(Debug, Args)]
pub(super) struct Regressions {
    /// Entries such as R04; none: all
    ids: Vec<String>,
    /// How many seeds: the first with the exact times, the others with times moved by up to a tenth
    #[arg(long, default_value_t = 1, value_name = "N")]
    seeds: u64,
    /// How many processes side by side; default: one a core
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Where the result goes as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the page goes that says what was found
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// A JSON file with the share of seeds that found each mutant before; a smaller share is a failure
    #[arg(long, value_name = "FILE")]
    shares: Option<PathBuf>,
    /// Where reports of failed runs go
    #[arg(long, default_value = ".drydock/reports", value_name = "FOLDER")]
    reports: PathBuf,
}

impl Regressions {
    pub(super) fn execute(self, corpus: &[Entry]) -> Ended {
        if self.seeds == 0 {
            return Err(Usage("--seeds 0 would run nothing; give a number from 1".to_owned()));
        }
        let entries = self.chosen(corpus)?;
        let planned = self.plan(&entries);
        let all: Vec<Job> = planned.iter().map(|(.., job)| job.clone()).collect();
        let results = jobs::run(all, self.jobs, &StageArguments::default())?;
        let mut cases = Vec::new();
        for case in entries.iter().flat_map(|entry| &entry.cases) {
            let of = |wanted: With| -> Vec<RunResult> {
                let matching = planned.iter().zip(&results);
                matching
                    .filter(|((id, with, _), _)| *id == case.id && *with == wanted)
                    .map(|(_, result)| result.clone())
                    .collect()
            };
            let without = of(With::NoPreservation);
            let (product, mutant) = (inert(of(With::Nothing), &without), inert(of(With::Mutant), &without));
            let verdict = CaseVerdict::of(case, &product, &mutant);
            say!("{}", verdict.line());
            cases.push(verdict);
        }
        let verdicts = Verdicts::of(&entries, cases);
        let fallen = self.fallen(&verdicts)?;
        print(&verdicts);
        for fall in &fallen {
            say!("{fall}");
        }
        self.write(&entries, &verdicts)?;
        Ok(if verdicts.is_well() && fallen.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed
        })
    }

    fn chosen(&self, corpus: &[Entry]) -> Result<Vec<Entry>, Usage> {
        if self.ids.is_empty() {
            return Ok(corpus.to_vec());
        }
        let find = |id: &String| {
            let entry = corpus.iter().find(|entry| entry.id.eq_ignore_ascii_case(id));
            let known: Vec<&str> = corpus.iter().map(|entry| entry.id).collect();
            let unknown = || Usage(format!("there is no entry {id:?}; there are {}", known.join(", ")));
            entry.cloned().ok_or_else(unknown)
        };
        self.ids.iter().map(find).collect()
    }

    /// Every run: its case, with what, and the job.
    fn plan(&self, entries: &[Entry]) -> Vec<(&'static str, With, Job)> {
        let mut planned = Vec::new();
        for case in entries.iter().flat_map(|entry| &entry.cases) {
            for seed in 1..=self.seeds {
                let scenario = match seed {
                    1 => case.scenario.clone(),
                    seed => jittered(&case.scenario, seed),
                };
                let job = Job {
                    reports: self.reports.clone(),
                    // A run with moved times is found again by its plan.
                    from_plan: seed > 1,
                    writes: case.is_pair(),
                    ..Job::new(scenario, StageKind::Sim, seed)
                };
                if case.mutant {
                    let mut mutant = Job {
                        reports: self.reports.join("mutants").join(case.id.replace('/', "-")),
                        ..job.clone()
                    };
                    mutant.plan.mutant = Some(case.id.to_owned());
                    planned.push((case.id, With::Mutant, mutant));
                }
                if case.is_pair() {
                    let mut other = Job {
                        reports: self.reports.join("without-preservation"),
                        from_plan: true,
                        ..job.clone()
                    };
                    other.plan.scenario.world.preservation = PreservationDialect::Off;
                    planned.push((case.id, With::NoPreservation, other));
                }
                planned.push((case.id, With::Nothing, job));
            }
        }
        planned
    }

    /// Cases whose share is smaller than it was.
    fn fallen(&self, verdicts: &Verdicts) -> Result<Vec<String>, Usage> {
        let Some(path) = &self.shares else {
            return Ok(Vec::new());
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| Usage(format!("cannot read {shown}: {error}")))?;
        let recorded: std::collections::BTreeMap<String, f64> =
            serde_json::from_str(&text).map_err(|error| Usage(format!("{shown}: {error}")))?;
        let fall = |case: &CaseVerdict| {
            let before = recorded.get(&case.id).copied()?;
            (case.share() < before).then(|| {
                format!(
                    "{}: found with {:.0} % of the seeds; {:.0} % are recorded in {shown}",
                    case.id,
                    100.0 * case.share(),
                    100.0 * before
                )
            })
        };
        Ok(verdicts.cases.iter().filter_map(fall).collect())
    }

    fn write(&self, entries: &[Entry], verdicts: &Verdicts) -> Result<(), Usage> {
        let write = |path: &PathBuf, text: String| {
            std::fs::write(path, text).map_err(|error| Usage(format!("cannot write {}: {error}", path.display())))
        };
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(verdicts)
                .map_err(|error| Usage(format!("the result has no JSON form: {error}")))?;
            write(path, text)?;
        }
        match &self.document {
            Some(path) => write(path, document(entries, verdicts)),
            None => Ok(()),
        }
    }
}

/// Each run, which fails by I17 where mcm did something else than in the run without preservation of the same seed.
fn inert(runs: Vec<RunResult>, without: &[RunResult]) -> Vec<RunResult> {
    let compared = |mut run: RunResult| {
        let other = without.iter().find(|other| other.seed == run.seed);
        if let Some(reason) = other.filter(|_| run.passed()).and_then(|other| differs(other, &run)) {
            run.failure = Some(FailureResult {
                after_seconds: run.stage_seconds,
                step: 0,
                invariant: Some("I17".to_owned()),
                expectation: false,
                reason,
            });
        }
        run
    };
    runs.into_iter().map(compared).collect()
}

/// Where a run differs from the one without preservation.
fn differs(without: &RunResult, run: &RunResult) -> Option<String> {
    if let Some(failure) = &without.failure {
        return Some(format!("without preservation it fails: {}", failure.reason));
    }
    if without.writes.is_empty() {
        return Some("nobody recorded what mcm writes without preservation".to_owned());
    }
    // Of one seed, names, uids and times are alike as well.
    difference(&without.writes, &run.writes, str::to_owned)
}

fn print(verdicts: &Verdicts) {
    say!();
    for (group, (found, all)) in &verdicts.by_group {
        say!("{group}: {found} of {all}");
    }
    for (invariant, cases) in &verdicts.by_invariant {
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        say!("{invariant} found {}", cases.join(", "));
    }
    say!("{} of {} known bugs detected", verdicts.detected, verdicts.mutants);
}
