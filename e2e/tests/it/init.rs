//! `drydock init`: everything that it creates is valid and runs, for mcm and for a controller of the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::drydock::{drydock, drydock_program, printed};

/// The definition of the example widgets.
const WIDGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/widgets/crd.yaml");

/// The command of the example controller.
fn widget_controller(flag: &str) -> String {
    let program = PathBuf::from(drydock_program().get_program()).with_file_name("widget-controller");
    format!("exec {}{flag}", program.display())
}

/// Runs make in the folder of a project.
fn make(folder: &Path, arguments: &[&str]) -> Output {
    let program = drydock_program();
    Command::new("make")
        .args(arguments)
        .env("DRYDOCK", program.get_program())
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The files below a folder with their texts.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), text);
            }
        }
    }
    found
}

fn paths(folder: &Path) -> Vec<String> {
    files(folder).keys().map(|path| path.display().to_string()).collect()
}

#[test]
fn a_test_of_machines_is_created_and_passes_with_its_disturbances() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["init"]);
    assert!(output.status.success(), "{}", printed(&output));
    let expected = [
        ".github/workflows/drydock.yaml",
        "Makefile",
        "drydock/disturbed.yaml",
        "drydock/first.yaml",
    ];
    assert_eq!(paths(folder.path()), expected);
    let workflow = &files(folder.path())[Path::new(".github/workflows/drydock.yaml")];
    assert!(
        serde_saphyr::from_str::<serde_json::Value>(workflow).is_ok(),
        "{workflow}"
    );
    let ours = include_str!("../../../.github/workflows/embedded.yaml");
    for action in workflow.lines().filter(|line| line.contains("uses: actions/")) {
        assert!(ours.contains(action), "{action} has not the version of our workflows");
    }
    let output = make(folder.path(), &["drydock"]);
    assert!(output.status.success(), "{}", printed(&output));
    let text = printed(&output);
    assert!(
        text.contains("drydock/first.yaml: valid") && text.contains("drydock/disturbed.yaml: valid"),
        "{text}"
    );
    assert_eq!(
        text.matches("1 passed, 0 failed\n").count(),
        2,
        "a disturbance hits nothing: {text}"
    );
}

#[test]
fn a_test_of_an_own_kind_passes_and_its_crashes_find_the_planted_bug() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("project");
    std::fs::create_dir_all(folder.join("crds")).unwrap();
    std::fs::copy(WIDGETS, folder.join("crds/widgets.yaml")).unwrap();
    let controller = widget_controller("");
    let output = drydock(
        parent.path(),
        &[
            "init",
            "project",
            "--crd",
            "project/crds/widgets.yaml",
            "--controller",
            &controller,
        ],
    );
    assert!(output.status.success(), "{}", printed(&output));
    let scenario = std::fs::read_to_string(folder.join("drydock/first.yaml")).unwrap();
    assert!(scenario.contains("crds: ['../crds/widgets.yaml']"), "{scenario}");
    let output = make(&folder, &["drydock"]);
    assert!(output.status.success(), "{}", printed(&output));
    let text = printed(&output);
    assert_eq!(
        text.matches("1 passed, 0 failed\n").count(),
        2,
        "a disturbance hits nothing: {text}"
    );

    let bug = widget_controller(" --bug");
    let output = make(&folder, &["-n", "drydock-crash", &format!("CONTROLLER={bug}")]);
    let text = printed(&output);
    assert!(
        text.contains("crash --file drydock/first.yaml --controller \"$CONTROLLER\" --jobs 8\n"),
        "{text}"
    );
    let arguments = [
        "crash",
        "--file",
        "drydock/first.yaml",
        "--jobs",
        "16",
        "--settle",
        "4s",
    ];
    let output = drydock(&folder, &[&arguments[..], &["--controller", &bug]].concat());
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("also writes objects of kind ConfigMap"), "{text}");
    let extra = "the final state differs from the undisturbed run: ConfigMap drydock/first-3 exists";
    assert!(text.contains(extra), "{text}");
}

#[test]
fn no_file_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = folder.path().join(".github/workflows/drydock.yaml");
    std::fs::create_dir_all(workflow.parent().unwrap()).unwrap();
    std::fs::write(&workflow, "mine").unwrap();
    let before = files(folder.path());
    let output = drydock(folder.path(), &["init"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    let text = printed(&output);
    assert!(text.contains(".github/workflows/drydock.yaml exists"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(files(folder.path()), before);
    assert!(!folder.path().join("drydock").exists());
}

#[test]
fn the_targets_of_a_project_with_a_makefile_are_included() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Makefile"), "mine:\n").unwrap();
    let output = drydock(folder.path(), &["init"]);
    let text = printed(&output);
    assert!(output.status.success() && text.contains("include drydock.mk"), "{text}");
    let files = files(folder.path());
    assert_eq!(files[Path::new("Makefile")], "mine:\n");
    let workflow = &files[Path::new(".github/workflows/drydock.yaml")];
    assert!(workflow.contains("run: make -f drydock.mk drydock\n"), "{workflow}");
    let output = make(folder.path(), &["-f", "drydock.mk", "-n", "drydock-crash"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_kind_without_a_derivable_object_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let definition = std::fs::read_to_string(WIDGETS).unwrap();
    let definition = definition.replace(
        "size: {type: integer, minimum: 0, maximum: 100}",
        "size: {type: string, pattern: '^[0-9]+$'}",
    );
    std::fs::write(folder.path().join("crd.yaml"), definition).unwrap();
    let arguments = ["init", "new", "--crd", "crd.yaml", "--controller", "true"];
    let output = drydock(folder.path(), &arguments);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("spec.size") && text.contains("--object FILE"), "{text}");
    assert_eq!(paths(folder.path()), ["crd.yaml"]);

    let object = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: mine}, spec: {size: '3'}}";
    std::fs::write(folder.path().join("mine.yaml"), object).unwrap();
    let output = drydock(folder.path(), &[&arguments[..], &["--object", "mine.yaml"]].concat());
    assert!(output.status.success(), "{}", printed(&output));
    let files = ["new/drydock/first.yaml", "new/drydock/disturbed.yaml"];
    let output = drydock(folder.path(), &[&["validate"], &files[..]].concat());
    assert!(output.status.success(), "{}", printed(&output));
}
