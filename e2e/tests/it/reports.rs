//! Report folders: numbers, marks of runs that pass, and the command `reports`.

use std::path::Path;

use serde_json::Value;

use crate::drydock::{drydock, printed};

/// A scenario whose last expectation is a phase.
fn write(folder: &Path, phase: &str) {
    let text = format!(
        "
name: story
about: A machine comes up.
steps:
- apply: {{machine: m-1}}
- expect:
    that: {{phase: {{machine: m-1, is: {phase}}}}}
    holds: {{eventually: bootDelay + slack}}
"
    );
    std::fs::write(folder.join("story.yaml"), text).unwrap();
}

fn run(folder: &Path) -> Option<i32> {
    let output = drydock(
        folder,
        &["run", "--file", "story.yaml", "--stage", "sim", "--seed", "3"],
    );
    output.status.code()
}

fn reports(folder: &Path, arguments: &[&str]) -> String {
    let output = drydock(folder, &[&["reports"], arguments].concat());
    assert!(output.status.success(), "{}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn names(folder: &Path) -> Vec<(String, bool)> {
    let list: Value = serde_json::from_str(&reports(folder, &["list", "-o", "json"])).unwrap();
    let name = |report: &Value| {
        (
            report["name"].as_str().unwrap().to_owned(),
            !report["passing"].is_null(),
        )
    };
    list.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn replays_keep_earlier_reports_and_mark_them_when_the_scenario_passes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "Failed");
    assert_eq!((run(folder), run(folder)), (Some(1), Some(1)));
    let (first, second) = ("sim-story-3".to_owned(), "sim-story-3.2".to_owned());
    assert_eq!(names(folder), [(first.clone(), false), (second.clone(), false)]);

    // A file that a user added stays when its plan is replayed.
    let plan = ".drydock/reports/sim-story-3/plan.yaml";
    assert!(drydock(folder, &["shrink", plan]).status.success());
    assert!(drydock(folder, &["shrink", plan]).status.success());
    assert_eq!(drydock(folder, &["run", "--plan", plan]).status.code(), Some(1));
    for file in ["plan.shrunk.yaml", "plan.shrunk.2.yaml"] {
        assert!(
            folder.join(".drydock/reports/sim-story-3").join(file).exists(),
            "{file}"
        );
    }

    let shown = reports(folder, &["show", "sim-story-3.2"]);
    for expected in [
        "failed:    after 3m00s in step 2: expected eventually",
        "broken:    expectation: eventually: phase Failed of Machine: Running",
        "now:       it did not pass since then",
        "narrative.txt",
        "machine m-1",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let difference = reports(folder, &["diff", "sim-story-3", "sim-story-3.2"]);
    assert_eq!(difference, "no difference\n", "{difference}");

    write(folder, "Running");
    assert_eq!(run(folder), Some(0));
    let third = "sim-story-3.3".to_owned();
    assert_eq!(names(folder), [(first, true), (second, true), (third, true)]);
    let shown = reports(folder, &["show", "sim-story-3"]);
    assert!(shown.contains("with a changed scenario"), "{shown}");
    let cleaned = reports(folder, &["clean", "--dry-run"]);
    assert!(cleaned.contains("3 of 3 reports would be removed"), "{cleaned}");
    let cleaned = reports(folder, &["clean", "sim-story-3.2"]);
    assert!(cleaned.contains("1 of 3 reports removed"), "{cleaned}");
    let cleaned = reports(folder, &["clean"]);
    assert!(cleaned.contains("2 of 2 reports removed"), "{cleaned}");
    assert_eq!(reports(folder, &["list"]), "there are no reports\n");
}

#[test]
fn an_unknown_report_is_refused_with_the_closest_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "Failed");
    assert_eq!(run(folder), Some(1));
    let output = drydock(folder, &["reports", "show", "sim-story-4"]);
    assert_eq!(output.status.code(), Some(2));
    let message = "there is no report sim-story-4; near it are: sim-story-3";
    assert!(printed(&output).contains(message), "{}", printed(&output));
}
