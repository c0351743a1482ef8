//! JUnit XML of a driver's contract suite: one case for each rule.

use std::path::Path;

use driver_suite::{CaseResult, Outcome};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// The name of the suite, and the class of its cases.
const SUITE: &str = "drydock.driver";

/// Writes the results to a file.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, report: &driver_suite::Report) -> std::io::Result<()> {
    let mut xml = Vec::new();
    junit(report).serialize(&mut xml).map_err(std::io::Error::other)?;
    super::files::write_file(path, &xml)
}

fn junit(report: &driver_suite::Report) -> Report {
    let mut suite = TestSuite::new(SUITE);
    suite.set_time(report.results.iter().map(|result| result.duration).sum());
    suite.add_test_cases(report.results.iter().map(case));
    if !report.leftovers.is_empty() {
        let left: Vec<String> = report.leftovers.iter().map(ToString::to_string).collect();
        suite.set_system_err(format!("left over: {}", left.join(", ")));
    }
    let mut junit = Report::new("drydock driver test");
    junit.add_test_suite(suite);
    junit
}

fn case(result: &CaseResult) -> TestCase {
    let status = match &result.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed(reason) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status
                .set_type(result.name)
                .set_message(reason.clone())
                .set_description(format!("rule: {}", result.rule));
            status
        }
        Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason.clone());
            status
        }
    };
    let mut case = TestCase::new(result.name, status);
    case.set_classname(SUITE).set_time(result.duration);
    case.set_system_out(result.rule);
    case
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_case_is_reported_with_its_rule_and_reason() {
        let result = |name, outcome| CaseResult {
            name,
            rule: "A rule.",
            outcome,
            duration: Duration::from_millis(1500),
        };
        let report = driver_suite::Report {
            results: vec![
                result("first", Outcome::Passed),
                result("second", Outcome::Failed("VM < 1".to_owned())),
                result("third", Outcome::Skipped("not implemented".to_owned())),
            ],
            ..driver_suite::Report::default()
        };
        let xml = junit(&report).to_string().unwrap();
        for expected in [
            "tests=\"3\"",
            "failures=\"1\"",
            "<testcase name=\"first\" classname=\"drydock.driver\" time=\"1.500\">",
            "<failure message=\"VM &lt; 1\" type=\"second\">rule: A rule.</failure>",
            "<skipped message=\"not implemented\"/>",
        ] {
            assert!(xml.contains(expected), "{expected}: {xml}");
        }
    }
}
