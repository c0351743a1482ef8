//! The JSON Schemas: the committed copies are current, and they accept what is valid and refuse what is not.
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test it schemas` writes the copies.

use std::path::{Path, PathBuf};

use e2e::scenarios;
use harness::campaign::generate;
use harness::campaign::suite::SUITES;
use harness::schema::FileKind;
use rstest::rstest;
use serde::Serialize;
use serde_json::Value;

use crate::drydock::{drydock, printed};
use crate::json_schema::Validator;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn validator(kind: FileKind) -> Validator {
    Validator::new(kind.schema().to_value())
}

/// Fails with the errors of a document that must be valid.
fn assert_valid(validator: &Validator, what: &str, document: &Value) {
    let errors = validator.errors(document);
    assert!(errors.is_empty(), "{what}: {errors:#?}");
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn the_committed_schemas_are_current() {
    for kind in FileKind::ALL {
        let path = root().join("docs/reference/schemas").join(kind.file_name());
        if std::env::var_os("DRYDOCK_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, kind.text()).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == kind.text(),
            "{} is stale: DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test it schemas writes it",
            path.display()
        );
    }
}

#[test]
fn every_scenario_is_valid() {
    let validator = validator(FileKind::Scenario);
    for scenario in scenarios() {
        assert_valid(&validator, &scenario.name, &json(&scenario));
    }
    for file in std::fs::read_dir(root().join("examples/scenarios")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_valid(
            &validator,
            &path.display().to_string(),
            &serde_saphyr::from_str(&text).unwrap(),
        );
    }
}

#[test]
fn every_random_plan_is_valid() {
    let validator = validator(FileKind::Plan);
    for suite in &SUITES {
        for seed in 0..30 {
            let plan = generate::plan(suite, seed, None);
            assert_valid(&validator, &format!("{} {seed}", suite.name), &json(&plan));
        }
    }
    let example = std::fs::read_to_string(root().join("examples/plans/slow-attachment.yaml")).unwrap();
    assert_valid(&validator, "the example", &serde_saphyr::from_str(&example).unwrap());
    assert_valid(
        &validator,
        "a plan that names its scenario",
        &serde_json::json!({ "base": "lifecycle" }),
    );
}

#[test]
fn the_configurations_and_rules_of_the_documents_are_valid() {
    assert_valid(
        &validator(FileKind::Fakecloud),
        "the default",
        &json(&fakecloud::Config::default()),
    );
    for (kind, page, field) in [
        (FileKind::Fakecloud, "fakecloud/README.md", "machineTypes:"),
        (FileKind::ApiFaults, "docs/using/api-server-faults.md", "action:"),
    ] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let blocks = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next());
        let blocks: Vec<&str> = blocks.filter(|block| block.contains(field)).collect();
        assert!(!blocks.is_empty(), "{page} has no example");
        for block in blocks {
            assert_valid(&validator(kind), page, &serde_saphyr::from_str(block).unwrap());
        }
    }
}

#[rstest]
#[case::an_unknown_field(FileKind::Scenario, "{name: a, about: b, step: [], steps: [{wait: 1s}]}")]
#[case::an_unknown_step(FileKind::Scenario, "{name: a, about: b, steps: [{waits: 1s}]}")]
#[case::a_field_of_a_step(FileKind::Scenario, "{name: a, about: b, steps: [{vm: {machine: a, does: kill}}]}")]
#[case::an_action(FileKind::Scenario, "{name: a, about: b, steps: [{vm: {machine: a, do: kil}}]}")]
#[case::a_phase(
    FileKind::Scenario,
    "{name: a, about: b, steps: [{expect: {that: {phase: {machine: a, is: Runing}}, holds: {never: 1m}}}]}"
)]
#[case::a_code(
    FileKind::Scenario,
    "{name: a, about: b, steps: [{inject: {name: a, action: {code: Intern}}}]}"
)]
#[case::a_rule_without_a_name(
    FileKind::Scenario,
    "{name: a, about: b, steps: [{inject: {action: {code: Internal}}}]}"
)]
#[case::a_disturbance(
    FileKind::Plan,
    "{base: lifecycle, disturbances: [{crush: {process: mcm, at: after, effect: 1}}]}"
)]
#[case::a_response(FileKind::ApiFaults, "{name: a, action: {fail: {code: 418}}}")]
#[case::a_call(
    FileKind::CloudFaults,
    "{name: a, match: {call: createMachines}, action: {code: Internal}}"
)]
#[case::a_setting(FileKind::Fakecloud, "{zone: [a]}")]
#[case::a_duration(FileKind::Fakecloud, "{callLatency: fast}")]
fn mistakes_are_refused(#[case] kind: FileKind, #[case] text: &str) {
    let document: Value = serde_saphyr::from_str(text).unwrap();
    assert!(!validator(kind).errors(&document).is_empty(), "{text}");
}

#[test]
fn every_field_has_a_description() {
    for kind in FileKind::ALL {
        let schema = kind.schema().to_value();
        let mut missing = Vec::new();
        collect_undescribed(&schema, kind.name(), &mut missing);
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

fn collect_undescribed(schema: &Value, path: &str, missing: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        // A variant of an enum has one property; its description is beside it.
        let is_variant = properties.len() == 1 && schema.get("description").is_some();
        for (name, field) in properties {
            let has_description = field.get("description").is_some() || is_variant;
            if !has_description {
                missing.push(format!("{path}/{name}"));
            }
        }
    }
    match schema {
        Value::Object(fields) => {
            for (name, below) in fields
                .iter()
                .filter(|(name, _)| !["default", "examples"].contains(&name.as_str()))
            {
                collect_undescribed(below, &format!("{path}/{name}"), missing);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_undescribed(item, path, missing)),
        _ => {}
    }
}

#[test]
fn files_are_checked_without_running_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scenario = "name: story\nabout: A story.\nsteps:\n- apply: {machine: m-1}\n- vm: {machine: m-2, do: kill}\n";
    for (file, text) in [
        ("scenario.yaml", scenario.replace("m-2", "m-1")),
        ("wrong.yaml", scenario.to_owned()),
        ("plan.yaml", "base: lifecycle\n".to_owned()),
        ("api.yaml", "name: a\naction: {drop: {}}\n".to_owned()),
        ("cloud.yaml", "- {name: a, action: {code: Internal}}\n".to_owned()),
        ("fakecloud.yaml", "zones: [a]\n".to_owned()),
        ("other.yaml", "apiVersion: v1\n".to_owned()),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let valid = [
        "validate",
        "scenario.yaml",
        "plan.yaml",
        "api.yaml",
        "cloud.yaml",
        "fakecloud.yaml",
    ];
    let output = drydock(folder, &valid);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    for expected in [
        "scenario.yaml: valid, scenario story, runs on sim, embedded, envtest, kubeconfig, kind",
        "plan.yaml: valid, plan of scenario lifecycle with 0 disturbances",
        "api.yaml: valid, 1 rule",
        "cloud.yaml: valid, 1 rule",
        "fakecloud.yaml: valid, a configuration of fakecloud",
    ] {
        assert!(printed(&output).contains(expected), "{expected}: {}", printed(&output));
    }
    let output = drydock(folder, &["validate", "wrong.yaml", "other.yaml", "scenario.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    for expected in [
        "wrong.yaml:5:17: steps[1].vm.machine: the scenario creates no machine or VM \"m-2\"; the closest is \"m-1\"",
        "other.yaml: its fields are those of no kind of file: set --kind",
        "scenario.yaml: valid",
        "2 of 3 files are not valid",
    ] {
        assert!(printed(&output).contains(expected), "{expected}: {}", printed(&output));
    }
    assert!(!folder.join(".drydock").exists(), "nothing runs");
}

#[test]
fn a_schema_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["schema", "plan"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), FileKind::Plan.text());
    assert!(drydock(folder.path(), &["schema", "--all", "schemas"]).status.success());
    assert!(folder.path().join("schemas/scenario.schema.json").exists());
}
