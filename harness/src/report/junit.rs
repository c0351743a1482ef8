//! JUnit XML for CI systems: one suite for each stage, one case for each run.

use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use scenario::StageKind;
use scenario::result::RunResult;

use super::record::REPORT;

/// Writes all results to a file.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, runs: &[RunResult]) -> std::io::Result<()> {
    let mut xml = Vec::new();
    report(runs).serialize(&mut xml).map_err(std::io::Error::other)?;
    super::files::write_file(path, &xml)
}

fn report(runs: &[RunResult]) -> Report {
    let mut report = Report::new("drydock");
    for stage in StageKind::ALL {
        let of_stage: Vec<&RunResult> = runs.iter().filter(|run| run.stage == stage).collect();
        if of_stage.is_empty() {
            continue;
        }
        let mut suite = TestSuite::new(stage.to_string());
        suite.set_time(Duration::from_secs_f64(
            of_stage.iter().map(|run| run.wall_seconds).sum(),
        ));
        suite.add_test_cases(of_stage.into_iter().map(case));
        report.add_test_suite(suite);
    }
    report
}

fn case(run: &RunResult) -> TestCase {
    let status = match &run.failure {
        None => TestCaseStatus::success(),
        Some(failure) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status
                .set_type(failure.invariant.clone().unwrap_or_else(|| "expectation".to_owned()))
                .set_message(failure.reason.clone())
                .set_description(format!("replay with: {}", run.replay));
            status
        }
    };
    let mut case = TestCase::new(title(run), status);
    case.set_classname(format!("drydock.{}", run.stage));
    case.set_time(Duration::from_secs_f64(run.wall_seconds));
    case.add_property(("seed", run.seed.to_string().as_str()));
    case.add_property(("stage", run.place().as_str()));
    case.add_property(("replay", run.replay.as_str()));
    let mut printed = Vec::new();
    if let Some(folder) = run.report.as_ref().or(run.record.as_ref()) {
        let page = folder.join(REPORT).display().to_string();
        case.add_property(("report", page.as_str()));
        printed.push(format!("report {page}"));
    }
    if let Some(trace) = &run.trace {
        case.add_property(("trace", trace.hash.as_str()));
        printed.push(format!("trace {} ({} entries)", trace.hash, trace.entries));
    }
    if !printed.is_empty() {
        case.set_system_out(printed.join("\n"));
    }
    case
}

/// The name of a run among others of the same scenario and seed.
pub(super) fn title(run: &RunResult) -> String {
    let disturbances = run.disturbances.iter();
    let disturbed: String = disturbances
        .map(|disturbance| format!(" {}", disturbance.what))
        .collect();
    format!("{} seed {}{disturbed}", run.scenario, run.seed)
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;
    use scenario::job::Job;

    use super::*;

    #[test]
    fn a_failure_contains_its_reason_and_the_replay_command() {
        let job = Job::new(Scenario::new("story", "A story."), StageKind::Sim, 7);
        let mut run = RunResult::broken(&job, "VM < 1".to_owned());
        run.report = Some("reports/sim-story-7".into());
        let xml = report(&[run]).to_string().unwrap();
        assert!(
            xml.contains("<system-out>report reports/sim-story-7/report.html</system-out>"),
            "{xml}"
        );
        assert!(xml.contains("failures=\"1\""), "{xml}");
        assert!(xml.contains("VM &lt; 1"), "{xml}");
        assert!(xml.contains("drydock run story --stage sim --seed 7"), "{xml}");
        for property in [
            "<property name=\"seed\" value=\"7\"/>",
            "<property name=\"stage\" value=\"sim\"/>",
        ] {
            assert!(xml.contains(property), "{property}: {xml}");
        }
    }
}
