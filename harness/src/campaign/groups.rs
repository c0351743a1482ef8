//! Groups failures by their cause and by the first difference from the undisturbed run, because one defect often makes
//! many seeds fail.

use std::collections::BTreeMap;
use std::path::PathBuf;

use scenario::result::{FailureResult, RunResult};
use serde::Serialize;

/// The common properties of a group of failures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The violated invariant, or another cause.
    pub broken: String,
    /// The first event that differs from the undisturbed run, without names and numbers.
    pub first_difference: String,
}

/// A group of failures.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureGroup {
    /// The common properties.
    #[serde(flatten)]
    pub key: Key,
    /// Its seeds, in order.
    pub seeds: Vec<u64>,
    /// The reason of the first failure.
    pub reason: String,
    /// The command that repeats the first run.
    pub replay: String,
    /// The report folder of the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// The folder with the record of the undisturbed run of the first seed; `None`: that run failed as well, or did not take
    /// place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undisturbed: Option<PathBuf>,
}

/// The cause of a failure, without names and numbers.
pub fn broken(failure: &FailureResult) -> String {
    failure.invariant.clone().unwrap_or_else(|| {
        let expectation = nameless(failure.reason.split("; but ").next().unwrap_or_default());
        // An expectation for many machines is mentioned once.
        let mut parts: Vec<&str> = Vec::new();
        for part in expectation.split(" and ") {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts.join(" and ")
    })
}

/// The first line of the disturbed narrative that differs from the undisturbed one.
pub fn first_difference(disturbed: &[String], undisturbed: &[String]) -> String {
    let differs = disturbed
        .iter()
        .zip(undisturbed.iter().map(Some).chain(std::iter::repeat(None)))
        .find(|(line, expected)| Some(*line) != *expected);
    differs.map_or_else(|| "nothing".to_owned(), |(line, _)| nameless(line))
}

/// Replaces words with a digit, which are names, numbers or times, by `#`.
fn nameless(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            "#"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Groups failures, each with the narrative of its undisturbed run. The largest group comes first.
pub fn group(failures: &[(RunResult, Vec<String>)]) -> Vec<FailureGroup> {
    let mut groups: BTreeMap<Key, FailureGroup> = BTreeMap::new();
    for (result, undisturbed) in failures {
        let Some(failure) = &result.failure else { continue };
        let key = Key {
            broken: broken(failure),
            first_difference: first_difference(&result.narrative, undisturbed),
        };
        let group = groups.entry(key.clone()).or_insert_with(|| FailureGroup {
            key,
            seeds: Vec::new(),
            reason: failure.reason.clone(),
            replay: result.replay.clone(),
            report: result.report.clone(),
            undisturbed: None,
        });
        group.seeds.push(result.seed);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.seeds.len()));
    groups
}

/// Groups failures by their cause alone: without undisturbed runs there is nothing to compare.
pub fn group_by_cause(results: &[RunResult]) -> Vec<FailureGroup> {
    let failures: Vec<(RunResult, Vec<String>)> = results
        .iter()
        .filter(|result| !result.passed())
        .map(|result| (result.clone(), result.narrative.clone()))
        .collect();
    group(&failures)
}

#[cfg(test)]
mod tests {
    use scenario::job::Job;
    use scenario::{Scenario, StageKind};

    use super::*;

    fn failed(seed: u64, invariant: Option<&str>, narrative: &[&str]) -> RunResult {
        let job = Job::new(Scenario::new("story", ""), StageKind::Sim, seed);
        let mut result = RunResult::broken(&job, format!("machine m-{seed} is lost; but it existed"));
        if let Some(failure) = &mut result.failure {
            failure.invariant = invariant.map(str::to_owned);
        }
        result.narrative = narrative.iter().map(|line| (*line).to_owned()).collect();
        result
    }

    #[test]
    fn failures_with_the_same_cause_and_difference_are_one_group() {
        let clean = vec!["start".to_owned(), "machine m-1 exists".to_owned()];
        let failures = [
            (
                failed(1, Some("I1"), &["start", "mcm: crash after effect 3"]),
                clean.clone(),
            ),
            (
                failed(2, Some("I1"), &["start", "mcm: crash after effect 17"]),
                clean.clone(),
            ),
            (
                failed(3, None, &["start", "machine m-1 exists", "mcm: pause"]),
                clean.clone(),
            ),
            (failed(4, Some("I1"), &["start", "mcm: pause"]), clean),
        ];
        let groups = group(&failures);
        let shown: Vec<_> = groups
            .iter()
            .map(|group| {
                (
                    group.key.broken.as_str(),
                    group.key.first_difference.as_str(),
                    group.seeds.as_slice(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("I1", "mcm: crash after effect #", &[1, 2][..]),
                ("I1", "mcm: pause", &[4]),
                ("machine # is lost", "mcm: pause", &[3]),
            ]
        );
    }
}
