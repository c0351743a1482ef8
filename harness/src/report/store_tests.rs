use scenario::{Scenario, StageKind};
use tempfile::TempDir;

use super::*;
use crate::report::folder;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn job(reports: &TempDir) -> Job {
    Job {
        reports: reports.path().to_owned(),
        ..Job::new(Scenario::new("story", "A story."), StageKind::Sim, 7)
    }
}

fn fail(job: &Job) -> PathBuf {
    let mut result = RunResult::broken(job, "VM 1 is left".to_owned());
    folder::write(job, &mut result, None).unwrap();
    result.report.unwrap()
}

fn pass(job: &Job) {
    let mut result = RunResult::broken(job, String::new());
    result.failure = None;
    mark_passing(job, &result, NOW, false).unwrap();
}

/// A run that passes, and whose end is that of the run without disturbance.
fn pass_compared(job: &Job) {
    let mut result = RunResult::broken(job, String::new());
    result.failure = None;
    mark_passing(job, &result, NOW, true).unwrap();
}

fn marks(reports: &TempDir) -> Vec<(String, Option<bool>)> {
    let all = all(reports.path()).unwrap();
    let mut marks: Vec<_> = all
        .iter()
        .map(|report| (report.name(), report.passing.map(|passing| passing.same_plan)))
        .collect();
    marks.sort();
    marks
}

#[test]
fn a_second_report_gets_a_number_and_the_first_one_keeps_its_files() {
    let reports = tempfile::tempdir().unwrap();
    let job = job(&reports);
    let first = fail(&job);
    fs::write(first.join("plan.shrunk.yaml"), "shrunk").unwrap();
    let second = fail(&job);
    assert_eq!(
        (first.file_name().unwrap(), second.file_name().unwrap()),
        (OsStr::new("sim-story-7"), OsStr::new("sim-story-7.2"))
    );
    assert_eq!(fs::read_to_string(first.join("plan.shrunk.yaml")).unwrap(), "shrunk");
    fs::remove_dir_all(first).unwrap();
    assert_eq!(fail(&job).file_name(), Some(OsStr::new("sim-story-7.3")));
}

#[test]
fn the_report_of_an_expected_failure_is_replaced() {
    let reports = tempfile::tempdir().unwrap();
    let job = Job {
        expected_to_fail: true,
        ..job(&reports)
    };
    assert_eq!(fail(&job), fail(&job));
}

#[test]
fn a_run_that_passes_marks_its_reports_until_it_fails_again() {
    let reports = tempfile::tempdir().unwrap();
    let job = job(&reports);
    fail(&job);
    let other = Job {
        controller: Some("my-controller".to_owned()),
        ..job.clone()
    };
    fail(&other);
    pass(&job);
    let (first, second) = ("sim-story-7".to_owned(), "sim-story-7.2".to_owned());
    assert_eq!(marks(&reports), [(first.clone(), Some(true)), (second.clone(), None)]);
    fail(&job);
    let third = ("sim-story-7.3".to_owned(), None);
    assert_eq!(marks(&reports), [(first, None), (second, None), third]);
}

#[test]
fn a_mark_tells_whether_the_scenario_was_changed() {
    let reports = tempfile::tempdir().unwrap();
    let mut job = job(&reports);
    fail(&job);
    job.plan.scenario.about = "Another story.".to_owned();
    pass(&job);
    assert_eq!(marks(&reports), [("sim-story-7".to_owned(), Some(false))]);
}

#[test]
fn the_replay_of_a_plan_refers_to_its_own_report() {
    let reports = tempfile::tempdir().unwrap();
    let job = Job {
        from_plan: true,
        ..job(&reports)
    };
    fail(&job);
    let report = Report::read(&fail(&job)).unwrap();
    let plan = reports.path().join("sim-story-7.2/plan.yaml");
    assert_eq!(report.result.replay, format!("drydock run --plan {}", plan.display()));
    assert!(plan.exists());
}

#[test]
fn folders_without_a_result_are_no_reports() {
    let reports = tempfile::tempdir().unwrap();
    fs::create_dir_all(reports.path().join("kind-cluster")).unwrap();
    fs::create_dir_all(reports.path().join("mutants/R04/sim-story-1")).unwrap();
    assert_eq!(marks(&reports), []);
}

#[test]
fn a_report_about_another_end_passes_only_with_a_comparison() {
    let reports = tempfile::tempdir().unwrap();
    let job = job(&reports);
    let mut result = RunResult::broken(&job, "the end differs".to_owned());
    result.replay = "drydock crash story --only after:1".to_owned();
    if let Some(failure) = &mut result.failure {
        failure.signature.cause = Cause::End;
    }
    folder::write(&job, &mut result, None).unwrap();
    assert_eq!(result.replay, "drydock crash story --only after:1");
    let name = "sim-story-7".to_owned();
    pass(&job);
    assert_eq!(marks(&reports), [(name.clone(), None)]);
    pass_compared(&job);
    assert_eq!(marks(&reports), [(name, Some(true))]);
}
