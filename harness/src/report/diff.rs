//! The differences between two reports, as text.

use std::fmt::Write as _;
use std::fs;

use scenario::job::PLAN;
use scenario::result::RunResult;
use similar::TextDiff;

use super::store::{Report, ReportError};

/// Equal lines around a difference.
const CONTEXT: usize = 2;

/// The differences between two reports: of the results, of the plans, and of the narratives without times. Each of the
/// last two has at most `most` groups of lines.
///
/// # Errors
/// When a plan cannot be read.
pub fn diff(one: &Report, other: &Report, most: usize) -> Result<String, ReportError> {
    let mut text = results(&one.result, &other.result);
    let names = [one, other].map(|report| report.path.display().to_string());
    let (plans, [of_one, of_other]) = ("plans", [plan(one)?, plan(other)?]);
    text += &lines(plans, &names, &of_one, &of_other, most);
    let narrative = |report: &Report| report.result.narrative.join("\n") + "\n";
    text += &lines("narratives", &names, &narrative(one), &narrative(other), most);
    if text.is_empty() {
        text = "no difference\n".to_owned();
    }
    Ok(text)
}

fn plan(report: &Report) -> Result<String, ReportError> {
    let path = report.path.join(PLAN);
    fs::read_to_string(&path).map_err(|source| ReportError::Read {
        path: path.display().to_string(),
        source,
    })
}

/// The fields of the results that differ.
fn results(one: &RunResult, other: &RunResult) -> String {
    let mut text = String::new();
    let [one, other] = [one, other].map(fields);
    for ((name, one), (_, other)) in one.iter().zip(&other).filter(|(one, other)| one != other) {
        let _ = writeln!(text, "{name}:\n-{one}\n+{other}");
    }
    text
}

fn fields(result: &RunResult) -> [(&'static str, String); 8] {
    let failure = result.failure.as_ref();
    let option = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    [
        ("scenario", result.scenario.clone()),
        ("stage", result.place()),
        ("seed", result.seed.to_string()),
        ("defect", option(&result.mutant)),
        ("controller", option(&result.controller)),
        (
            "failure",
            failure.map_or_else(String::new, |failure| failure.signature.to_string()),
        ),
        (
            "reason",
            failure.map_or_else(String::new, |failure| {
                format!("step {}: {}", failure.step, failure.reason)
            }),
        ),
        (
            "trace",
            result
                .trace
                .as_ref()
                .map_or_else(String::new, |trace| trace.hash.clone()),
        ),
    ]
}

/// The difference of two texts in the unified format; empty if they are equal.
fn lines(what: &str, names: &[String; 2], one: &str, other: &str, most: usize) -> String {
    let difference = TextDiff::from_lines(one, other);
    let mut unified = difference.unified_diff();
    unified.context_radius(CONTEXT);
    let mut text = String::new();
    let mut further = 0_usize;
    for (index, group) in unified.iter_hunks().enumerate() {
        if index == 0 {
            let _ = writeln!(text, "{what}:\n--- {}\n+++ {}", names[0], names[1]);
        }
        match index < most {
            true => text += &group.to_string(),
            false => further += 1,
        }
    }
    if further > 0 {
        let _ = writeln!(text, "({further} more differences; `--full` prints all)");
    }
    text
}

#[cfg(test)]
mod tests {
    use scenario::job::Job;
    use scenario::{Scenario, StageKind};

    use super::*;
    use crate::report::folder;

    fn report(folder: &std::path::Path, seed: u64, narrative: &[&str]) -> Report {
        let job = Job {
            reports: folder.to_owned(),
            ..Job::new(Scenario::new("story", "A story."), StageKind::Sim, seed)
        };
        let mut result = RunResult::broken(&job, format!("VM {seed} is left"));
        result.narrative = narrative.iter().map(|line| (*line).to_owned()).collect();
        folder::write(&job, &mut result, None).unwrap();
        Report::read(&result.report.unwrap()).unwrap()
    }

    #[test]
    fn a_difference_has_results_plans_and_narratives() {
        let folder = tempfile::tempdir().unwrap();
        let one = report(folder.path(), 1, &["start", "m-1 is Pending", "end"]);
        let other = report(folder.path(), 2, &["start", "m-1 is Running", "end"]);
        let text = diff(&one, &other, 10).unwrap();
        for expected in [
            "seed:\n-1\n+2\n",
            "reason:\n-step 0: VM 1 is left\n+step 0: VM 2 is left\n",
            "-seed: 1\n+seed: 2\n",
            " start\n-m-1 is Pending\n+m-1 is Running\n end\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("failure:"), "{text}");
        assert!(diff(&one, &other, 0).unwrap().contains("(1 more differences"));
    }

    #[test]
    fn equal_reports_have_no_difference() {
        let folder = tempfile::tempdir().unwrap();
        let one = report(folder.path(), 1, &["start"]);
        assert_eq!(diff(&one, &one, 10).unwrap(), "no difference\n");
    }
}
