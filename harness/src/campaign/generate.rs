//! Generates random plans: a world, user actions, and disturbances for a limited time span. After the span no fault is
//! active, and the world must reach its desired state within a bound.
//!
//! A plan depends only on its seed. The world, the users and each kind of fault draw from separate random streams, so
//! that a new kind of fault does not change the others. Consecutive seeds alternate between small and large worlds. A
//! correct controller survives every generated fault.

mod faults;
mod health_check;
mod preservation;
mod rollout;

use std::time::Duration;

use clock::{Seed, Stream};
use mcm_api::{GoDuration, Phase};
use scenario::builder::{
    all, any, apply, budget, create_machine, creation_timeout, delete_machine_if_present, deployment, health_timeout,
    machine_gone, node_gone, node_grace, phase, seconds, slack, vm_count, wait, workload,
};
use scenario::fixtures::CLASS;
use scenario::plan::{Disturbance, Limits, Plan};
use scenario::{Condition, DurationExpression, Scenario, Step};
use serde_json::json;

use super::suite::{HEALTH_CHECK, MACHINE, PRESERVATION, ROLLOUT, Suite};

/// Drain timeout of machines with pods.
const DRAIN: Duration = Duration::from_mins(5);
/// Number of world sizes; consecutive seeds alternate between them.
const SIZES: u64 = 4;
/// Limit of virtual time, which no correct run reaches.
const VIRTUAL_LIMIT: Duration = Duration::from_hours(6);
/// Limit of trace entries, which no correct run reaches.
const EVENT_LIMIT: u64 = 500_000;

/// The size of a seed's world: 1 to 4.
fn size(seed: u64) -> u64 {
    1 + seed % SIZES
}

/// A machine (or name pattern) with the seconds of its creation and deletion.
#[derive(Debug)]
struct Life {
    name: String,
    created: u64,
    deleted: Option<u64>,
}

/// The plan of a seed.
pub fn plan(suite: &Suite, number: u64, mutant: Option<&str>) -> Plan {
    let seed = Seed::new(number).child(&format!("campaign {}", suite.name));
    let mut world = seed.stream("world");
    let size = size(number);
    let own_plan = match suite.name {
        PRESERVATION => Some(preservation::plan(suite, number, &seed, size)),
        HEALTH_CHECK => Some(health_check::plan(suite, number, &seed, size)),
        _ => None,
    };
    if let Some(plan) = own_plan {
        return Plan {
            mutant: mutant.map(str::to_owned),
            ..plan
        };
    }
    let (mut scenario, disturbances) = if suite.name == ROLLOUT {
        let span = rollout::span(size, &mut world);
        let lives = rollout::lives(size);
        let disturbances = faults::draw(&seed.child("faults"), size, span, &lives);
        (rollout::scenario(suite, &seed, size, span), disturbances)
    } else {
        // The span is short, so that faults stay well below the timeouts that would make a machine fail.
        let span = 60 + 60 * world.below(1 + size);
        let lives = lives(size, span, &mut seed.stream("users"));
        let disturbances = faults::draw(&seed.child("faults"), size, span, &lives);
        (scenario(suite, &mut world, span, &lives, &disturbances), disturbances)
    };
    scenario.world.drivers = drivers(&mut seed.stream("drivers"));
    Plan {
        scenario,
        seed: number,
        mutant: mutant.map(str::to_owned),
        disturbances,
        may_miss: true,
        limits: Limits {
            virtual_time: GoDuration(VIRTUAL_LIMIT),
            events: EVENT_LIMIT,
            ..Limits::default()
        },
    }
}

/// In one of ten worlds one or two processes of the driver register with mcm.
fn drivers(world: &mut Stream) -> u32 {
    match world.chance(0.1) {
        true => 1 + u32::from(world.chance(0.5)),
        false => 0,
    }
}

fn lives(size: u64, span: u64, users: &mut Stream) -> Vec<Life> {
    let count = 1 + users.below(size);
    let life = |number| {
        let created = if number == 1 { 0 } else { users.below(span / 2) };
        Life {
            name: format!("m-{number}"),
            created,
            deleted: users.chance(0.6).then(|| created + 1 + users.below(span - created)),
        }
    };
    (1..=count).map(life).collect()
}

/// The scenario: user actions in order of time, and the expected final state.
fn scenario(suite: &Suite, world: &mut Stream, span: u64, lives: &[Life], disturbances: &[Disturbance]) -> Scenario {
    let mut scenario = Scenario::new("campaign", suite.about);
    scenario.world.cloud.require_initialize = world.chance(0.2);
    scenario.world.replicas = if world.chance(0.1) { 2 } else { 1 };
    scenario.world.cloud.boot_delay = seconds(5 + world.below(60));
    let pods_run = suite.name == MACHINE;
    if pods_run {
        let pods = u32::try_from(1 + world.below(2 * lives.len() as u64)).unwrap_or(1);
        scenario = scenario.step(deployment(workload("web").replicas(pods)));
        scenario = scenario.step(budget("web", 1));
    }
    let machine = |name: &str| match pods_run {
        true => machine_that_drains(name),
        false => create_machine(name),
    };
    let created = lives.iter().map(|life| (life.created, machine(&life.name)));
    let deleted = lives
        .iter()
        .filter_map(|life| Some((life.deleted?, delete_machine_if_present(&life.name))));
    let mut user_actions: Vec<_> = created.chain(deleted).collect();
    user_actions.sort_by_key(|(at, _)| *at);
    let scenario = performed(scenario, user_actions, span);
    let rest = lives.iter().map(|life| at_rest(life, disturbances));
    // The effect of the last fault may be visible only after the node grace period.
    let drain = if pods_run { DRAIN } else { Duration::ZERO };
    scenario.for_at_least(node_grace() + slack(), bound() + drain.into(), all(rest))
}

/// Adds user actions with their seconds, in order, and a wait until `span`.
fn performed(mut scenario: Scenario, user_actions: Vec<(u64, Step)>, span: u64) -> Scenario {
    let mut now = 0;
    for (at, user_action) in user_actions {
        if at > now {
            scenario = scenario.step(wait(seconds(at - now)));
            now = at;
        }
        scenario = scenario.step(user_action);
    }
    match span.saturating_sub(now) {
        0 => scenario,
        rest => scenario.step(wait(seconds(rest))),
    }
}

/// A machine with a short drain timeout, because budgets block its drain if there are too few machines for the pods.
fn machine_that_drains(name: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name },
        "spec": {
            "class": { "kind": "MachineClass", "name": CLASS },
            "drainTimeout": GoDuration(DRAIN).to_string(),
        },
    }))
}

/// Maximum time from the last fault until the world is in its desired state.
fn bound() -> DurationExpression {
    creation_timeout() + health_timeout() + node_grace() + slack() + slack() + slack()
}

/// The expected final state of a machine.
fn at_rest(life: &Life, disturbances: &[Disturbance]) -> Condition {
    let name = life.name.as_str();
    if life.deleted.is_some() {
        return all([machine_gone(name), node_gone(name), vm_count(name, 0)]);
    }
    let running = all([phase(name, Phase::Running), vm_count(name, 1)]);
    if disturbances.iter().any(|disturbance| harms(disturbance, name)) {
        // A failed machine without a set is not replaced. A machine whose node was removed with its VM is deleted.
        let deleted = all([machine_gone(name), node_gone(name), vm_count(name, 0)]);
        any([running, phase(name, Phase::Failed), deleted])
    } else {
        running
    }
}

/// Whether the disturbance may make the machine fail permanently.
fn harms(disturbance: &Disturbance, machine: &str) -> bool {
    match disturbance {
        Disturbance::Vm(fault) => fault.machine == machine,
        Disturbance::Kubelet(fault) => fault.machine == machine,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
