//! mcm may crash between any two effects; a defect in this protection is detected.

use crate::drydock::{drydock, holds_secret, printed, simulate};

#[test]
#[ignore = "long: mcm crashes before and after each of its effects"]
fn the_lifecycle_completes_whenever_mcm_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["crash", "lifecycle"]);
    assert!(output.status.success(), "{}", printed(&output));
    let printed = printed(&output);
    assert!(
        printed.contains("crash points") && printed.contains(" passed, 0 failed"),
        "{printed}"
    );
    assert!(
        printed.contains("/metadata/uid: uid") && printed.contains("changed the path"),
        "{printed}"
    );
}

#[test]
#[ignore = "long: mcm crashes before and after each of its effects"]
fn a_machine_ends_in_the_same_state_whenever_mcm_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), &["crash", "initialize"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_controller_that_creates_without_a_lookup_is_detected_with_a_report_and_a_replay_line() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(
        folder.path(),
        &["crash", "lifecycle", "--mutant", "create-without-asking"],
    );
    let printed = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("invariant I1 is broken"), "{printed}");
    let replay = printed
        .lines()
        .skip_while(|line| !line.contains("invariant I1"))
        .find_map(|line| line.trim().strip_prefix("replay: drydock run "))
        .unwrap_or_else(|| panic!("no replay line: {printed}"));
    let arguments: Vec<&str> = replay
        .split(' ')
        .filter(|word| !["--stage", "sim"].contains(word))
        .collect();
    let (again, runs) = simulate(folder.path(), &arguments);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(runs[0]["failure"]["invariant"], "I1", "{}", runs[0]);
    let report = folder.path().join(runs[0]["report"].as_str().unwrap());
    for file in ["narrative.txt", "objects.yaml", "vms.yaml", "result.json", "log.txt"] {
        assert!(report.join(file).is_file(), "{file} is missing in {}", report.display());
    }
    let read = |file: &str| std::fs::read_to_string(report.join(file)).unwrap();
    assert!(
        read("narrative.txt").contains("cloud CreateMachine for m-1: OK"),
        "{}",
        read("narrative.txt")
    );
    for expected in ["mcm: crash ", "mcm crashed", "mcm started (2)"] {
        assert!(read("narrative.txt").contains(expected), "{}", read("narrative.txt"));
    }
    assert!(read("trace.txt").contains("fault mcm: crash "), "{}", read("trace.txt"));
    for file in [
        "narrative.txt",
        "objects.yaml",
        "vms.yaml",
        "trace.txt",
        "log.txt",
        "run.drydock.json",
    ] {
        assert!(!holds_secret(&read(file)), "{file} holds a secret");
    }
}
