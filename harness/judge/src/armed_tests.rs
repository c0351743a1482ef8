use clock::LostTime;
use mcm_api::Phase;
use rstest::rstest;
use scenario::builder::*;
use scenario::observation::{Observation, Seen};
use scenario::{PhaseChange, Scenario, Step, kinds};
use serde_json::{Value, json};

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn machine_in(phase: &str) -> Seen {
    let kind = kinds::find("Machine").unwrap();
    let object = json!({
        "metadata": { "name": "m", "namespace": "default", "uid": "u" },
        "status": { "currentStatus": { "phase": phase } },
    });
    Seen::Applied(kind, Box::new(object))
}

/// The verdict on the only expectation of `scenario` when the phases are observed at these seconds.
fn verdict(scenario: Scenario, phases: &[(i64, &str)], end: i64) -> Verdict {
    let Some(Step::Expect(expectation)) = scenario.steps.into_iter().next() else {
        panic!("no expectation")
    };
    let timeouts = Timeouts::production();
    let mut world = WorldState::default();
    let mut armed = Armed::new(expectation, second(0), &world);
    let mut wake = armed.judge(second(0), &world, &timeouts);
    for (at, phase) in phases {
        while let Verdict::Pending(until) = wake
            && until < second(*at)
        {
            wake = armed.judge(until, &world, &timeouts);
        }
        if !matches!(wake, Verdict::Pending(_)) {
            return wake;
        }
        world.absorb(&Observation {
            at: second(*at),
            what: machine_in(phase),
        });
        wake = armed.judge(second(*at), &world, &timeouts);
    }
    while let Verdict::Pending(until) = wake
        && until <= second(end)
    {
        wake = armed.judge(until, &world, &timeouts);
    }
    wake
}

#[test]
fn a_deadline_is_extended_by_the_time_that_the_host_lost() {
    let expected = || match story()
        .eventually(seconds(10), phase("m", Phase::Running))
        .steps
        .remove(0)
    {
        Step::Expect(expectation) => expectation,
        _ => panic!("no expectation"),
    };
    let lost = |losses: &[(i64, u64)]| {
        let losses: Vec<_> = losses
            .iter()
            .map(|(at, late)| (second(*at), Duration::from_secs(*late)))
            .collect();
        Timeouts {
            lost: LostTime::known(&losses),
            ..Timeouts::short()
        }
    };
    let world = WorldState::default();
    let judged_at =
        |at: i64, timeouts: &Timeouts| Armed::new(expected(), second(100), &world).judge(second(at), &world, timeouts);
    let none = lost(&[(90, 5)]);
    assert_eq!(
        judged_at(105, &none),
        Verdict::Pending(second(110)),
        "time lost before the start does not count"
    );
    assert!(matches!(judged_at(110, &none), Verdict::Missed(_)));
    let some = lost(&[(90, 5), (104, 3), (108, 1)]);
    assert_eq!(judged_at(110, &some), Verdict::Pending(second(114)));
    assert!(matches!(judged_at(114, &some), Verdict::Missed(_)));
}

/// The Machine is Failed between two times. On a wall clock, watches of several objects may disagree for two seconds;
/// versions of one object are observed in their order.
#[rstest]
#[case::one_object_for_a_moment(false, 3, 4, true)]
#[case::several_for_a_moment(true, 3, 4, false)]
#[case::several_for_the_allowed_time(true, 3, 5, false)]
#[case::several_for_longer(true, 3, 6, true)]
fn never_is_missed_when_the_condition_holds_longer_than_watches_may_disagree(
    #[case] several: bool,
    #[case] from: i64,
    #[case] until: i64,
    #[case] missed: bool,
) {
    let failed = phase("m", Phase::Failed);
    let condition = match several {
        true => all([failed, Condition::MachineGone("other".to_owned())]),
        false => failed,
    };
    let Step::Expect(expectation) = story().never(seconds(10), condition).steps.remove(0) else {
        panic!("no expectation")
    };
    let timeouts = Timeouts {
        skew: Duration::from_secs(2),
        ..Timeouts::short()
    };
    let mut world = WorldState::default();
    let mut armed = Armed::new(expectation, second(0), &world);
    let mut verdict = Verdict::Met;
    for at in 0..=10 {
        let name = if (from..until).contains(&at) {
            "Failed"
        } else {
            "Running"
        };
        world.absorb(&Observation {
            at: second(at),
            what: machine_in(name),
        });
        verdict = match armed.judge(second(at), &world, &timeouts) {
            Verdict::Pending(_) => continue,
            verdict => verdict,
        };
        break;
    }
    assert_eq!(matches!(verdict, Verdict::Missed(_)), missed, "{verdict:?}");
}

fn story() -> Scenario {
    Scenario::new("story", "")
}

fn is(expected: &str, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Met => expected == "met",
        Verdict::Missed(_) => expected == "missed",
        Verdict::Pending(_) => expected == "pending",
    }
}

#[rstest]
#[case::in_time(&[(5, "Running")], "met")]
#[case::at_the_deadline(&[(10, "Running")], "met")]
#[case::too_late(&[(11, "Running")], "missed")]
#[case::for_a_moment_in_time(&[(5, "Running"), (6, "Failed")], "met")]
#[case::never(&[], "missed")]
fn eventually(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let verdict = verdict(story().eventually(seconds(10), phase("m", Phase::Running)), phases, 20);
    assert!(is(expected, &verdict), "{verdict:?}");
}

#[rstest]
#[case::throughout(&[(0, "Running")], "met")]
#[case::not_at_the_start(&[(1, "Running")], "missed")]
#[case::with_a_break(&[(0, "Running"), (5, "Unknown"), (6, "Running")], "missed")]
#[case::a_break_afterwards(&[(0, "Running"), (11, "Unknown")], "met")]
fn always(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let mut phases = phases.to_vec();
    let at_start = phases.first().filter(|(at, _)| *at == 0).copied();
    if at_start.is_some() {
        phases.remove(0);
    }
    let condition = match at_start {
        Some(_) => any([phase("m", Phase::Running), does_not_exist()]),
        None => phase("m", Phase::Running),
    };
    let verdict = verdict(story().always(seconds(10), condition), &phases, 20);
    assert!(is(expected, &verdict), "{verdict:?}");
}

fn does_not_exist() -> Condition {
    machine_gone("m")
}

#[rstest]
#[case::not_at_all(&[(5, "Pending")], "met")]
#[case::for_a_moment(&[(5, "Failed"), (5, "Running")], "missed")]
#[case::afterwards(&[(11, "Failed")], "met")]
fn never(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let verdict = verdict(story().never(seconds(10), phase("m", Phase::Failed)), phases, 20);
    assert!(is(expected, &verdict), "{verdict:?}");
}

#[rstest]
#[case::long_enough(&[(2, "Running")], "met")]
#[case::with_a_break(&[(2, "Running"), (4, "Unknown"), (8, "Running")], "missed")]
#[case::after_a_break(&[(2, "Running"), (3, "Unknown"), (4, "Running")], "met")]
fn for_at_least(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let verdict = verdict(
        story().for_at_least(seconds(5), seconds(10), phase("m", Phase::Running)),
        phases,
        20,
    );
    assert!(is(expected, &verdict), "{verdict:?}");
}

#[rstest]
#[case::twice(&[(1, "Unknown"), (2, "Running"), (3, "Unknown")], "met")]
#[case::three_times(&[(1, "Unknown"), (2, "Running"), (3, "Unknown"), (4, "Running"), (5, "Unknown")], "missed")]
fn at_most(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let verdict = verdict(story().at_most(2, seconds(10), phase("m", Phase::Unknown)), phases, 20);
    assert!(is(expected, &verdict), "{verdict:?}");
}

#[rstest]
#[case::in_time(&[(1, "Pending"), (6, "Running")], "met")]
#[case::too_early(&[(1, "Pending"), (2, "Running")], "missed")]
#[case::another_phase_between(&[(1, "Pending"), (3, "Unknown"), (6, "Running")], "missed")]
fn history_has_every_phase_at_its_time(#[case] phases: &[(i64, &str)], #[case] expected: &str) {
    let change = between_times();
    let verdict = verdict(story().eventually(seconds(10), history("m", change)), phases, 20);
    assert!(is(expected, &verdict), "{verdict:?}");
}

fn between_times() -> [PhaseChange; 2] {
    [
        at_any_time(Phase::Pending),
        scenario::builder::between(Phase::Running, seconds(4), seconds(6)),
    ]
}

#[rstest]
#[case::of_the_newest_spec(json!(2), json!(2), true)]
#[case::of_the_previous_spec(json!(2), json!(1), false)]
#[case::of_none(json!(2), json!(null), false)]
#[case::without_a_generation(json!(null), json!(null), false)]
fn observed_compares_the_status_with_the_newest_spec(
    #[case] generation: Value,
    #[case] observed: Value,
    #[case] expected: bool,
) {
    let mut world = WorldState::default();
    let object = json!({
        "metadata": { "name": "md", "generation": generation },
        "status": { "observedGeneration": observed },
    });
    let kind = kinds::find("MachineDeployment").unwrap();
    world.absorb(&Observation {
        at: second(0),
        what: Seen::Applied(kind, Box::new(object)),
    });
    let condition = scenario::builder::observed("MachineDeployment", "md");
    assert_eq!(
        crate::evaluate::holds(&condition, &world, &Timeouts::production()),
        expected
    );
}

/// An expectation that is met at once in a world with the machine `m`, which is Running.
fn met(scenario: Scenario) -> Option<String> {
    let Some(Step::Expect(expectation)) = scenario.steps.into_iter().next() else {
        panic!("no expectation")
    };
    let mut world = WorldState::default();
    world.absorb(&Observation {
        at: second(0),
        what: machine_in("Running"),
    });
    Armed::new(expectation, second(0), &world).ungrounded(&world)
}

#[rstest]
#[case::a_machine_that_exists(never_gone("m"), None)]
#[case::a_machine_that_never_existed(never_gone("x"), Some("machine x never existed"))]
#[case::the_node_of_a_machine(node_gone("m"), None)]
#[case::a_node_that_never_existed(node_gone("x"), Some("Node x never existed"))]
#[case::vms_of_a_machine_without_any(vm_count("m", 0), None)]
#[case::vms_of_no_machine(vm_count("x", 0), Some("no machine or VM x ever existed"))]
#[case::pods_of_no_workload(pods("web").exactly(0), Some("workload web never existed"))]
#[case::a_part_that_never_existed(all([machine_gone("m"), machine_gone("x")]), Some("machine x never existed"))]
#[case::an_alternative_that_exists(any([machine_gone("x"), machine_gone("m")]), None)]
#[case::no_alternative_exists(any([machine_gone("x"), machine_gone("y")]), Some("machine x never existed"))]
#[case::the_opposite(not(exists("Machine", "x")), Some("Machine x never existed"))]
#[case::a_field_that_does_not_exist_yet(unchanged("Machine", "m", "/spec/providerID"), None)]
fn an_expectation_about_nothing_could_not_fail(#[case] condition: Condition, #[case] expected: Option<&str>) {
    let story = |condition| story().eventually(seconds(10), condition);
    assert_eq!(met(story(condition)).as_deref(), expected);
}

fn never_gone(machine: &str) -> Condition {
    not(machine_gone(machine))
}

#[test]
fn readings_show_each_change_with_its_time() {
    let Step::Expect(expectation) = story()
        .at_most(2, seconds(60), phase("m", Phase::Unknown))
        .steps
        .remove(0)
    else {
        panic!("no expectation")
    };
    let mut world = WorldState::default();
    let mut armed = Armed::new(expectation, second(0), &world);
    for (at, phase) in [(5, "Pending"), (62, "Running"), (63, "Running"), (70, "Unknown")] {
        world.absorb(&Observation {
            at: second(at),
            what: machine_in(phase),
        });
        armed.record(second(at), &world);
    }
    assert_eq!(
        armed.readings(second(0)),
        ["phase of m: no machine → Pending (+5.000s) → Running (+1m02s) → Unknown (+1m10s)"]
    );
}

#[test]
fn many_changes_are_shortened_in_the_middle() {
    let Step::Expect(expectation) = story().never(seconds(600), phase("m", Phase::Failed)).steps.remove(0) else {
        panic!("no expectation")
    };
    let mut world = WorldState::default();
    let mut armed = Armed::new(expectation, second(0), &world);
    for at in 1..=100 {
        world.absorb(&Observation {
            at: second(at),
            what: machine_in(&format!("phase-{at}")),
        });
        armed.record(second(at), &world);
    }
    let line = armed.readings(second(0)).remove(0);
    assert!(line.contains("phase-7 (+7.000s) → (85 more) → phase-93"), "{line}");
}
