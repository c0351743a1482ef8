//! What the runs of the corpus show: whether the product passes, and by what each mutant was found.

use std::collections::{BTreeMap, BTreeSet};

use judge::evaluate::short;
use scenario::result::{FailureResult, RunResult};
use serde::Serialize;

use super::{Case, EXPECTED, Entry};

/// The runs of one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseVerdict {
    /// The case.
    pub id: String,
    /// Seeds with which the product passed, of how many.
    pub passed: usize,
    /// How many seeds there were.
    pub seeds: usize,
    /// Why the product failed, for the first seed with which it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// By what the mutant was found with the exact times; `None`: it was not, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
    /// Whether there is a mutant.
    pub mutant: bool,
    /// What the mutant's run with the exact times was, where that does not count as found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// With how many seeds the mutant was found.
    pub detected: usize,
    /// How often each fault struck in the product's run with the exact times.
    pub faults: BTreeMap<String, u64>,
    /// Seconds by the wall clock, over all runs.
    pub wall_seconds: f64,
}

/// How a mutant was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detection {
    /// The broken invariant, or [`EXPECTED`].
    pub invariant: String,
    /// In virtual time since the start.
    pub after_seconds: f64,
    /// What was broken.
    pub reason: String,
}

impl CaseVerdict {
    /// From the runs without and with the mutant; in both the first is the one with the exact times.
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
            Some(failure) => format!("it fails otherwise: {}", failure.reason),
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

    /// Whether the product passed with every seed, and the mutant was found with the exact times.
    pub fn is_well(&self) -> bool {
        self.passed == self.seeds && (!self.mutant || self.detection.is_some())
    }

    /// With which share of the seeds the mutant was found; 1 without a mutant.
    pub fn share(&self) -> f64 {
        if self.mutant && self.seeds > 0 {
            self.detected as f64 / self.seeds as f64
        } else {
            1.0
        }
    }

    /// In one line.
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

/// What a failure breaks. That the desired state is reached within the scenario's own bound is a half of I11.
fn broken(failure: &FailureResult) -> Vec<&str> {
    match &failure.invariant {
        Some(invariant) => vec![invariant],
        None if failure.reason.starts_with("expected eventually, within") => vec!["I11", EXPECTED],
        None if failure.expectation => vec![EXPECTED],
        None => Vec::new(),
    }
}

/// All cases, with what they add up to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// In the order of the corpus.
    pub cases: Vec<CaseVerdict>,
    /// Mutants that were found with the exact times.
    pub detected: usize,
    /// Mutants.
    pub mutants: usize,
    /// The same by group.
    pub by_group: BTreeMap<String, (usize, usize)>,
    /// Which mutants each invariant found.
    pub by_invariant: BTreeMap<String, BTreeSet<String>>,
}

impl Verdicts {
    /// Adds them up.
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

    /// Whether the product passes everywhere and every mutant is found.
    pub fn is_well(&self) -> bool {
        self.cases.iter().all(CaseVerdict::is_well)
    }
}
