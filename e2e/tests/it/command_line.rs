//! Bad input: one clear line and exit status 2.

use rstest::rstest;

use crate::drydock::{drydock, said};

#[rstest]
#[case::a_mistyped_scenario(&["run", "lifecicle"], "near it are: lifecycle")]
#[case::a_strange_scenario(&["run", "qqqqqqqqqqqq"], "`drydock list` lists them")]
#[case::a_missing_file(&["run", "--file", "nowhere.yaml"], "cannot read scenario nowhere.yaml")]
#[case::a_file_that_is_no_scenario(&["run", "--file", "bad.yaml"], "bad.yaml: ")]
#[case::a_controller_in_virtual_time(&["run", "--stage", "sim", "--controller", "x"], "use --stage embedded")]
#[case::a_crash_on_a_wall_clock(&["run", "--stage", "embedded", "--crash", "before:1"], "--stage sim")]
#[case::no_jobs(&["run", "--stage", "sim", "--jobs", "0"], "from 1")]
fn bad_input_gets_one_line_and_status_2(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad.yaml"),
        "name: bad\nabout: x\nsteps:\n- wiat: 3s\n",
    )
    .unwrap();
    let output = drydock(folder.path(), arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(words.contains(expected), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[rstest]
#[case::a_stage_of_another_build(&["run", "--stage", "kind"], "sim and embedded")]
#[case::seeds_that_are_none(&["run", "--seeds", "many"], "such as 20")]
#[case::a_crash_point_that_is_none(&["run", "--crash", "during:3"], "before:N or after:N")]
fn a_bad_value_says_what_would_do(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn an_unreadable_file_names_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad.yaml"),
        "name: bad\nabout: x\nsteps:\n- wiat: 3s\n",
    )
    .unwrap();
    let words = said(&drydock(folder.path(), &["run", "--file", "bad.yaml"]));
    assert!(words.contains("line 4") && words.contains("wiat"), "{words}");
}

#[test]
fn the_list_names_every_scenario_and_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    let words = said(&drydock(folder.path(), &["list"]));
    for scenario in e2e::scenarios() {
        let line = words.lines().find(|line| line.starts_with(&scenario.name));
        assert!(line.is_some_and(|line| line.contains("sim")), "{words}");
    }
}
