use std::time::Duration;

use mcm_api::{Code, Phase};
use proptest::prelude::*;
use rstest::rstest;

use super::builder::{any, *};
use super::expect::PodState;
use super::step::{CloudCall, KubeletAction, Moment, ProcessAction, VmAction};
use super::*;
use crate::step::Lift;

/// A scenario with many steps and forms.
fn everything() -> Scenario {
    Scenario::new("everything", "Every part of the model.")
        .tag("model")
        .only_on([StageKind::Sim], "it is never run")
        .step(create_machine("m-1"))
        .step(Step::Apply(step::Apply::Object(serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "key": "1", "other": "yes" },
        }))))
        .step(fail_call("quota", CloudCall::CreateMachine, "m-1", 2, Code::ResourceExhausted))
        .step(Step::Lift(Lift("quota".to_owned())))
        .step(Step::Annotate(step::Annotate {
            api_version: None,
            kind: "Machine".to_owned(),
            name: "m-1".to_owned(),
            annotations: [("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)].into(),
        }))
        .step(Step::Patch(step::Patch {
            api_version: None,
            kind: "Machine".to_owned(),
            name: "m-1".to_owned(),
            namespace: Some("team".to_owned()),
            merge: serde_json::json!({ "spec": { "drainTimeout": "1m" } }),
            status: false,
        }))
        .step(vm("m-1", VmAction::Kill))
        .step(kubelet("m-1", KubeletAction::Stop))
        .step(mcm(ProcessAction::Restart))
        .step(crash_mcm(Moment::Before, 3))
        .step(wait(Duration::from_secs(90)))
        .eventually(boot_delay() + slack(), all([phase("m-1", Phase::Running), vm_count("m-1", 1)]))
        .meanwhile()
        .always(health_timeout() - seconds(1), error_code("m-1", Code::Internal))
        .never(node_grace(), any([machine_gone("m-1"), node_gone("m-1")]))
        .for_at_least(short_retry(), medium_retry(), calls_at_least(CloudCall::CreateMachine, "m-1", 2))
        .at_most(4, long_retry(), phase("m-1", Phase::Failed))
        .eventually(
            creation_timeout(),
            history("m-1", [at_any_time(Phase::Pending), between(Phase::Running, seconds(1), boot_delay())]),
        )
        .step(namespace("team"))
        .step(storage_class())
        .step(priority_class("reserve", -10))
        .step(deployment(workload("web").replicas(3).cpu("900m").priority("reserve").in_namespace("team")))
        .step(stateful_set(workload("db").volume("1Gi").tolerating(pod_toleration())))
        .step(daemon_set(workload("agent")))
        .step(budget("web", 1))
        .step(drain("m-1", 2 * forced_detach() / 3))
        .step(force_delete("Pod", "db-0"))
        .throughout(all([
            pods("web").on("m-1").are(PodState::Unschedulable).at_most(2),
            same_pods("agent", "m-1"),
            unchanged("PersistentVolumeClaim", "data-db-0", "/spec/volumeName"),
            attached_to("data-db-0", "m-1"),
            attached_at_most("data-db-0", 1),
            not(volumes_of("data-db-0", 2)),
        ]))
        .step(delete_machine("m-1"))
}

#[test]
fn a_scenario_survives_a_round_trip_through_yaml() {
    let yaml = everything().to_yaml().unwrap();
    assert_eq!(Scenario::from_yaml(&yaml, "test").unwrap(), everything(), "{yaml}");
}

#[test]
fn a_scenario_may_contain_every_field_of_a_fault() {
    let fault = "\
- inject:
    name: all
    mayMiss: true
    match: {call: createMachine, machine: 'm-*', class: a, zone: b, client: c, skip: 1, times: 2, probability: 0.5,
      window: {from: slack, until: healthTimeout - 1m}, throttle: {perSecond: 2, burst: 3}}
    action: {code: Internal, message: text, latency: 1s-3s, at: afterCommit}
- inject: {name: drawn, action: {error: quota, latency: 30s~5s}}
- inject: {name: lost, action: {lostReply: true, latency: bootDelay + 1m}}
- inject: {name: later, match: {call: createMachine}, action: {effectDelay: 2 * slack}}
- inject: {name: stuck, match: {call: deleteMachine}, action: {stuck: true}}
- inject: {name: part, match: {call: createMachine}, action: {code: Internal, partial: disks}}
- inject: {name: past, match: {call: listMachines}, action: {stale: {by: slack}}}
- inject: {name: calls, match: {call: getMachineStatus}, action: {stale: {calls: 2}}}
- inject: {name: lie, match: {call: getVolumeIDs}, action: {lie: true}}
- inject: {name: nameless, match: {call: createMachine}, action: {nameless: true}}
- apply: {machine: m-1}
- apply:
    object:
      apiVersion: machine.sapcloud.io/v1alpha1
      kind: MachineClass
      metadata: {name: a}
      providerSpec: {zone: b}
";
    let scenario = Scenario::from_yaml(&format!("{HEAD}{fault}"), "story.yaml").unwrap();
    let yaml = scenario.to_yaml().unwrap();
    assert_eq!(Scenario::from_yaml(&yaml, "again").unwrap(), scenario, "{yaml}");
    let Step::Inject(fault) = &scenario.steps[0] else {
        panic!("{scenario:?}");
    };
    assert!(fault.may_miss);
    let rule = step::resolve(&fault.rule, &Timeouts::production());
    let window = rule.matches.window.unwrap();
    assert_eq!(window.from.unwrap().0, Duration::from_mins(1));
    assert_eq!(window.until.unwrap().0, Duration::from_mins(9));
    assert_eq!(rule.action.latency.unwrap().to_string(), "1s-3s");
}

fn deprecations(text: &str) -> Vec<String> {
    let mut found = Deprecations::default();
    file::collect_deprecations(text, "story.yaml", &mut found);
    found.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case("afterEffect: true, code: Internal", "at: afterCommit, code: Internal")]
#[case("effect: lie", "lie: true")]
#[case("effect: stuck", "stuck: true")]
#[case("effect: onlyNics, code: Internal", "partial: nics, code: Internal")]
#[case(
    "latency: 5s, code: Internal, message: text",
    "latency: 5s, code: Internal, message: text"
)]
fn a_fault_in_the_deprecated_spelling_is_equivalent(#[case] old: &str, #[case] new: &str) {
    let applied = "- apply: {machine: m-1}\n";
    let old =
        format!("{HEAD}{applied}- inject: {{name: q, call: createMachine, machine: m-1, skip: 1, times: 2, {old}}}\n");
    let matches = "{call: createMachine, machine: m-1, skip: 1, times: 2}";
    let new = format!("{HEAD}{applied}- inject: {{name: q, match: {matches}, action: {{{new}}}}}\n");
    let scenario = Scenario::from_yaml(&old, "old").unwrap();
    assert_eq!(scenario, Scenario::from_yaml(&new, "new").unwrap());
    assert!(deprecations(&old).len() >= 5, "{:?}", deprecations(&old));
    assert_eq!(deprecations(&new), Vec::<String>::new());
    assert_eq!(deprecations(&scenario.to_yaml().unwrap()), Vec::<String>::new());
}

#[test]
fn a_deprecated_spelling_is_reported_once_per_file_and_field() {
    let steps = "- inject: {name: a, call: createMachine, code: Internal}\n\
                 - inject: {name: b, call: getMachineStatus, effect: {stale: 90s}}\n\
                 - apply: {object: {kind: ConfigMap, inject: {machine: a}}}\n";
    assert_eq!(
        deprecations(&format!("{HEAD}{steps}")),
        [
            "call is now inject.match.call",
            "code is now inject.action.code",
            "effect is now inject.action.stale"
        ]
        .map(|field| format!("story.yaml: inject.{field}; the old spelling is removed in the next release"))
    );
}

#[test]
fn renamed_steps_and_conditions_are_equivalent_and_give_warnings() {
    let story = |names: [&str; 6]| {
        let [create, restore, deferred, description, hits, events] = names;
        format!(
            "{HEAD}- apply: {{machine: m-1}}\n\
             - inject: {{name: q, action: {{code: Internal}}}}\n\
             - {create}: {{machine: m-1, tagged: true}}\n\
             - {restore}: z1\n\
             - {deferred}: {{called: a, among: 'm-*', do: scaleDown}}\n\
             - expect:\n    holds: {{eventually: slack}}\n    that:\n      all:\n        \
             - {description}: {{machine: m-1, text: quota}}\n        \
             - not: {{{hits}: {{fault: q, atLeast: 1}}}}\n        \
             - {events}: {{kind: Machine, name: m-1, reason: Joined, atLeast: 1}}\n"
        )
    };
    let old = story(["makeVm", "mendZone", "someone", "says", "struck", "told"]);
    let new = story([
        "createVm",
        "restoreZone",
        "deferred",
        "descriptionContains",
        "faultHits",
        "eventCount",
    ]);
    assert_eq!(
        Scenario::from_yaml(&old, "old").unwrap(),
        Scenario::from_yaml(&new, "new").unwrap()
    );
    assert_eq!(deprecations(&old).len(), 6, "{:?}", deprecations(&old));
    assert_eq!(deprecations(&new), Vec::<String>::new());
}

const HEAD: &str = "name: story\nabout: A story.\nsteps:\n";

#[rstest]
#[case::an_unknown_field("- wait: 10s\ncolour: red\n", "colour")]
#[case::an_unknown_step("- dance: m-1\n", "dance")]
#[case::an_unknown_duration("- wait: helthTimeout\n", "healthTimeout")]
#[case::an_unknown_code("- inject: {name: q, action: {code: Broken}}\n", "Broken")]
#[case::a_fault_that_does_nothing("- inject: {name: q, match: {call: createMachine}}\n", "steps[0].inject")]
#[case::a_fault_without_a_name(
    "- inject: {match: {call: createMachine}, action: {code: Internal}}\n",
    "story.yaml:4:"
)]
#[case::an_unknown_field_of_a_fault(
    "- inject:\n    name: q\n    action: {cod: Internal}\n",
    "story.yaml:6:14: steps[0].inject.action.cod: unknown field \"cod\"; did you mean \"code\"?"
)]
#[case::a_misspelled_field_of_a_fault("- inject: {name: q, mach: {}}\n", "mach")]
#[case::an_invalid_fault(
    "- inject: {name: q, match: {call: listMachines}, action: {stuck: true}}\n",
    "steps[0].inject: action.stuck is for creations and deletions"
)]
#[case::two_spellings(
    "- inject: {name: q, call: createMachine, match: {call: createMachine}, action: {code: Internal}}\n",
    "`match.call` beside `call`"
)]
#[case::an_object_without_a_name(
    "- apply: {object: {apiVersion: v1, kind: Pod}}\n",
    "steps[0].apply.object.metadata.name"
)]
#[case::effect_zero("- crash: {process: mcm, at: before, effect: 0}\n", "counted from 1")]
#[case::calls_without_a_number(
    "- expect: {that: {calls: {call: createMachine, machine: m}}, holds: {eventually: 1m}}\n",
    "steps[0].expect.that.calls"
)]
#[case::pods_without_a_number(
    "- expect: {that: {pods: {of: web}}, holds: {eventually: 1m}}\n",
    "steps[0].expect.that.pods"
)]
#[case::throughout_without_meanwhile(
    "- expect: {that: {nodeGone: m}, holds: throughout}\n",
    "steps[0].expect.meanwhile"
)]
#[case::a_daemon_set_of_three(
    "- apply: {daemonSet: {name: a, replicas: 3}}\n",
    "steps[0].apply.daemonSet.replicas"
)]
#[case::a_deployment_with_volumes(
    "- apply: {deployment: {name: a, volume: 1Gi}}\n",
    "steps[0].apply.deployment.volume"
)]
#[case::a_step_of_absent_drivers("- process: {name: drivers, do: kill}\n", "world.drivers")]
#[case::too_many_drivers("- wait: 10s\nworld: {drivers: 11}\n", "world.drivers")]
fn an_error_names_the_field_or_the_fix(#[case] steps: &str, #[case] expected: &str) {
    let error = Scenario::from_yaml(&format!("{HEAD}{steps}"), "story.yaml")
        .unwrap_err()
        .to_string();
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn drivers_register_on_every_stage_but_kind_and_effects_are_then_counted_in_sim_only() {
    let stages = |scenario: &Scenario| StageKind::ALL.map(|stage| scenario.runs_on(stage));
    let plain = Scenario::new("story", "A story.").drivers(1);
    assert_eq!(stages(&plain), [true, true, true, true, false]);
    let crash = plain.step(crash_mcm(Moment::Before, 1));
    assert_eq!(stages(&crash), [true, false, false, false, false]);
}

#[test]
fn an_unknown_field_has_its_file_line_column_path_and_the_closest_one() {
    let text = "name: story\nabout: A story.\nsteps:\n- wait: 10s\n- vm: {machine: m-1, doo: kill}\n";
    let error = Scenario::from_yaml(text, "story.yaml").unwrap_err().to_string();
    assert!(
        error.starts_with("story.yaml:5:22: steps[1].vm.doo: unknown field \"doo\"; did you mean \"do\"?"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn reading_any_text_never_panics(text in ".{0,200}") {
        let _ = Scenario::from_yaml(&text, "random");
    }
}
