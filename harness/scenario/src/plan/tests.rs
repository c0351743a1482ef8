use rstest::rstest;

use super::*;
use crate::builder::create_machine;

fn named() -> Vec<Scenario> {
    vec![Scenario::new("story", "A story.").step(create_machine("m-1"))]
}

const EVERYTHING: &str = "
base: story
seed: 7
mutant: some-defect
disturbances:
- crash: {process: mcm, at: after, effect: 6}
- pause: {process: mcm, effect: 3, time: 30s}
- lag: {process: mcm, effect: 4, by: slack, lasts: 2m}
- cloud:
    name: outage
    match: {call: createMachine, window: {from: 1m, until: bootDelay + 1m}}
    action: {code: Unavailable}
- api: {name: slow, match: {client: '*:mcm', verbs: [create], window: {from: 10s, until: 1m}}, action: {delay: {by: 2s}}}
- vm: {machine: m-1, do: kill, at: 3m}
- kubelet: {machine: m-1, do: stop, at: 4m}
- step: {at: 5m, afterEvents: 12, do: {failZone: {zone: z1, failure: api}}}
- step: {at: 2 * slack, do: {crashNext: {process: mcm, at: before}}}
mayMiss: true
limits: {virtualTime: 2h, events: 100000}
";

#[test]
fn a_plan_survives_a_round_trip_through_yaml_and_json() {
    let plan = Plan::from_yaml(EVERYTHING, "a.yaml", &named()).unwrap();
    assert_eq!(plan.disturbances.len(), 9);
    let yaml = plan.to_yaml().unwrap();
    assert_eq!(Plan::from_yaml(&yaml, "b.yaml", &[]).unwrap(), plan, "{yaml}");
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(Plan::from_yaml(&json, "c.json", &[]).unwrap(), plan, "{json}");
}

#[test]
fn a_plan_in_the_deprecated_spelling_is_equivalent_and_gives_warnings() {
    let old = "base: story\ndisturbances:\n\
               - cloud: {fault: {name: a, call: createMachine, code: Internal, afterEffect: true}, from: 1m, until: 2 * slack}\n\
               - cloud: {fault: {name: b, call: deleteMachine, latency: 5s}}\n";
    let new = "base: story\ndisturbances:\n\
               - cloud: {name: a, match: {call: createMachine, window: {from: 1m, until: 2 * slack}},\n\
               \x20         action: {code: Internal, at: afterCommit}}\n\
               - cloud: {name: b, match: {call: deleteMachine}, action: {latency: 5s}}\n";
    let plan = Plan::from_yaml(old, "old", &named()).unwrap();
    assert_eq!(plan, Plan::from_yaml(new, "new", &named()).unwrap());
    let found = |text: &str| -> Vec<String> {
        let mut found = Deprecations::default();
        file::collect_deprecations(text, "plan.yaml", &mut found);
        found.iter().map(ToString::to_string).collect()
    };
    let expected = [
        "cloud.fault is now cloud",
        "cloud.fault.call is now cloud.match.call",
        "cloud.fault.code is now cloud.action.code",
        "cloud.fault.afterEffect is now cloud.action.at: afterCommit",
        "cloud.from is now cloud.match.window.from",
        "cloud.until is now cloud.match.window.until",
        "cloud.fault.latency is now cloud.action.latency",
    ];
    let expected = expected.map(|line| format!("plan.yaml: {line}; the old spelling is removed in the next release"));
    assert_eq!(found(old), expected);
    assert_eq!(found(new), Vec::<String>::new());
    assert_eq!(found(&plan.to_yaml().unwrap()), Vec::<String>::new());
}

#[test]
fn a_minimal_plan_has_the_first_seed_and_the_default_limits() {
    let plan = Plan::from_yaml("base: story", "a.yaml", &named()).unwrap();
    assert_eq!(plan, Plan::new(named().remove(0), 1));
}

#[test]
fn the_base_of_a_plan_is_a_file_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    let scenario = &named()[0];
    write("story.yaml", &scenario.to_yaml().unwrap());
    write("plan.yaml", "base: story.yaml\nseed: 7\n");
    let read = |file: &str| Plan::read(&folder.path().join(file), &[], &mut Deprecations::default());
    assert_eq!(read("plan.yaml").unwrap(), Plan::new(scenario.clone(), 7));

    write("story.yaml", "name: story\nabout: A story.\nsteps:\n- wiat: 3s\n");
    let error = read("plan.yaml").unwrap_err().to_string();
    assert!(error.contains("story.yaml:4:3: steps[0].wiat: "), "{error}");
    write("plan.yaml", "base: other.yaml\n");
    let error = read("plan.yaml").unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ") && error.contains("other.yaml"),
        "{error}"
    );
}

#[rstest]
#[case::a_timed_step_that_is_no_fault("base: story\ndisturbances:\n- step: {at: 1m, do: {wait: 5s}}\n", &["disturbances[0].step.do", "wait is no fault"])]
#[case::a_timed_step_with_an_unknown_machine("base: story\ndisturbances:\n- step: {at: 1m, do: {vm: {machine: m-2, do: kill}}}\n", &["disturbances[0].step.do.vm.machine", "m-2"])]
#[case::a_timed_step_with_an_invalid_field("base: story\ndisturbances:\n- step: {at: 1m, do: {crash: {process: mcm, at: before, effect: 0}}}\n", &["disturbances[0].step.do.crash.effect", "from 1"])]
#[case::a_timed_step_without_a_time("base: story\ndisturbances:\n- step: {do: {liftApiFault: a}}\n", &["a.yaml:", "at"])]
#[case::an_unknown_disturbance("base: story\ndisturbances:\n- crahs: {process: mcm}\n", &["a.yaml:3:", "disturbances[0].crahs", "did you mean \"crash\"?"])]
#[case::an_unknown_field("base: story\nsead: 3\n", &["a.yaml:2:1: sead: ", "did you mean \"seed\"?"])]
#[case::an_unknown_process("base: story\ndisturbances:\n- pause: {process: mmc, effect: 1, time: 1s}\n", &["a.yaml:3:20: disturbances[0].pause.process: \"mmc\" is not valid here; did you mean \"mcm\"?"])]
#[case::no_scenario("seed: 1\n", &["base", "define it"])]
#[case::an_unknown_scenario("base: nothing\n", &["base", "nothing", "drydock list"])]
#[case::effect_zero("base: story\ndisturbances:\n- crash: {process: mcm, at: before, effect: 0}\n", &["disturbances[0].crash.effect", "from 1"])]
#[case::a_fault_that_does_nothing(
    "base: story\ndisturbances:\n- cloud: {name: a, match: {call: createMachine}}\n", &["disturbances[0].cloud", "latency"]
)]
#[case::a_fault_without_a_name("base: story\ndisturbances:\n- cloud: {action: {code: Internal}}\n", &["a.yaml:3:", "name"])]
#[case::an_unknown_field_of_a_fault("base: story\ndisturbances:\n- cloud:\n    name: a\n    acton: {}\n", &["a.yaml:5:5: disturbances[0].cloud.acton: ", "did you mean \"action\"?"])]
#[case::an_old_rule_beside_a_new_one(
    "base: story\ndisturbances:\n- cloud: {fault: {name: a, code: Internal}, match: {skip: 1}}\n",
    &["a.yaml:3:", "`match` beside `fault`"]
)]
#[case::two_windows(
    "base: story\ndisturbances:\n- cloud: {name: a, match: {window: {from: 1m}}, action: {code: Internal}, until: 1m}\n",
    &["a.yaml:3:", "`until` beside `match.window`"]
)]
#[case::a_conflict_of_a_read(
    "base: story\ndisturbances:\n- api: {name: a, match: {verbs: [get]}, action: {fail: {code: 409}}}\n", &["disturbances[0].api.", "409"]
)]
#[case::two_rules_of_one_name(
    "base: story\ndisturbances:\n- api: {name: a, action: {compact: {}}}\n- api: {name: a, action: {compact: {}}}\n", &["a.yaml:4:15: disturbances[1].api.name", "\"a\""]
)]
#[case::a_machine_that_does_not_exist(
    "base: story\ndisturbances:\n- vm: {machine: typo-*, do: kill, at: 1m}\n",
    &["a.yaml:3:17: disturbances[0].vm.machine: no machine or VM of the scenario matches \"typo-*\"; the closest is \"m-1\""]
)]
#[case::an_own_scenario_with_an_unknown_machine(
    "scenario:\n  name: own\n  about: x\n  steps:\n  - vm: {machine: m-7, do: kill}\n",
    &["a.yaml:5:19: scenario.steps[0].vm.machine: ", "\"m-7\""]
)]
#[case::a_limit_of_zero("base: story\nlimits: {events: 0}\n", &["limits", "above zero"])]
fn an_error_in_a_plan_names_the_place_and_the_fix(#[case] text: &str, #[case] expected: &[&str]) {
    let error = Plan::from_yaml(text, "a.yaml", &named()).unwrap_err().to_string();
    assert!(error.starts_with("a.yaml:"), "{error}");
    for word in expected {
        assert!(error.contains(word), "{word:?} is not in {error}");
    }
}
