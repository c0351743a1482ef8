//! Smaller plans: each pass returns the candidates of one kind by position, until there are no more.
//!
//! A candidate may be invalid; the caller validates it.

use std::collections::BTreeSet;
use std::time::Duration;

use scenario::plan::{Disturbance, Plan};
use scenario::step::{Apply, At, Fault, Step, Wait, Window};
use scenario::{Condition, DurationExpression, Expectation, Latency, Timeouts, World};

/// The candidate at a position; `None`: there are no more.
pub(super) type Pass = fn(&Plan, usize) -> Option<Plan>;

/// The passes, from the largest reductions to the smallest.
pub(super) const PASSES: [Pass; 7] = [
    without_disturbances,
    without_machine,
    without_steps,
    with_plain_world,
    with_plain_disturbance,
    with_wait_for_expectation,
    with_less_time,
];

/// Parts of a list, largest first: all, halves, quarters, single elements.
fn parts(length: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut sizes = Vec::new();
    let mut size = length;
    while size > 0 {
        sizes.push(size);
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    sizes.into_iter().flat_map(move |size| {
        (0..length)
            .step_by(size)
            .map(move |from| from..(from + size).min(length))
    })
}

fn without_disturbances(plan: &Plan, position: usize) -> Option<Plan> {
    let part = parts(plan.disturbances.len()).nth(position)?;
    let mut plan = plan.clone();
    plan.disturbances.drain(part);
    Some(plan)
}

fn without_steps(plan: &Plan, position: usize) -> Option<Plan> {
    let part = parts(plan.scenario.steps.len()).nth(position)?;
    let mut plan = plan.clone();
    plan.scenario.steps.drain(part);
    Some(plan)
}

/// Removes all steps and disturbances of one machine.
fn without_machine(plan: &Plan, position: usize) -> Option<Plan> {
    let machines: BTreeSet<&String> = plan
        .scenario
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Apply(Apply::Machine(name)) => Some(name),
            _ => None,
        })
        .collect();
    let machine = (*machines.iter().nth(position)?).clone();
    let mut plan = plan.clone();
    let steps = std::mem::take(&mut plan.scenario.steps);
    plan.scenario.steps = steps.into_iter().filter_map(|step| without(step, &machine)).collect();
    plan.disturbances.retain(|disturbance| match disturbance {
        Disturbance::Vm(fault) => fault.machine != machine,
        Disturbance::Kubelet(fault) => fault.machine != machine,
        Disturbance::Step(timed) => without(timed.step.clone(), &machine).is_some(),
        Disturbance::Cloud(fault) => fault.matches.machine.as_ref() != Some(&machine),
        _ => true,
    });
    Some(plan)
}

/// The step without its parts for a machine; `None`: nothing remains.
fn without(step: Step, machine: &str) -> Option<Step> {
    let about = match &step {
        Step::Apply(Apply::Machine(name)) => Some(name),
        Step::Delete(object) => Some(&object.name),
        Step::Annotate(annotate) => Some(&annotate.name),
        Step::Patch(patch) => Some(&patch.name),
        Step::Inject(fault) => fault.rule.matches.machine.as_ref(),
        Step::Vm(step) => Some(&step.machine),
        Step::Kubelet(step) => Some(&step.machine),
        _ => None,
    };
    if about.is_some_and(|name| name == machine) {
        return None;
    }
    match step {
        Step::Expect(expectation) => {
            let that = other_conditions(expectation.that, machine)?;
            Some(Step::Expect(Expectation { that, ..expectation }))
        }
        step => Some(step),
    }
}

/// The condition without its parts for a machine; `None`: nothing remains.
fn other_conditions(condition: Condition, machine: &str) -> Option<Condition> {
    let others = |list: Vec<Condition>| -> Vec<Condition> {
        let kept = list.into_iter().filter_map(|part| other_conditions(part, machine));
        kept.collect()
    };
    match condition {
        Condition::All(list) => Some(Condition::All(others(list))).filter(|all| *all != Condition::All(Vec::new())),
        Condition::Any(list) => Some(Condition::Any(others(list))).filter(|any| *any != Condition::Any(Vec::new())),
        Condition::Not(inner) => other_conditions(*inner, machine).map(|inner| Condition::Not(Box::new(inner))),
        condition => {
            let text = serde_json::to_string(&condition).unwrap_or_default();
            (!text.contains(&format!("\"{machine}\""))).then_some(condition)
        }
    }
}

fn with_plain_world(plan: &Plan, position: usize) -> Option<Plan> {
    let plain = World::default();
    let mut plan = plan.clone();
    let world = &mut plan.scenario.world;
    match position {
        0 => *world = plain,
        1 => world.replicas = plain.replicas,
        2 => world.cloud.require_initialize = plain.cloud.require_initialize,
        3 => world.cloud.boot_delay = plain.cloud.boot_delay,
        4 => world.drivers = plain.drivers,
        5 => world.fencing = plain.fencing,
        6 => world.health_checks = plain.health_checks,
        7 => world.remediation = plain.remediation,
        _ => return None,
    }
    Some(plan)
}

/// Simplifies a fault: it starts at once, lasts to the end, or occurs once.
fn with_plain_disturbance(plan: &Plan, position: usize) -> Option<Plan> {
    let (index, which) = (position / 4, position % 4);
    let mut plan = plan.clone();
    match (plan.disturbances.get_mut(index)?, which) {
        (Disturbance::Cloud(fault), 0) => fault.matches.window = with_window(fault, |window| window.from = None),
        (Disturbance::Cloud(fault), 1) => fault.matches.window = with_window(fault, |window| window.until = None),
        (Disturbance::Cloud(fault), 2) => fault.matches.times = Some(1),
        (Disturbance::Cloud(fault), 3) => fault.action.at = At::BeforeCommit,
        (Disturbance::Lag(lag), 0) => lag.lasts = None,
        (Disturbance::Api(rule), 0) => rule.matches.window = None,
        (Disturbance::Api(rule), 1) => rule.matches.probability = None,
        (Disturbance::Api(rule), 2) => rule.matches.times = Some(1),
        (Disturbance::Api(rule), 3) => rule.matches.skip = 0,
        _ => {}
    }
    Some(plan)
}

/// The window of a rule after a change; `None`: the rule is always active.
fn with_window(
    fault: &Fault,
    change: impl FnOnce(&mut Window<DurationExpression>),
) -> Option<Window<DurationExpression>> {
    let mut window = fault.matches.window.clone()?;
    change(&mut window);
    (window.from.is_some() || window.until.is_some()).then_some(window)
}

/// Replaces an expectation by a wait, which is enough if an invariant is violated meanwhile.
fn with_wait_for_expectation(plan: &Plan, position: usize) -> Option<Plan> {
    let expectations = plan.scenario.steps.iter().enumerate();
    let mut expectations = expectations.filter(|(_, step)| matches!(step, Step::Expect(_)));
    let (index, _) = expectations.nth(position)?;
    let mut plan = plan.clone();
    plan.scenario.steps[index] = Step::Wait(Wait(Duration::from_mins(10).into()));
    Some(plan)
}

/// Reduces each duration to an eighth, a quarter and a half.
fn with_less_time(plan: &Plan, position: usize) -> Option<Plan> {
    const DIVISORS: [u32; 3] = [8, 4, 2];
    let (index, divisor) = (position / DIVISORS.len(), DIVISORS[position % DIVISORS.len()]);
    let mut plan = plan.clone();
    let duration = durations(&mut plan).into_iter().nth(index)?;
    let now = duration.value(&Timeouts::production());
    let shorter = Duration::from_secs((now / divisor).as_secs());
    if !shorter.is_zero() {
        *duration = shorter.into();
    }
    Some(plan)
}

/// All durations and times of the plan.
fn durations(plan: &mut Plan) -> Vec<&mut DurationExpression> {
    let waits = plan.scenario.steps.iter_mut().filter_map(|step| match step {
        Step::Wait(time) => Some(&mut time.0),
        _ => None,
    });
    let mut durations: Vec<_> = waits.collect();
    for disturbance in &mut plan.disturbances {
        match disturbance {
            Disturbance::Pause(pause) => durations.push(&mut pause.time),
            Disturbance::Lag(lag) => durations.push(&mut lag.by),
            Disturbance::Cloud(fault) => {
                let window = fault.matches.window.as_mut();
                durations.extend(window.and_then(|window| window.from.as_mut()));
                durations.extend(fault.action.latency.as_mut().and_then(Latency::fixed_mut));
            }
            Disturbance::Vm(fault) => durations.push(&mut fault.at),
            Disturbance::Kubelet(fault) => durations.push(&mut fault.at),
            Disturbance::Step(timed) => durations.push(&mut timed.at),
            Disturbance::Api(_) | Disturbance::Crash(_) => {}
        }
    }
    durations
}
