use futures::FutureExt;
use scenario::Scenario;
use scenario::builder::{create_machine, delete_machine, seconds, wait};
use scenario::plan::{Disturbance, VmFault};
use scenario::step::{Apply, Crash, Moment, Process, Step, VmAction};

use super::*;
use crate::campaign::generate;
use crate::campaign::suite::SUITES;

/// Shrinks with a synchronous trial function.
fn shrunk(plan: Plan, perform: impl Fn(&Plan) -> Trial) -> Option<Shrunk> {
    shrink(plan, async |plan: &Plan| perform(plan)).now_or_never().unwrap()
}

fn crash(effect: u64) -> Disturbance {
    Disturbance::Crash(Crash {
        process: Process::Mcm,
        at: Moment::After,
        effect,
        may_miss: false,
    })
}

fn kill(machine: &str) -> Disturbance {
    Disturbance::Vm(VmFault {
        machine: machine.to_owned(),
        action: VmAction::Kill,
        at: seconds(60),
    })
}

fn machines(plan: &Plan) -> Vec<&str> {
    let steps = plan.scenario.steps.iter();
    let created = steps.filter_map(|step| match step {
        Step::Apply(Apply::Machine(name)) => Some(name.as_str()),
        _ => None,
    });
    created.collect()
}

fn large() -> Plan {
    let mut scenario = Scenario::new("large", "Many machines.");
    for number in 1..=6 {
        scenario = scenario
            .step(create_machine(&format!("m-{number}")))
            .step(wait(seconds(64)));
    }
    scenario = scenario.step(delete_machine("m-2")).step(delete_machine("m-3"));
    Plan {
        disturbances: (1..=6).map(|number| kill(&format!("m-{number}"))).collect(),
        ..Plan::new(scenario, 1)
    }
}

#[test]
fn everything_that_the_failure_does_not_need_is_removed() {
    let fails = |plan: &Plan| Trial {
        fails: machines(plan).contains(&"m-3") && plan.disturbances.contains(&kill("m-3")),
        effects: Vec::new(),
    };
    let Shrunk { plan, trials } = shrunk(large(), fails).unwrap();
    assert_eq!(plan.scenario.steps, [create_machine("m-3")]);
    assert_eq!(plan.disturbances, [kill("m-3")]);
    assert!(trials < 60, "{trials} trials");
}

#[test]
fn a_plan_that_does_not_fail_is_not_shrunk() {
    assert!(shrunk(large(), |_| Trial::default()).is_none());
}

#[test]
fn time_that_the_failure_does_not_need_is_removed() {
    let waited = |plan: &Plan| -> u64 {
        let waits = plan.scenario.steps.iter().filter_map(|step| match step {
            Step::Wait(time) => Some(time.0.value(&scenario::Timeouts::production()).as_secs()),
            _ => None,
        });
        waits.sum()
    };
    let fails = |plan: &Plan| Trial {
        fails: waited(plan) >= 5,
        effects: Vec::new(),
    };
    let plan = shrunk(large(), fails).unwrap().plan;
    assert!((5..10).contains(&waited(&plan)), "{plan:?}");
    assert!(plan.disturbances.is_empty());
}

/// A controller with three effects for each machine that fails when it crashes after the second effect of any machine.
#[test]
fn a_crash_point_follows_its_effect_when_machines_are_removed() {
    let fails = |plan: &Plan| {
        let effects: Vec<String> = machines(plan)
            .iter()
            .flat_map(|name| {
                [
                    format!("PATCH /machines/{name}"),
                    "CreateMachine".to_owned(),
                    "POST /events".to_owned(),
                ]
            })
            .collect();
        let crashed_at = plan.disturbances.iter().filter_map(|disturbance| match disturbance {
            Disturbance::Crash(crash) => effects.get(usize::try_from(crash.effect).unwrap() - 1),
            _ => None,
        });
        Trial {
            fails: crashed_at.into_iter().any(|effect| effect == "CreateMachine"),
            effects,
        }
    };
    let mut plan = large();
    plan.disturbances.push(crash(17));
    let plan = shrunk(plan, fails).unwrap().plan;
    assert_eq!(
        (machines(&plan).len(), plan.disturbances.as_slice()),
        (1, &[crash(2)][..])
    );
}

#[test]
fn every_shrunk_plan_still_fails_and_is_minimal() {
    for seed in 0..40 {
        let plan = generate::plan(&SUITES[0], seed, None);
        // Fails with at least that number of disturbances and of machines.
        let (disturbance_count, machine_count) = (plan.disturbances.len().min(2), machines(&plan).len().min(2));
        let fails = |plan: &Plan| Trial {
            fails: plan.disturbances.len() >= disturbance_count && machines(plan).len() >= machine_count,
            effects: Vec::new(),
        };
        let plan = shrunk(plan, fails).unwrap().plan;
        assert_eq!(
            (plan.disturbances.len(), plan.scenario.steps.len()),
            (disturbance_count, machine_count),
            "seed {seed}"
        );
    }
}
