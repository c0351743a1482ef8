//! `drydock regressions`: every mutant of the corpus must be detected, and the product must pass.

use std::path::PathBuf;

use clap::Args;
use judge::invariants::inert::difference;
use scenario::PreservationDialect;
use scenario::StageKind;
use scenario::job::Job;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use terminal::failure;

use super::output::{inform, say};
use super::stage::StageArguments;
use super::{Ended, Outcome, Stop, jobs};
use crate::regression::{CaseVerdict, Entry, Verdicts, document, jittered};

/// The variant of a run of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Product,
    Mutant,
    /// The run without preservation with which the others are compared.
    NoPreservation,
}

/// Runs the regression corpus in virtual time: each entry without and with the bug.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drydock regressions\n  drydock regressions R04 A26 --seeds 10")]
pub(super) struct Regressions {
    /// Entries such as R04; none: all
    ids: Vec<String>,
    /// Number of seeds: the first with the exact times, the others with times changed by up to a tenth
    #[arg(long, default_value_t = 1, value_name = "N")]
    seeds: u64,
    /// Number of parallel processes; the default is the number of cores
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Writes the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the corpus with the results as a Markdown page
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// A JSON file with the recorded share of seeds that detect each mutant; a smaller share is a failure
    #[arg(long, value_name = "FILE")]
    shares: Option<PathBuf>,
    /// Folder for the report folders of failed runs
    #[arg(long, default_value = ".drydock/reports", value_name = "FOLDER")]
    reports: PathBuf,
}

impl Regressions {
    pub(super) fn execute(self, corpus: &[Entry]) -> Ended {
        if self.seeds == 0 {
            return Err(Stop::Usage(
                "--seeds 0 would run nothing; use a number from 1".to_owned(),
            ));
        }
        let entries = self.chosen(corpus)?;
        let planned = self.plan(&entries);
        let all: Vec<Job> = planned.iter().map(|(.., job)| job.clone()).collect();
        let finished = jobs::run(all, self.jobs, &StageArguments::default())?;
        let results = &finished.results;
        let mut cases = Vec::new();
        for case in entries.iter().flat_map(|entry| &entry.cases) {
            let runs = planned.iter().zip(results).filter(|((id, ..), _)| *id == case.id);
            if runs.clone().any(|(_, result)| result.is_none()) {
                // Interrupted: the case has no verdict.
                continue;
            }
            let of = |wanted: Variant| -> Vec<RunResult> {
                let matching = runs.clone().filter(|((_, variant, _), _)| *variant == wanted);
                matching.filter_map(|(_, result)| result.clone()).collect()
            };
            let without = of(Variant::NoPreservation);
            let (product, mutant) = (
                inert(of(Variant::Product), &without),
                inert(of(Variant::Mutant), &without),
            );
            let verdict = CaseVerdict::of(case, &product, &mutant);
            match verdict.is_well() {
                true => inform!("{}", verdict.line()),
                false => say!("{}", failure(&verdict.line())),
            }
            cases.push(verdict);
        }
        let verdicts = Verdicts::of(&entries, cases);
        let reduced = self.reduced_shares(&verdicts)?;
        print(&verdicts);
        for line in &reduced {
            say!("{line}");
        }
        self.write(&entries, &verdicts)?;
        let outcome = if verdicts.is_well() && reduced.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Ok(outcome.or_interrupted(finished.interrupt))
    }

    fn chosen(&self, corpus: &[Entry]) -> Result<Vec<Entry>, Stop> {
        if self.ids.is_empty() {
            return Ok(corpus.to_vec());
        }
        let find = |id: &String| {
            let entry = corpus.iter().find(|entry| entry.id.eq_ignore_ascii_case(id));
            let known: Vec<&str> = corpus.iter().map(|entry| entry.id).collect();
            let unknown = || Stop::Usage(format!("there is no entry {id:?}; there are {}", known.join(", ")));
            entry.cloned().ok_or_else(unknown)
        };
        self.ids.iter().map(find).collect()
    }

    /// Every run: its case, its variant and its job.
    fn plan(&self, entries: &[Entry]) -> Vec<(&'static str, Variant, Job)> {
        let mut planned = Vec::new();
        for case in entries.iter().flat_map(|entry| &entry.cases) {
            for seed in 1..=self.seeds {
                let scenario = match seed {
                    1 => case.scenario.clone(),
                    seed => jittered(&case.scenario, seed),
                };
                let mut job = Job {
                    reports: self.reports.clone(),
                    // A run with changed times can only be repeated from its plan.
                    from_plan: seed > 1,
                    writes: case.is_pair(),
                    ..Job::new(scenario, StageKind::Sim, seed)
                };
                // With other times a fault may hit nothing.
                job.plan.may_miss = seed > 1;
                if case.mutant {
                    let mut mutant = Job {
                        reports: self.reports.join("mutants").join(case.id.replace('/', "-")),
                        expected_to_fail: true,
                        ..job.clone()
                    };
                    mutant.plan.mutant = Some(case.id.to_owned());
                    planned.push((case.id, Variant::Mutant, mutant));
                }
                if case.is_pair() {
                    let mut other = Job {
                        reports: self.reports.join("without-preservation"),
                        expected_to_fail: true,
                        from_plan: true,
                        ..job.clone()
                    };
                    other.plan.scenario.world.preservation = PreservationDialect::Off;
                    planned.push((case.id, Variant::NoPreservation, other));
                }
                planned.push((case.id, Variant::Product, job));
            }
        }
        planned
    }

    /// Describes the cases whose share is smaller than the recorded one.
    fn reduced_shares(&self, verdicts: &Verdicts) -> Result<Vec<String>, Stop> {
        let Some(path) = &self.shares else {
            return Ok(Vec::new());
        };
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|error| Stop::Usage(format!("cannot read {shown}: {error}")))?;
        let recorded: std::collections::BTreeMap<String, f64> =
            serde_json::from_str(&text).map_err(|error| Stop::Usage(format!("{shown}: {error}")))?;
        let reduction = |case: &CaseVerdict| {
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
        Ok(verdicts.cases.iter().filter_map(reduction).collect())
    }

    fn write(&self, entries: &[Entry], verdicts: &Verdicts) -> Result<(), Stop> {
        let write = |path: &PathBuf, text: String| {
            std::fs::write(path, text).map_err(|error| Stop::Usage(format!("cannot write {}: {error}", path.display())))
        };
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(verdicts)
                .map_err(|error| Stop::Usage(format!("the result has no JSON form: {error}")))?;
            write(path, text)?;
        }
        match &self.document {
            Some(path) => write(path, document(entries, verdicts)),
            None => Ok(()),
        }
    }
}

/// The runs; a run violates I17 if mcm behaves differently than in the run without preservation with the same seed.
fn inert(runs: Vec<RunResult>, without: &[RunResult]) -> Vec<RunResult> {
    let compared = |mut run: RunResult| {
        let other = without.iter().find(|other| other.seed == run.seed);
        if let Some(reason) = other.filter(|_| run.passed()).and_then(|other| differs(other, &run)) {
            let cause = Cause::Invariant("I17".to_owned());
            run.failure = Some(FailureResult::new(cause, run.stage_seconds, reason));
        }
        run
    };
    runs.into_iter().map(compared).collect()
}

/// The difference of a run from the run without preservation.
fn differs(without: &RunResult, run: &RunResult) -> Option<String> {
    if let Some(failure) = &without.failure {
        return Some(format!("without preservation it fails: {}", failure.reason));
    }
    if without.writes.is_empty() {
        return Some("the run without preservation has no recorded writes".to_owned());
    }
    // Runs with the same seed also have the same names, uids and times.
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
