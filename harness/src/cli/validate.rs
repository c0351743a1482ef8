//! `drydock validate`: checks files without running anything.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use scenario::file::{MOST_BYTES, read_text};
use scenario::stale::StaleScenario;
use scenario::{Scenario, StageKind};
use serde_json::Value;

use super::files::{read_plan, read_scenario};
use super::output::say;
use super::{Ended, Outcome, Stop};
use crate::report::record::read_from;
use crate::schema::FileKind;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock validate scenarios/*.yaml\n  drydock validate --kind cloud-faults rules.yaml"
)]
pub(super) struct Validate {
    /// Scenarios, also of `drydock stale`, plans, fault rules, configurations of fakecloud, and records, in YAML or JSON
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// What the files contain; the default is what their fields suggest
    #[arg(long, value_enum)]
    kind: Option<FileKind>,
}

impl Validate {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let mut invalid = 0_usize;
        for file in &self.files {
            match self.check(file, scenarios) {
                Ok(description) => say!("{}: {description}", file.display()),
                Err(stop) => {
                    crate::cli::output::complain!("drydock: {stop}");
                    invalid += 1;
                }
            }
        }
        match invalid {
            0 => Ok(Outcome::Passed),
            invalid => Err(Stop::Usage(format!(
                "{invalid} of {} files are not valid",
                self.files.len()
            ))),
        }
    }

    /// Checks a file. Returns a description of its content.
    fn check(&self, file: &Path, scenarios: &[Scenario]) -> Result<String, Stop> {
        let shown = file.display();
        let cannot = |error: io::Error| Stop::Usage(format!("cannot read {shown}: {error}"));
        if self.kind == Some(FileKind::Record) || self.kind.is_none() && is_record(file).map_err(cannot)? {
            return check_record(file);
        }
        let bytes = std::fs::metadata(file).map_err(cannot)?.len();
        if bytes > MOST_BYTES {
            return Err(Stop::Usage(format!(
                "{shown}: it has {bytes} bytes, and files of these kinds have at most {MOST_BYTES}: split it, or set --kind record \
                 if it is the record of a run"
            )));
        }
        let text = read_text(file).map_err(cannot)?;
        let kind = self.kind.or_else(|| kind_of(&text)).ok_or_else(|| {
            Stop::Usage(format!(
                "{shown}: its fields are those of no kind of file: set --kind to scenario, plan, stale, \
                 api-faults, cloud-faults, fakecloud or record"
            ))
        })?;
        let count = |rules: usize| format!("valid, {rules} {}", if rules == 1 { "rule" } else { "rules" });
        Ok(match kind {
            FileKind::Scenario => {
                let scenario = read_scenario(file)?;
                format!("valid, scenario {}, runs on {}", scenario.name, stages(&scenario))
            }
            FileKind::Plan => {
                let plan = read_plan(file, scenarios)?;
                format!(
                    "valid, plan of scenario {} with {} disturbances",
                    plan.scenario.name,
                    plan.disturbances.len()
                )
            }
            FileKind::Stale => {
                let scenario = StaleScenario::read(file)?;
                format!("valid, scenario {} of drydock stale", scenario.name)
            }
            FileKind::ApiFaults => {
                let rules = apiserver::faults::parse(&text);
                count(rules.map_err(|error| Stop::Usage(format!("{shown}: {error}")))?.len())
            }
            FileKind::CloudFaults => count(fakecloud::read_rules(&shown.to_string(), &text)?.len()),
            FileKind::Fakecloud => {
                fakecloud::Config::from_yaml(&shown.to_string(), &text)?;
                format!("valid, {}", kind.description())
            }
            FileKind::Record => check_record(file)?,
        })
    }
}

fn check_record(file: &Path) -> Result<String, Stop> {
    let record = read_from(file)?;
    let (place, points) = (&record.meta.place, record.points.len());
    Ok(format!(
        "valid, record of {} on {} with {points} events",
        place.scenario, place.stage
    ))
}

fn stages(scenario: &Scenario) -> String {
    let on = StageKind::ALL.into_iter().filter(|stage| scenario.runs_on(*stage));
    on.map(|stage| stage.to_string()).collect::<Vec<_>>().join(", ")
}

/// Whether the name or the first bytes of a file are those of a record, which may be cut off or too large to be read.
fn is_record(file: &Path) -> io::Result<bool> {
    if file.is_dir() || file.file_name().is_some_and(|name| name == record::FILE) {
        return Ok(true);
    }
    let mut head = Vec::new();
    File::open(file)?.take(64).read_to_end(&mut head)?;
    head.retain(|byte| !byte.is_ascii_whitespace());
    Ok(head.starts_with(b"{\"version\":"))
}

/// The kind of file that the fields suggest. A text that is not YAML counts as a scenario, whose errors have positions.
fn kind_of(text: &str) -> Option<FileKind> {
    let Ok(document) = serde_saphyr::from_str::<Value>(text) else {
        return Some(FileKind::Scenario);
    };
    let rule = document.get(0).unwrap_or(&document);
    let has = |value: &Value, fields: &[&str]| fields.iter().any(|field| value.get(field).is_some());
    if has(&document, &["points"]) {
        return Some(FileKind::Record);
    }
    if has(&document, &["lag"]) {
        return Some(FileKind::Stale);
    }
    if has(&document, &["steps"]) {
        return Some(FileKind::Scenario);
    }
    if has(&document, &["scenario", "base"]) {
        return Some(FileKind::Plan);
    }
    if let Some(action) = rule.get("action") {
        return Some(match has(action, &API_ACTIONS) {
            true => FileKind::ApiFaults,
            false => FileKind::CloudFaults,
        });
    }
    let schema = FileKind::Fakecloud.schema();
    let known = schema.get("properties").and_then(Value::as_object)?;
    let fields = document.as_object()?;
    fields
        .keys()
        .any(|field| known.contains_key(field))
        .then_some(FileKind::Fakecloud)
}

/// The actions of rules of the API server.
const API_ACTIONS: [&str; 12] = [
    "delay",
    "drop",
    "fail",
    "truncateWatch",
    "freezeWatch",
    "lagWatch",
    "staleList",
    "staleGet",
    "partition",
    "compact",
    "restart",
    "duplicateEvent",
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn all_actions_of_the_api_server_are_known() {
        let schema = FileKind::ApiFaults.schema().to_value();
        let actions = schema["definitions"]["Action"]["oneOf"].as_array().unwrap().iter();
        let names: Vec<&str> = actions.filter_map(|action| action["required"][0].as_str()).collect();
        assert_eq!(names, API_ACTIONS);
    }

    #[rstest]
    #[case::a_scenario("name: a\nsteps: []", Some(FileKind::Scenario))]
    #[case::no_yaml("name: [", Some(FileKind::Scenario))]
    #[case::a_plan("base: lifecycle", Some(FileKind::Plan))]
    #[case::a_plan_with_its_scenario("scenario: {steps: []}", Some(FileKind::Plan))]
    #[case::a_stale_scenario("lag: {watches: [pods]}\nsteps: []", Some(FileKind::Stale))]
    #[case::an_api_rule("{name: a, action: {drop: {}}}", Some(FileKind::ApiFaults))]
    #[case::api_rules("[{name: a, action: {freezeWatch: {}}}]", Some(FileKind::ApiFaults))]
    #[case::a_cloud_rule("{name: a, action: {code: Internal}}", Some(FileKind::CloudFaults))]
    #[case::a_configuration("zones: [a]", Some(FileKind::Fakecloud))]
    #[case::another_file("apiVersion: v1", None)]
    fn fields_suggest_the_kind_of_file(#[case] text: &str, #[case] expected: Option<FileKind>) {
        assert_eq!(kind_of(text), expected);
    }

    #[rstest]
    #[case::a_truncated_record("kept.json", "{ \"version\": 1, \"meta\"", "ends in the middle")]
    #[case::an_empty_record("run.drydock.json", "", "it is empty")]
    fn a_record_is_recognized_also_if_it_is_cut_off(#[case] name: &str, #[case] text: &str, #[case] expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let message = validated(&file);
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn a_huge_file_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("story.yaml");
        std::fs::File::create(&file).unwrap().set_len(2 << 30).unwrap();
        let message = validated(&file);
        assert!(
            message.contains("it has 2147483648 bytes") && message.contains("split it"),
            "{message}"
        );
    }

    /// Why a file is not valid.
    fn validated(file: &Path) -> String {
        let command = Validate {
            files: vec![file.to_owned()],
            kind: None,
        };
        command.check(file, &[]).unwrap_err().to_string()
    }
}
