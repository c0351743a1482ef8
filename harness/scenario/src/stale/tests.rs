//! The files of stale scenarios: what they say, and the errors of what is wrong.

use std::time::Duration;

use rstest::rstest;

use super::*;

const VALID: &str = "
name: scale_down
about: A ReplicaSet is scaled down while its pods lag.
controller: {user: 'system:kube-controller-manager'}
builtInControllers: ['*', '-replicaset-controller']
lag: {watches: [pods]}
faults:
- {name: busy, match: {verbs: [create], probability: 0.2}, action: {fail: {code: 429}}}
steps:
- apply: {object: {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}}}
- waitFor: {kind: Pod, labels: {app: web}, count: 20, within: 30s}
- waitFor: {kind: ReplicaSet, name: web, field: /status/replicas, is: 20, within: 30s}
- beginLag: {}
- delete: {kind: Pod, labels: {app: web}, count: 5}
- patch: {kind: ReplicaSet, name: web, merge: {spec: {replicas: 15}}}
- wait: lag + 10s
- endLag: {}
expect:
- {kind: Pod, labels: {app: web}, atMost: 20, atLeast: 15}
";

#[test]
fn a_scenario_is_read_with_its_defaults() {
    let scenario = StaleScenario::from_yaml(VALID, "story.yaml").unwrap();
    assert_eq!(scenario.controller.groups, ["system:masters"]);
    assert!(scenario.begins_lag_itself());
    let StaleStep::Wait(wait) = &scenario.steps[6] else {
        panic!("{:?}", scenario.steps[6]);
    };
    assert_eq!(wait.with(Duration::from_secs(30)), Duration::from_secs(40));
    let told: Vec<String> = scenario.steps.iter().map(StaleStep::description).collect();
    assert_eq!(
        told,
        [
            "apply ReplicaSet web",
            "wait until there are 20 Pods",
            "wait until ReplicaSet web has /status/replicas = 20",
            "begin to lag",
            "delete 5 Pods",
            "patch ReplicaSet web",
            "wait lag + 10s",
            "end the lag",
        ]
    );
}

#[rstest]
#[case::unknown_field(
    "lag: {watches",
    "lags: {watches",
    "story.yaml:6:1: lags: unknown field \"lags\"; did you mean \"lag\"?"
)]
#[case::name(
    "name: scale_down",
    "name: Scale Down",
    "story.yaml:2:7: name: \"Scale Down\" is not a name"
)]
#[case::kind(
    "{kind: Pod, labels: {app: web}, count: 20",
    "{kind: Pot, labels: {app: web}, count: 20",
    "steps[1].waitFor.kind: "
)]
#[case::duration("lag + 10s", "lag + ten", "\"lag + ten\" is not a duration: write for example 30s")]
#[case::no_resource("watches: [pods]", "watches: []", "lag.watches: name at least one resource")]
#[case::unknown_resource(
    "watches: [pods]",
    "watches: [pods, podz]",
    "lag.watches[1]: no resource matches \"podz\"; the closest is \"pods\""
)]
#[case::resource_of_another_group(
    "watches: [pods]",
    "watches: [pods], lists: [deployments.batch]",
    "lag.lists[0]: no resource matches \"deployments.batch\""
)]
#[case::mixed_condition(
    "name: web, field: /status/replicas",
    "name: web, count: 3, field: /status/replicas",
    "steps[2].waitFor: write either"
)]
#[case::count_of_none("count: 5}", "count: 0}", "steps[4].delete.count: is 0")]
#[case::fault("code: 429", "code: 418", "faults[0].action.fail.code")]
#[case::nothing_expected(
    ", atMost: 20, atLeast: 15",
    "",
    "expect[0].atMost: write `atMost`, `atLeast` or both"
)]
#[case::impossible("atLeast: 15", "atLeast: 25", "expect[0].atLeast: is 25, more than `atMost` (20)")]
#[case::file("faults:", "objects: [crd.yaml]\nfaults:", "objects[0]: \"crd.yaml\" cannot be read")]
fn an_error_names_the_field_and_the_fix(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    assert!(VALID.contains(from), "{from}");
    let error = StaleScenario::from_yaml(&VALID.replace(from, to), "story.yaml");
    let error = error.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}
