//! A step without an effect fails the run, unless it may miss.

use mcm_api::Phase;
use rstest::rstest;
use scenario::builder::{boot_delay, create_machine, phase, slack};
use scenario::job::Job;
use scenario::{Scenario, StageKind};

use crate::drydock::{drydock, perform, printed};

/// A Running machine, and a deployment without machines.
const HEAD: &str = "\
name: story
about: A story.
steps:
- apply: {machine: m-1}
- apply:
    object:
      apiVersion: machine.sapcloud.io/v1alpha1
      kind: MachineDeployment
      metadata: {name: md}
      spec:
        replicas: 0
        selector: {matchLabels: {name: md}}
        template: {metadata: {labels: {name: md}}, spec: {class: {kind: MachineClass, name: class-a}}}
- expect: {that: {phase: {machine: m-1, is: Running}}, holds: {eventually: bootDelay + slack}}
";

#[rstest]
#[case::a_cloud_fault(
    "- inject: {MISS name: late, match: {call: createMachine, machine: m-1}, action: {code: Internal}}",
    "the fault \"late\" hit no CreateMachine"
)]
#[case::a_slow_creation(
    "- slowCreation: {MISS name: late, machine: m-1, by: 1m}",
    "the fault \"late\" hit no creation of m-1"
)]
#[case::an_api_fault(
    "- apiFault: {MISS rule: {name: late, match: {resource: storageclasses, verbs: [create]}, action: {fail: {code: 503}}}}",
    "the API fault \"late\" hit no request"
)]
#[case::a_crash(
    "- crash: {MISS process: mcm, at: before, effect: 100000}",
    "mcm had no effect 100000"
)]
#[case::a_target_that_does_not_match(
    "- deferred: {MISS called: a, among: 'md-*', do: cordon}",
    "cordon the node of a: no machine matches \"md-*\""
)]
#[case::an_action_that_does_not_apply(
    "- deferred: {MISS called: a, among: m-1, do: scaleDown}",
    "no machine matches \"m-1\""
)]
#[case::a_label_that_no_machine_has("- strip: {MISS label: none, value: a, lasts: 5s}", "nothing was changed")]
#[case::an_autoscaler_without_nodes("- autoscaler: {MISS deployment: md, idle: 1s, lasts: 20s}", "nothing was changed")]
#[case::an_expectation_about_nothing(
    "- expect: {MISS that: {machineGone: md-1}, holds: {eventually: 1m}}",
    "the expectation could not fail: machine md-1 never existed"
)]
#[case::an_expectation_that_nothing_happens(
    "- expect: {MISS that: {phase: {machine: md-1, is: Failed}}, holds: {never: 1m}}",
    "the expectation could not fail: machine md-1 never existed"
)]
fn a_step_without_an_effect_fails_the_run_unless_it_may_miss(#[case] step: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let run = |miss: &str| {
        let text = format!("{HEAD}{}\n", step.replace("MISS ", miss));
        std::fs::write(folder.path().join("story.yaml"), text).unwrap();
        drydock(folder.path(), &["run", "--stage", "sim", "--file", "story.yaml"])
    };
    let output = run("");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("in step 4: ") && text.contains(expected), "{text}");
    assert!(text.contains("set `mayMiss: true`"), "{text}");
    let output = run("mayMiss: true, ");
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn the_narrative_shows_the_values_of_an_expectation_and_their_times() {
    let scenario = Scenario::new("story", "A machine runs.")
        .step(create_machine("m-1"))
        .eventually(boot_delay() + slack(), phase("m-1", Phase::Running));
    let job = Job {
        narrate: true,
        ..Job::new(scenario, StageKind::Sim, 7)
    };
    let narrative = perform(&job).narrative;
    let readings = narrative.iter().find(|line| line.starts_with("step 2: phase of m-1: "));
    let readings = readings.unwrap_or_else(|| panic!("{narrative:#?}"));
    assert!(
        readings.contains(" → Pending (+") && readings.contains(" → Running (+1m"),
        "{readings}"
    );
}
