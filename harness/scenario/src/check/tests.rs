use rstest::rstest;

use crate::Scenario;

/// Machines `m-1` and those of a deployment `md`, with a workload, a node of the world, and two faults.
const HEAD: &str = "\
name: story
about: A story.
world: {nodes: 1}
steps:
- apply: {machine: m-1}
- apply:
    object:
      apiVersion: machine.sapcloud.io/v1alpha1
      kind: MachineDeployment
      metadata: {name: md}
      spec:
        replicas: 1
        selector: {matchLabels: {name: md}}
        template: {metadata: {labels: {name: md}}, spec: {class: {kind: MachineClass, name: class-a}}}
- apply: {statefulSet: {name: db, volume: 1Gi}}
- inject: {name: quota, match: {call: createMachine, machine: m-1}, action: {code: ResourceExhausted}}
- apiFault: {rule: {name: slow, action: {delay: {by: 2s}}}}
";

/// The error of a scenario with one more step, which begins in line 18.
fn error(step: &str) -> Option<String> {
    Scenario::from_yaml(&format!("{HEAD}{step}\n"), "s.yaml")
        .err()
        .map(|error| error.to_string())
}

#[rstest]
#[case::a_machine("- vm: {machine: m-1, do: kill}")]
#[case::a_machine_of_the_deployment("- vm: {machine: md-a-1, do: kill}")]
#[case::a_glob("- deferred: {called: a, among: 'md-*', do: scaleDown}")]
#[case::a_fault_of_a_glob("- inject: {name: b, match: {machine: 'default/md-*'}, action: {code: Internal}}")]
#[case::a_node_of_the_world("- expect: {that: {nodeGone: node-0}, holds: {never: 1m}}")]
#[case::a_claim("- expect: {that: {volumesOf: {claim: data-db-0, is: 1}}, holds: {eventually: 1m}}")]
#[case::a_missing_object("- delete: {kind: Machine, name: m-7, answer: notFound}")]
#[case::an_own_condition_type("- flap: {machine: m-1, condition: OwnProblem, every: 1s, lasts: 1m}")]
#[case::a_resource_with_its_group(
    "- apiFault: {rule: {name: b, match: {resource: machines.machine.sapcloud.io, object: 'md-*'}, action: {drop: {at: beforeCommit}}}}"
)]
fn what_the_scenario_creates_can_be_named(#[case] step: &str) {
    assert_eq!(error(step), None);
}

#[rstest]
#[case::a_deferred_target(
    "- deferred: {called: a, among: typo-*, do: scaleDown}",
    "s.yaml:18:32: steps[5].deferred.among: no machine of the scenario matches \"typo-*\"; the closest is \"md-*\""
)]
#[case::a_renamed_step(
    "- someone: {called: a, among: typo-*, do: scaleDown}",
    "s.yaml:18:31: steps[5].someone.among: no machine of the scenario matches \"typo-*\"; the closest is \"md-*\""
)]
#[case::a_fault(
    "- inject: {name: a, match: {machine: m-typo}, action: {code: Internal}}",
    "s.yaml:18:38: steps[5].inject.match.machine: no machine or VM of the scenario matches \"m-typo\"; the closest is \"m-1\""
)]
#[case::a_fault_in_a_zone(
    "- inject: {name: a, match: {zone: z7}, action: {code: Internal}}",
    "s.yaml:18:35: steps[5].inject.match.zone: no machine class in zone of the scenario matches \"z7\"; the closest is \"z1\""
)]
#[case::a_condition(
    "- expect: {that: {machineGone: m-typo}, holds: {eventually: 1m}}",
    "s.yaml:18:32: steps[5].expect.that.machineGone: the scenario creates no machine \"m-typo\"; the closest is \"m-1\""
)]
#[case::a_part_of_a_condition(
    "- expect: {that: {all: [{phase: {machine: m-2, is: Running}}]}, holds: {eventually: 1m}}",
    "s.yaml:18:43: steps[5].expect.that.all[0].phase.machine: the scenario creates no machine \"m-2\"; the closest is \"m-1\""
)]
#[case::a_vm(
    "- vm: {machine: m-2, do: kill}",
    "steps[5].vm.machine: the scenario creates no machine or VM \"m-2\""
)]
#[case::a_kubelet("- kubelet: {machine: m-2, do: stop}", "steps[5].kubelet.machine: ")]
#[case::a_node(
    "- drain: {node: m-2, within: 1m}",
    "steps[5].drain.node: the scenario creates no node \"m-2\""
)]
#[case::an_object(
    "- delete: {kind: Machine, name: m-2}",
    "steps[5].delete.name: the scenario creates no machine \"m-2\""
)]
#[case::a_kind(
    "- delete: {kind: Machin, name: m-1}",
    "steps[5].delete.kind: unknown kind \"Machin\"; did you mean \"Machine\"?"
)]
#[case::a_rule(
    "- lift: qouta",
    "s.yaml:18:9: steps[5].lift: the scenario creates no cloud fault \"qouta\"; the closest is \"quota\""
)]
#[case::an_api_rule(
    "- liftApiFault: sloow",
    "the scenario creates no API fault \"sloow\"; the closest is \"slow\""
)]
#[case::a_zone("- failZone: {zone: z2, failure: api}", "steps[5].failZone.zone: ")]
#[case::a_deployment(
    "- autoscaler: {deployment: mb, idle: 1m, lasts: 2m}",
    "steps[5].autoscaler.deployment: the scenario creates no MachineDeployment \"mb\"; the closest is \"md\""
)]
#[case::a_resource(
    "- apiFault: {rule: {name: b, match: {resource: machine}, action: {compact: {}}}}",
    "steps[5].apiFault.rule.match.resource: no resource matches \"machine\"; the closest is \"machines\""
)]
#[case::a_workload(
    "- expect: {that: {pods: {of: dv, atLeast: 1}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.pods.of: the scenario creates no workload \"dv\"; the closest is \"db\""
)]
#[case::a_fault_in_a_condition(
    "- expect: {that: {faultHits: {fault: quot, atLeast: 1}}, holds: {eventually: 1m}}",
    "the scenario creates no fault \"quot\"; the closest is \"quota\""
)]
#[case::a_step_of_a_user(
    "- as: {user: a, step: {delete: {kind: Machine, name: m-2}}}",
    "steps[5].as.step.delete.name: "
)]
#[case::a_namespace(
    "- apply: {deployment: {name: web, namespace: tame}}",
    "steps[5].apply.deployment.namespace: the scenario creates no Namespace \"tame\""
)]
#[case::a_priority_class(
    "- apply: {deployment: {name: web, priorityClass: hihg}}",
    "steps[5].apply.deployment.priorityClass: "
)]
fn a_name_that_the_scenario_does_not_create_is_refused(#[case] step: &str, #[case] expected: &str) {
    let error = error(step).unwrap();
    assert!(error.contains(expected), "{error}");
    assert!(error.starts_with("s.yaml:18:"), "{error}");
}

#[rstest]
#[case::a_phase(
    "- expect: {that: {phase: {machine: m-1, is: Runing}}, holds: {eventually: 1m}}",
    "s.yaml:18:45: steps[5].expect.that.phase.is: \"Runing\" is not a phase; did you mean \"Running\"?"
)]
#[case::a_phase_of_a_history(
    "- expect: {that: {history: {machine: m-1, phases: [{phase: Pendin}]}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.history.phases[0].phase: \"Pendin\" is not a phase; did you mean \"Pending\"?"
)]
#[case::a_condition_type(
    "- flap: {machine: m-1, condition: DiskPresure, every: 1s, lasts: 1m}",
    "s.yaml:18:35: steps[5].flap.condition: \"DiskPresure\" is not a condition type of nodes; did you mean \"DiskPressure\"?"
)]
#[case::a_status(
    "- flap: {machine: m-1, condition: Ready, values: ['Yes', 'No'], every: 1s, lasts: 1m}",
    "steps[5].flap.values[0]: \"Yes\" is not a status"
)]
#[case::a_code(
    "- inject: {name: a, action: {code: ResourcesExhausted}}",
    "\"ResourcesExhausted\" is not a machine code; the closest is ResourceExhausted"
)]
#[case::an_error_code(
    "- expect: {that: {errorCode: {machine: m-1, is: Intrenal}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.errorCode.is: \"Intrenal\" is not valid here; did you mean \"Internal\"?"
)]
#[case::a_duration("- wait: 5s - 10s", "s.yaml:18:9: steps[5].wait: \"5s - 10s\" is zero on stage sim")]
#[case::an_unknown_duration(
    "- wait: helthTimeout",
    "\"helthTimeout\" in \"helthTimeout\" is neither a duration such as 90s nor a name; did you mean \"healthTimeout\"?"
)]
#[case::a_duration_of_zero_on_a_wall_clock(
    "- wait: healthTimeout - 1m",
    "\"healthTimeout - 1m0s\" is zero on stage embedded"
)]
#[case::an_expectation_for_no_time(
    "- expect: {that: {machineGone: m-1}, holds: {never: 0s}}",
    "steps[5].expect.holds.never: \"0s\" is zero"
)]
#[case::a_time_longer_than_its_deadline(
    "- expect: {that: {machineGone: m-1}, holds: {forAtLeast: {time: 2m, within: 1m}}}",
    "steps[5].expect.holds.forAtLeast.time: \"2m0s\" is longer than \"1m0s\""
)]
#[case::a_number_that_is_always_reached(
    "- expect: {that: {faultHits: {fault: quota, atLeast: 0}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.faultHits.atLeast: at least 0 is always true"
)]
#[case::bounds_without_a_number(
    "- expect: {that: {pods: {of: db, atLeast: 2, atMost: 1}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.pods.atLeast: no number is at least 2 and at most 1"
)]
#[case::events_without_a_number(
    "- expect: {that: {eventCount: {kind: Machine, name: m-1, reason: Joined}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.eventCount: set `atLeast`, `atMost` or both"
)]
#[case::the_data_of_a_secret(
    "- expect: {that: {field: {kind: Secret, name: class-a-secret, field: /data/a, is: b}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.field.field: the data of Secrets is not observed"
)]
#[case::a_pointer(
    "- expect: {that: {field: {kind: Machine, name: m-1, field: /spec/provideID, is: a}}, holds: {eventually: 1m}}",
    "steps[5].expect.that.field.field: \"/spec/provideID\" is not a field of a Machine: it has no \"provideID\"; did you mean \"providerID\"?"
)]
#[case::an_expectation_that_covers_nothing(
    "- expect: {that: {machineGone: m-1}, holds: throughout, meanwhile: true}",
    "steps[5].expect.holds: no step follows"
)]
fn an_invalid_value_is_refused_with_the_closest_valid_one(#[case] step: &str, #[case] expected: &str) {
    let error = error(step).unwrap();
    assert!(error.contains(expected), "{error}");
    assert!(error.starts_with("s.yaml:18:"), "{error}");
}

#[rstest]
#[case::a_custom_kind(
    "- apply:\n    object:\n      apiVersion: machine.sapcloud.io/v1alpha1\n      kind: MachineSet\n      metadata: {name: ms}\n      spec: {replica: 3}",
    "s.yaml:23:23: steps[5].apply.object.spec.replica: unknown field \"replica\"; did you mean \"replicas\"?"
)]
#[case::a_built_in_kind(
    "- apply: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dat: {}}}",
    "steps[5].apply.object.dat: unknown field \"dat\"; did you mean \"data\"?"
)]
#[case::a_patch(
    "- patch: {kind: MachineDeployment, name: md, merge: {spec: {replica: 3}}}",
    "steps[5].patch.merge.spec.replica: unknown field \"replica\"; did you mean \"replicas\"?"
)]
#[case::a_version(
    "- apply: {object: {apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}}}",
    "steps[5].apply.object.apiVersion: \"apps/v1beta1\" has no kind Deployment; write \"apps/v1\""
)]
fn an_unknown_field_of_an_object_is_refused(#[case] step: &str, #[case] expected: &str) {
    let error = error(step).unwrap();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::a_field_given_twice("- wait: 1s\nname: other", "s.yaml:19:1: ", "the field \"name\" is given twice")]
#[case::a_list_instead_of_fields("- vm: [m-1]", "steps[5].vm: ", "expected a mapping of fields")]
#[case::a_text_instead_of_a_number(
    "- keep: {replicas: three}",
    "steps[5].keep.replicas: ",
    "expected a whole number from 0"
)]
#[case::a_missing_field("- vm: {machine: m-1}", "s.yaml:18:", "the field \"do\" is missing")]
fn a_syntax_error_has_no_terms_of_the_parser(#[case] step: &str, #[case] place: &str, #[case] message: &str) {
    let error = error(step).unwrap();
    assert!(error.contains(place) && error.contains(message), "{error}");
    for term in ["struct", "enum", "Policy", "variant", "u32", "serde"] {
        assert!(!error.contains(term), "{error}");
    }
}
