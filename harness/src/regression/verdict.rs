//! Evaluates the runs of the corpus: whether the product passes, and what detected each mutant.

use std::collections::{BTreeMap, BTreeSet};

use judge::evaluate::short;
use scenario::result::{FailureResult, RunResult};
use serde::Serialize;

use super::{Case, EXPECTED, Entry};

/// The verdict on the runs of one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseVerdict {
    /// Name of the case.
    pub id: String,
    /// Number of seeds with which the product passed.
    pub passed: usize,
    /// Number of seeds.
    pub seeds: usize,
    /// Why the product failed, with the first failing seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What detected the mutant with the exact times; `None`: it was not detected, or there is no mutant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
    /// Whether there is a mutant.
    pub mutant: bool,
    /// The result of the mutant's run with the exact times, if the mutant was not detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// Number of seeds with which the mutant was detected.
    pub detected: usize,
    /// Number of hits by fault in the product's run with the exact times.
    pub faults: BTreeMap<String, u64>,
    /// Wall-clock seconds of all runs.
    pub wall_seconds: f64,
}

/// How a mutant was detected.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detection {
    /// The violated invariant, or [`EXPECTED`].
    pub invariant: String,
    /// Virtual time since the start.
    pub after_seconds: f64,
    /// The cause of the failure.
    pub reason: String,
}

impl CaseVerdict {
    /// The verdict on the runs without and with the mutant. The first run of each list has the exact times.
    pub fn of(case: &Case, product: &[RunResult], mutant: &[RunResult]) -> Self {
        let found = |run: &RunResult| -> Option<Detection> {
            let failure = run.failure.as_ref()?;
            let broken = broken(failure).into_iter().find(|name| case.breaks.contains(name))?;
            Some(Detection {
                invariant: broken.to_owned(),
                after_seconds: failure.after_seconds,
                reason: failure.reason.clone(),
            })
        };
        let exact = mutant.first();
        let detection = exact.and_then(found);
        let missed = exact.filter(|_| detection.is_none()).map(|run| match &run.failure {
            Some(failure) => format!("it fails for another reason: {}", failure.reason),
            None => "it passes".to_owned(),
        });
        Self {
            id: case.id.to_owned(),
            passed: product.iter().filter(|run| run.passed()).count(),
            seeds: product.len(),
            failure: product.iter().find_map(|run| {
                let failure = run.failure.as_ref()?;
                Some(format!("seed {}: {} ({})", run.seed, failure.reason, run.replay))
            }),
            detected: mutant.iter().filter(|run| found(run).is_some()).count(),
            detection,
            mutant: case.mutant,
            missed,
            faults: product.first().map(|run| run.faults.clone()).unwrap_or_default(),
            wall_seconds: product.iter().chain(mutant).map(|run| run.wall_seconds).sum(),
        }
    }

    /// Whether the product passed with every seed, and the mutant was detected with the exact times.
    pub fn is_well(&self) -> bool {
        self.passed == self.seeds && (!self.mutant || self.detection.is_some())
    }

    /// The share of seeds with which the mutant was detected; 1 without a mutant.
    pub fn share(&self) -> f64 {
        if self.mutant && self.seeds > 0 {
            self.detected as f64 / self.seeds as f64
        } else {
            1.0
        }
    }

    /// The verdict in one line.
    pub fn line(&self) -> String {
        let product = if self.passed == self.seeds { "passes" } else { "FAILS" };
        let mutant = match (&self.detection, self.mutant) {
            (Some(found), _) => format!(
                "found by {} after {}, {} of {} seeds",
                found.invariant,
                short(std::time::Duration::from_secs_f64(found.after_seconds)),
                self.detected,
                self.seeds
            ),
            (None, true) => format!("NOT FOUND: {}", self.missed.as_deref().unwrap_or_default()),
            (None, false) => "has none".to_owned(),
        };
        let failure = self
            .failure
            .as_ref()
            .map(|failure| format!("\n         {failure}"))
            .unwrap_or_default();
        format!("{:<10} product {product}, mutant {mutant}{failure}", self.id)
    }
}

/// The invariants that a failure violates. A missed `eventually` expectation also violates I11, which requires
/// convergence.
fn broken(failure: &FailureResult) -> Vec<&str> {
    match &failure.invariant {
        Some(invariant) => vec![invariant],
        None if failure.reason.starts_with("expected eventually, within") => vec!["I11", EXPECTED],
        None if failure.expectation => vec![EXPECTED],
        None => Vec::new(),
    }
}

/// The verdicts on all cases, with totals.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// In the order of the corpus.
    pub cases: Vec<CaseVerdict>,
    /// Number of mutants that were detected with the exact times.
    pub detected: usize,
    /// Number of mutants.
    pub mutants: usize,
    /// By group: number of detected mutants, and number of mutants.
    pub by_group: BTreeMap<String, (usize, usize)>,
    /// By invariant: the mutants that it detected.
    pub by_invariant: BTreeMap<String, BTreeSet<String>>,
}

impl Verdicts {
    /// Computes the totals.
    pub fn of(entries: &[Entry], cases: Vec<CaseVerdict>) -> Self {
        let mut by_group: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let mut by_invariant: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for case in cases.iter().filter(|case| case.mutant) {
            let entry = entries
                .iter()
                .find(|entry| entry.cases.iter().any(|other| other.id == case.id));
            if let Some(entry) = entry {
                let (found, all) = by_group.entry(entry.group.title().to_owned()).or_default();
                *all += 1;
                *found += usize::from(case.detection.is_some());
            }
            if let Some(found) = &case.detection {
                by_invariant
                    .entry(found.invariant.clone())
                    .or_default()
                    .insert(case.id.clone());
            }
        }
        Self {
            detected: cases.iter().filter(|case| case.detection.is_some()).count(),
            mutants: cases.iter().filter(|case| case.mutant).count(),
            cases,
            by_group,
            by_invariant,
        }
    }

    /// Whether the product passes all cases and every mutant is detected.
    pub fn is_well(&self) -> bool {
        self.cases.iter().all(CaseVerdict::is_well)
    }
}
