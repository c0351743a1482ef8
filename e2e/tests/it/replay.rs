//! Plans: they are followed reproducibly; errors are reported with their position.

use std::collections::BTreeSet;
use std::path::Path;

use rstest::rstest;
use serde_json::Value;

use crate::drydock::{drydock, printed};

/// A crash that the defect does not survive, a lost response and a late watch, in half a minute.
const SHORT: &str = "
scenario:
  name: short
  about: A machine is created under many disturbances.
  steps:
  - apply: {machine: m-1}
  - wait: 30s
seed: 3
disturbances:
- api:
    name: lost
    match: {client: '*:machine-controller-manager', verbs: [patch], times: 1}
    action: {drop: {at: afterCommit}}
- crash: {process: mcm, at: after, effect: 7}
- lag: {process: mcm, effect: 2, by: 3s}
";

/// The JSON results of the runs with these arguments.
fn follow(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["run", "--json", "result.json"];
    all.extend(arguments);
    let output = drydock(folder, &all);
    let text = std::fs::read(folder.join("result.json"));
    let text = text.unwrap_or_else(|error| panic!("no result ({error}): {}", printed(&output)));
    let document: Value = serde_json::from_slice(&text).unwrap();
    document["runs"].as_array().unwrap().clone()
}

#[rstest]
#[case::ten_times(10)]
#[ignore = "long: a hundred runs"]
#[case::a_hundred_times(100)]
fn a_plan_gives_the_same_trace_in_every_process(#[case] times: usize) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), SHORT).unwrap();
    let again: Vec<&str> = std::iter::repeat_n(["--plan", "plan.yaml"], times).flatten().collect();
    let runs = follow(folder.path(), &again);
    assert_eq!(runs.len(), times);
    let traces: BTreeSet<String> = runs.iter().map(|run| run["trace"].to_string()).collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    for disturbance in runs[0]["disturbances"].as_array().unwrap() {
        assert_eq!(disturbance["hits"], 1, "{disturbance}");
    }
}

/// mcm is killed right after a write and right before a cloud call, and is paused for some time.
const ON_A_WALL_CLOCK: &str = "
base: lifecycle
disturbances:
- crash: {process: mcm, at: after, effect: 3}
- pause: {process: mcm, effect: 8, time: 1s}
- lag: {process: mcm, effect: 2, by: 100ms}
- cloud: {fault: {name: slow, call: createMachine, latency: 200ms, times: 1}}
- api:
    name: lost
    match: {client: '*:machine-controller-manager', verbs: [create], resource: secrets, times: 1}
    action: {drop: {at: afterCommit}}
";

#[test]
fn a_plan_is_followed_on_the_wall_clock() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), ON_A_WALL_CLOCK).unwrap();
    let runs = follow(folder.path(), &["--plan", "plan.yaml", "--stage", "embedded"]);
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert!(run["failure"].is_null(), "{run}");
    for disturbance in run["disturbances"].as_array().unwrap() {
        assert_eq!(disturbance["hits"], 1, "{disturbance}");
    }
}

#[test]
fn the_example_plan_delays_both_attachments() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plans/slow-attachment.yaml");
    let folder = tempfile::tempdir().unwrap();
    let runs = follow(folder.path(), &["--plan", plan.to_str().unwrap()]);
    assert!(runs[0]["failure"].is_null(), "{}", runs[0]);
    assert_eq!(runs[0]["disturbances"][0]["hits"], 2, "{}", runs[0]);
}

#[test]
fn a_failed_run_leaves_its_plan_and_a_replay_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("plan.yaml"),
        format!("{SHORT}mutant: create-without-asking\n"),
    )
    .unwrap();
    let first = follow(folder.path(), &["--plan", "plan.yaml"]);
    assert_eq!(first[0]["failure"]["invariant"], "I1", "{}", first[0]);
    let replay = first[0]["replay"].as_str().unwrap();
    let arguments: Vec<&str> = replay.strip_prefix("drydock run ").unwrap().split(' ').collect();
    assert_eq!(arguments[0], "--plan", "{replay}");
    let again = follow(folder.path(), &arguments);
    assert_eq!(first[0]["trace"], again[0]["trace"]);
}

#[test]
fn a_disturbance_without_a_hit_fails_the_run_unless_it_may_miss() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "base: lifecycle\ndisturbances:\n- crash: {process: mcm, at: before, effect: 100000}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let output = drydock(folder.path(), &["run", "--plan", "plan.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(
        printed(&output).contains("the disturbance hit nothing: crash mcm before effect 100000"),
        "{}",
        printed(&output)
    );
    std::fs::write(folder.path().join("plan.yaml"), format!("{plan}mayMiss: true\n")).unwrap();
    let output = drydock(folder.path(), &["run", "--plan", "plan.yaml"]);
    let printed = printed(&output);
    assert!(output.status.success(), "{printed}");
    assert!(
        printed.contains("warning: crash mcm before effect 100000 never hit"),
        "{printed}"
    );
    assert!(
        printed.contains("1 passed, 0 failed; warning: 1 disturbance never hit"),
        "{printed}"
    );
}

#[rstest]
#[case::a_crash("crash: {process: mcm, at: before, effect: 100000}", false)]
#[case::a_crash_that_may_miss("crash: {process: mcm, at: before, effect: 100000, mayMiss: true}", true)]
#[case::a_crash_of_what_does_nothing_more("crashNext: {process: remediation, at: before}", false)]
#[case::a_rule_for_no_call(
    "inject: {name: late, match: {call: listMachines, machine: m-1}, action: {code: Internal}}",
    false
)]
#[case::a_rule_that_may_miss(
    "inject: {name: late, match: {call: createMachine, machine: m-1, skip: 9}, action: {code: Internal}, mayMiss: true}",
    true
)]
fn a_timed_step_without_a_hit_fails_the_run_unless_it_may_miss(#[case] step: &str, #[case] passes: bool) {
    let folder = tempfile::tempdir().unwrap();
    let plan = format!("base: lifecycle\ndisturbances:\n- step: {{at: 10s, do: {{{step}}}}}\n");
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let output = drydock(folder.path(), &["run", "--plan", "plan.yaml"]);
    let printed = printed(&output);
    assert_eq!(output.status.success(), passes, "{printed}");
    assert_eq!(printed.contains("the disturbance hit nothing"), !passes, "{printed}");
}

#[rstest]
#[case::virtual_time("{virtualTime: 1m}", "1m00s of virtual time (limits.virtualTime)")]
#[case::events("{events: 100}", "more than 100 events (limits.events)")]
fn a_runaway_run_reports_the_exceeded_limit(#[case] limits: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let plan = format!("base: lifecycle\nlimits: {limits}\n");
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let runs = follow(folder.path(), &["--plan", "plan.yaml"]);
    let reason = runs[0]["failure"]["reason"].as_str().unwrap();
    assert!(reason.contains("it runs away") && reason.contains(expected), "{reason}");
}

#[rstest]
#[case::an_unknown_word("base: lifecycle\ndisturbances:\n- crahs: {}\n", &["plan.yaml:3:", "disturbances[0].crahs: ", "did you mean \"crash\"?"])]
#[case::an_unknown_scenario("base: lifecicle\n", &["plan.yaml:1:7: base: ", "lifecicle", "did you mean \"lifecycle\"?"])]
fn an_invalid_plan_fails_with_one_line_and_status_2(#[case] plan: &str, #[case] expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let output = drydock(folder.path(), &["run", "--plan", "plan.yaml"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{stderr}");
    }
}
