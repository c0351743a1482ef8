//! Determinism check: runs each seed twice and compares the traces.
//!
//! The check does not know how a world runs. If the comparison must be exact, the caller passes a function that
//! starts a process for each run.

use std::collections::BTreeMap;
use std::fmt;

use crate::Trace;

/// The comparable result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The trace's hash.
    pub hash: String,
    /// The entries of the trace as lines; may be empty if only the hashes are known.
    pub lines: Vec<String>,
}

impl Run {
    /// The run that `trace` recorded, with its entries in memory.
    pub fn of(trace: &Trace) -> Self {
        Self {
            hash: trace.hash(),
            lines: trace.entries().iter().map(ToString::to_string).collect(),
        }
    }
}

/// The two runs of one seed.
#[derive(Clone, Debug)]
pub struct SeedRuns {
    /// The seed of both.
    pub seed: u64,
    /// The first run's hash.
    pub first: String,
    /// The second run's hash.
    pub second: String,
    /// The first difference, if the hashes differ and the runs have lines.
    pub difference: Option<Difference>,
}

/// The first line in which two runs of one seed differ; `None` if a run ended before that line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line's position, counted from 0.
    pub line: usize,
    /// The line of the first run.
    pub first: Option<String>,
    /// The line of the second run.
    pub second: Option<String>,
}

/// The result of [`check_determinism`].
#[derive(Clone, Debug)]
pub struct Report {
    /// Every seed checked, in the order given.
    pub seeds: Vec<SeedRuns>,
}

/// Runs every seed twice. One seed must produce one hash, and different seeds different hashes: a seed without
/// influence tests nothing.
pub fn check_determinism(seeds: impl IntoIterator<Item = u64>, mut run: impl FnMut(u64) -> Run) -> Report {
    let seeds = seeds
        .into_iter()
        .map(|seed| {
            let (first, second) = (run(seed), run(seed));
            let difference = if first.hash == second.hash {
                None
            } else {
                first_difference(&first, &second)
            };
            SeedRuns {
                seed,
                first: first.hash,
                second: second.hash,
                difference,
            }
        })
        .collect();
    Report { seeds }
}

fn first_difference(first: &Run, second: &Run) -> Option<Difference> {
    let length = first.lines.len().max(second.lines.len());
    (0..length)
        .find(|&line| first.lines.get(line) != second.lines.get(line))
        .map(|line| Difference {
            line,
            first: first.lines.get(line).cloned(),
            second: second.lines.get(line).cloned(),
        })
}

impl Report {
    /// Whether every seed repeats itself and all seeds differ.
    pub fn passed(&self) -> bool {
        self.problems().is_empty()
    }

    /// One line per problem.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.seeds.iter().filter_map(SeedRuns::problem).collect();
        let mut seeds_by_hash: BTreeMap<&str, u64> = BTreeMap::new();
        for runs in &self.seeds {
            if let Some(other) = seeds_by_hash.insert(&runs.first, runs.seed) {
                problems.push(format!(
                    "seeds {other} and {} produce the same trace {}",
                    runs.seed, runs.first
                ));
            }
        }
        problems
    }
}

impl SeedRuns {
    fn problem(&self) -> Option<String> {
        if self.first == self.second {
            return None;
        }
        let place = self
            .difference
            .as_ref()
            .map(|difference| format!("; {difference}"))
            .unwrap_or_default();
        Some(format!(
            "seed {} produces {} and then {}{place}",
            self.seed, self.first, self.second
        ))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |line: &Option<String>| line.clone().unwrap_or_else(|| "(the end)".to_owned());
        write!(
            formatter,
            "line {}: `{}` and `{}`",
            self.line,
            line(&self.first),
            line(&self.second)
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems();
        if problems.is_empty() {
            return write!(formatter, "{} seeds: each repeats itself, all differ", self.seeds.len());
        }
        write!(formatter, "{}", problems.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(lines: &[&str]) -> Run {
        Run {
            hash: lines.join("/"),
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    #[test]
    fn a_function_of_the_seed_passes() {
        let report = check_determinism([1, 2, 3], |seed| run_with(&[&seed.to_string()]));
        assert!(report.passed(), "{report}");
        assert_eq!(report.to_string(), "3 seeds: each repeats itself, all differ");
    }

    #[test]
    fn a_second_run_that_differs_is_reported_with_the_first_differing_line() {
        let mut calls = 0;
        let report = check_determinism([7], |_| {
            calls += 1;
            run_with(if calls == 1 {
                &["start", "left", "end"]
            } else {
                &["start", "right"]
            })
        });
        assert_eq!(
            report.problems(),
            ["seed 7 produces start/left/end and then start/right; line 1: `left` and `right`"]
        );
    }

    #[test]
    fn a_seed_without_influence_is_reported() {
        let report = check_determinism([1, 2], |_| run_with(&["same"]));
        assert_eq!(report.problems(), ["seeds 1 and 2 produce the same trace same"]);
    }
}
