//! Invalid input: one clear line and exit status 2.

use std::process::Command;

use rstest::rstest;

use crate::drydock::{UNREACHABLE, drydock, drydock_program, printed};

#[rstest]
#[case::a_mistyped_scenario(&["run", "lifecicle"], "near it are: lifecycle")]
#[case::an_unknown_scenario_name(&["run", "qqqqqqqqqqqq"], "`drydock list` lists them")]
#[case::a_missing_file(&["run", "--file", "nowhere.yaml"], "cannot read nowhere.yaml")]
#[case::an_invalid_scenario_file(&["run", "--file", "bad.yaml"], "bad.yaml:4:")]
#[case::a_controller_in_virtual_time(&["run", "--stage", "sim", "--controller", "x"], "use --stage embedded")]
#[case::a_crash_of_a_pod(&["run", "--stage", "kind", "--crash", "before:1"], "use --stage embedded or sim")]
#[case::a_plan_for_another_stage(
    &["run", "--plan", "controllers.yaml", "--stage", "embedded"],
    "disturbances[0]: the controllers"
)]
#[case::a_cluster_for_another_stage(&["run", "--stage", "embedded", "--cluster", "a"], "--cluster is for --stage kind")]
#[case::a_kubeconfig_for_another_stage(&["run", "--kubeconfig", "k"], "--kubeconfig is for --stage kubeconfig")]
#[case::images_for_a_pair(
    &["run", "--stage", "kind", "--target-stage", "embedded", "--images", "mcm=a,fakecloud=b"],
    "the stage is kind, that of the target embedded"
)]
#[case::a_missing_target(
    &["run", "--target-stage", "kubeconfig"], "needs --target-kubeconfig FILE"
)]
#[case::virtual_time_beside_the_wall_clock(&["run", "--target-stage", "sim"], "sim goes with sim")]
#[case::no_kubeconfig(&["run", "--stage", "kubeconfig"], "needs --kubeconfig FILE")]
#[case::a_missing_kubeconfig(
    &["run", "--stage", "kubeconfig", "--kubeconfig", "nowhere"], "--kubeconfig nowhere: "
)]
#[case::no_consent(&["run", "--stage", "kubeconfig", "--kubeconfig", "unreachable.kubeconfig"], "say --yes")]
#[case::a_missing_context(
    &["run", "--stage", "kubeconfig", "--kubeconfig", "unreachable.kubeconfig", "--context", "x"], "it has no context \"x\""
)]
#[case::two_at_once_on_one_cluster(
    &["run", "--stage", "kubeconfig", "--kubeconfig", "unreachable.kubeconfig", "--jobs", "2"], "one after another"
)]
#[case::up_on_an_unsupported_stage(&["up", "--stage", "sim"], "embedded, envtest or kind")]
#[case::no_jobs(&["run", "--stage", "sim", "--jobs", "0"], "from 1")]
#[case::no_jobs_on_the_wall_clock(&["run", "--stage", "embedded", "--jobs", "0"], "from 1")]
#[case::two_at_once_on_a_named_cluster(
    &["run", "--stage", "kind", "--cluster", "dev", "--jobs", "2"],
    "without --cluster"
)]
fn invalid_input_fails_with_one_line_and_status_2(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad.yaml"),
        "name: bad\nabout: x\nsteps:\n- wiat: 3s\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("unreachable.kubeconfig"), UNREACHABLE).unwrap();
    let plan = "base: lifecycle\ndisturbances:\n- crash: {process: controllers, at: after, effect: 6}\n";
    std::fs::write(folder.path().join("controllers.yaml"), plan).unwrap();
    let output = drydock(folder.path(), arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[rstest]
#[case::more_jobs_than_open_files_permit("ulimit -n 540; exec \"$0\" run --jobs 40", "give --jobs 5 at most")]
#[case::too_few_open_files("ulimit -n 64; exec \"$0\" run lifecycle", "ulimit -n 140")]
fn jobs_need_open_files(#[case] command: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = drydock_program();
    let output = Command::new("sh")
        .args(["-c", command])
        .arg(program.get_program())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(text.contains(expected) && text.lines().count() == 1, "{text}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "files are left behind");
}

#[rstest]
#[case::an_unknown_stage(&["run", "--stage", "minikube"], "kubeconfig, kind")]
#[case::invalid_seeds(&["run", "--seeds", "many"], "such as 20")]
#[case::an_invalid_crash_point(&["run", "--crash", "during:3"], "before:N or after:N")]
fn an_invalid_value_is_rejected_with_the_valid_ones(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains(expected), "{}", printed(&output));
}

#[test]
fn an_unreadable_file_names_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad.yaml"),
        "name: bad\nabout: x\nsteps:\n- wiat: 3s\n",
    )
    .unwrap();
    let text = printed(&drydock(folder.path(), &["run", "--file", "bad.yaml"]));
    assert!(
        text.contains("bad.yaml:4:3: steps[0].wiat: ") && text.contains("did you mean \"wait\"?"),
        "{text}"
    );
}

#[test]
fn an_old_spelling_in_a_file_is_a_warning_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let old = "name: old\nabout: A story.\nstages: {only: [embedded], because: of the test}\nsteps:\n\
               - inject: {name: a, call: createMachine, code: Internal}\n";
    std::fs::write(folder.path().join("old.yaml"), old).unwrap();
    let output = drydock(folder.path(), &["run", "--file", "old.yaml", "--stage", "sim"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(
        warnings,
        [
            "warning: old.yaml: inject.call is now inject.match.call; the old spelling is removed in the next release",
            "warning: old.yaml: inject.code is now inject.action.code; the old spelling is removed in the next release",
        ]
    );
}

#[test]
fn the_list_names_every_scenario_and_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["list", "--output", "json"]));
    let listed: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    for scenario in e2e::scenarios() {
        let row = listed.iter().find(|row| row["name"] == scenario.name.as_str());
        let stages = scenario::StageKind::ALL.into_iter();
        let there: Vec<String> = stages
            .filter(|stage| scenario.runs_on(*stage))
            .map(|stage| stage.to_string())
            .collect();
        assert_eq!(
            row.map(|row| &row["stages"]),
            Some(&serde_json::json!(there)),
            "{}",
            scenario.name
        );
    }
}

#[test]
fn the_list_has_a_line_for_each_scenario_and_fits_a_hundred_columns() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["list"]));
    assert_eq!(text.lines().count(), 1 + e2e::scenarios().len(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn every_scenario_runs_on_kind_or_the_list_gives_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["list", "--output", "wide"]));
    for scenario in e2e::scenarios() {
        for stage in scenario::StageKind::ALL {
            let Some(reason) = scenario.why_not_on(stage) else {
                continue;
            };
            assert!(
                !reason.trim().is_empty(),
                "{} does not run on {stage}, without a reason",
                scenario.name
            );
            assert!(text.contains(&format!("{stage}: {reason}")), "{text}");
        }
    }
    let on_kind = e2e::scenarios()
        .into_iter()
        .filter(|scenario| scenario.runs_on(scenario::StageKind::Kind));
    assert!(on_kind.count() > 0, "{text}");
}

#[test]
fn the_doctor_reports_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["doctor"]));
    for stage in scenario::StageKind::ALL {
        let line = text.lines().find(|line| line.starts_with(&stage.to_string()));
        assert!(line.is_some(), "{stage}: {text}");
    }
}
