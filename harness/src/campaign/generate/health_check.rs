//! Random health checks: a deployment whose machines one or two checks evaluate, with random policies in both spellings;
//! machines that fail alone or together and recover; users who exclude machines, request remediations, pause, change and
//! delete checks; and owners that scale and roll out meanwhile.
//!
//! In the end the check has no limit, is active and finds every failure; no machine is preserved, and every machine is
//! healthy and has the newest template. The module `faults` draws faults of processes, the API server and cloud calls.

mod machine_actions;
mod owner_actions;
mod policy;
mod standalone;

use std::time::Duration;

use clock::{Seed, Stream};
use mcm_api::{GoDuration, keys};
use scenario::api_faults::{Action, Cut, Rule};
use scenario::builder::{
    all, annotate, api_fault_by, apply, creation_timeout, delete, field, health_timeout, lift_api_fault, node_grace,
    patch_spec, seconds, slack, wait,
};
use scenario::plan::{Limits, Plan};
use scenario::step::Client;
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::{Condition, DurationExpression, HealthChecks, Scenario, Step};
use serde_json::{Value, json};

use self::machine_actions::Failures;
use self::owner_actions::Owner;
use self::policy::Policy;
use super::rollout::{self, CLASSES, NAME, class};
use super::{Life, faults, performed};
use crate::campaign::suite::Suite;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Time after which all machines run in an undisturbed world.
const SETTLED: u64 = 5 * MINUTE;
/// Factor for the number of effects of mcm for each machine, because these worlds last for an hour.
const EFFECTS: u64 = 6;
/// Limit of trace entries, which no correct run reaches.
const EVENT_LIMIT: u64 = 5_000_000;

/// The name of the check.
const CHECK: &str = "workers";
/// The name of the check that overlaps with it in some worlds.
const OTHER: &str = "others";

/// Kinds of faults in addition to user actions. One world of three has only crashes, so that deadlines are judged
/// there.
const FAULTS: [&str; 6] = ["crash", "pause", "lag", "api", "cloud error", "cloud latency"];

type UserActions = Vec<(u64, Step)>;

/// The plan of a seed.
pub(super) fn plan(suite: &Suite, number: u64, seed: &Seed, size: u64) -> Plan {
    let mut world = seed.stream("world");
    let span = 30 * MINUTE + 15 * MINUTE * world.below(4);
    let lives: Vec<Life> = (0..EFFECTS).flat_map(|_| rollout::lives(size)).collect();
    let kinds = if number.is_multiple_of(3) {
        &FAULTS[..1]
    } else {
        &FAULTS
    };
    let mut disturbances = faults::draw_of(&seed.child("faults"), kinds, size, span, &lives);
    let scenario = scenario(suite, seed, &mut world, (size, span));
    disturbances.extend(faults::of_other_processes(
        &seed.child("faults"),
        kinds,
        &scenario,
        size,
    ));
    Plan {
        disturbances,
        may_miss: true,
        limits: Limits {
            virtual_time: GoDuration(Duration::from_secs(span + 12 * HOUR)),
            events: EVENT_LIMIT,
            ..Limits::default()
        },
        ..Plan::new(scenario, number)
    }
}

fn scenario(suite: &Suite, seed: &Seed, world: &mut Stream, (size, span): (u64, u64)) -> Scenario {
    let replicas = 1 + size;
    let mut scenario = Scenario::new("campaign", suite.about);
    scenario.world.health_checks = match world.below(8) {
        0 => HealthChecks::Exclusive,
        1 | 2 => HealthChecks::Separate,
        _ => HealthChecks::On,
    };
    let is_separate = scenario.world.health_checks == HealthChecks::Separate;
    scenario.world.replicas = if world.chance(0.1) { 2 } else { 1 };
    scenario.world.cloud.boot_delay = seconds(5 + world.below(60));
    let in_place = world.chance(0.1);
    scenario.world.agents = in_place;
    scenario = scenario.steps(CLASSES[1..].iter().map(|name| class(name)));
    let policy = Policy::draw(replicas, &mut seed.stream("policy"));
    let mut templates = seed.stream("templates");
    scenario.world.remediation = policy.has_templates();
    let mut user_actions = policy.templates(span, &mut templates);
    let owner = Owner::draw(in_place, &mut seed.stream("owner"));
    scenario = scenario.step(owner.create(replicas));
    user_actions.push((world.below(2 * SETTLED), apply(check(CHECK, policy.spec()))));

    let mut users = seed.stream("users");
    let failures = Failures {
        permanent: !owner.is_patient || !policy.has_templates(),
        external: policy.has_templates(),
    };
    for machine in 0..1 + users.below(2 + size) {
        user_actions.extend(machine_actions::story(machine, failures, (SETTLED, span), &mut users));
    }
    let mut waves = seed.stream("waves");
    if waves.chance(0.4) {
        user_actions.extend(machine_actions::wave(replicas, failures, (SETTLED, span), &mut waves));
    }
    user_actions.extend(changes_of_check(
        &policy,
        replicas,
        (2 * SETTLED, span),
        &mut seed.stream("operators"),
    ));
    let mut outages = seed.stream("outages");
    if !is_separate && outages.chance(0.15) {
        user_actions.extend(outage((SETTLED, span), &mut outages));
    }
    user_actions.extend(owner_actions::changes(
        replicas,
        (SETTLED, span),
        &mut seed.stream("owners"),
    ));
    let mut rollouts = seed.stream("rollouts");
    if rollouts.chance(0.3) {
        user_actions.extend(machine_actions::during_rollout(
            failures,
            (SETTLED, span),
            &mut rollouts,
        ));
    }
    let mut restarts = seed.stream("restarts");
    if restarts.chance(0.2) {
        user_actions.extend(machine_actions::while_mcm_is_down(
            failures,
            (SETTLED, span),
            &mut restarts,
        ));
    }
    let mut singles = seed.stream("singles");
    if singles.chance(0.15) {
        user_actions.extend(standalone::story((SETTLED, span), &mut singles));
    }
    user_actions.sort_by_key(|(at, _)| *at);
    let end = user_actions.last().map_or(span, |(at, _)| span.max(*at + 1));
    let wanted = user_actions.iter().rev().find_map(|(_, step)| scaled_to(step));
    let wanted = wanted.unwrap_or(replicas);
    performed(scenario, user_actions, end)
        .step(owner_actions::settled(wanted))
        .step(annotate("MachineHealthCheck", CHECK, keys::PAUSED_ANNOTATION, "false"))
        .step(patch_spec("MachineHealthCheck", CHECK, policy.finally()))
        .step(wait(seconds(owner.kept + 30 * MINUTE)))
        .for_at_least(
            node_grace() + slack(),
            bound() + seconds(policy.longest_delay()),
            at_rest(wanted),
        )
}

/// A check of the machines of the deployment.
fn check(name: &str, mut spec: Value) -> Value {
    let names = [NAME, standalone::SINGLE];
    spec["selector"] = json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": names }] });
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineHealthCheck",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// What operators do with the check: they change and pause it, or they delete it and create it again, or they create a second
/// one for a while.
fn changes_of_check(policy: &Policy, replicas: u64, when: (u64, u64), operators: &mut Stream) -> UserActions {
    let (from, span) = when;
    let moment = |operators: &mut Stream| from + operators.below(span - from);
    let mut user_actions = UserActions::new();
    match operators.below(10) {
        0..=3 => {
            for _ in 0..1 + operators.below(3) {
                let at = moment(operators);
                let change = policy.change(replicas, operators);
                user_actions.push((at, patch_spec("MachineHealthCheck", CHECK, change)));
            }
        }
        4 | 5 => {
            let at = moment(operators);
            let key = match operators.chance(0.5) {
                true => keys::PAUSED_ANNOTATION,
                false => keys::CAPI_PAUSED_ANNOTATION,
            };
            let again = at + MINUTE + operators.below(15 * MINUTE);
            user_actions.push((at, annotate("MachineHealthCheck", CHECK, key, "")));
            user_actions.push((again, annotate("MachineHealthCheck", CHECK, key, "false")));
        }
        6 => {
            let at = moment(operators);
            let again = at + 1 + operators.below(15 * MINUTE);
            user_actions.push((at, delete("MachineHealthCheck", CHECK)));
            user_actions.push((again, apply(check(CHECK, policy.spec()))));
        }
        7 => {
            let at = moment(operators);
            let end = at + 1 + operators.below(20 * MINUTE);
            let second = Policy::draw(replicas, operators).without_templates();
            user_actions.push((at, apply(check(OTHER, second.spec()))));
            user_actions.push((end, delete("MachineHealthCheck", OTHER)));
        }
        _ => {}
    }
    user_actions
}

/// mcm reaches no API server for some minutes.
fn outage((from, span): (u64, u64), outages: &mut Stream) -> UserActions {
    let at = from + outages.below(span - from);
    let how = if outages.chance(0.5) { Cut::Refuse } else { Cut::Hang };
    let end = at + MINUTE + outages.below(9 * MINUTE);
    vec![
        (
            at,
            api_fault_by(Client::Mcm, Rule::new("outage", Action::Partition { how })),
        ),
        (end, lift_api_fault("outage")),
    ]
}

fn deferred(called: &str, nth: u64, user_action: UserAction) -> Step {
    Step::Deferred(DeferredTarget {
        called: called.to_owned(),
        among: format!("{NAME}-*"),
        nth,
        user_action,
        may_miss: false,
    })
}

/// The number of replicas that the step sets.
fn scaled_to(step: &Step) -> Option<u64> {
    match step {
        Step::Patch(patch) => patch.merge.pointer("/spec/replicas")?.as_u64(),
        _ => None,
    }
}

/// Maximum time until all machines run: failed machines are replaced one at a time.
fn bound() -> DurationExpression {
    6 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

/// Every machine is healthy, and nothing is requested any more.
fn at_rest(replicas: u64) -> Condition {
    let of_check = |name: &str, is: Value| field("MachineHealthCheck", CHECK, &format!("/status/{name}"), is);
    all([
        rollout::at_rest(replicas),
        of_check("expectedMachines", json!(replicas)),
        of_check("currentHealthy", json!(replicas)),
        of_check("unhealthy", Value::Null),
        of_check("remediations", Value::Null),
    ])
}

#[cfg(test)]
mod tests {
    use judge::remediation::selects;

    use super::*;

    #[test]
    fn the_judge_knows_the_machines_of_a_check() {
        let check = check(CHECK, json!({}));
        for name in [NAME, standalone::SINGLE, "other"] {
            let machine = json!({ "metadata": { "labels": { "name": name } } });
            assert_eq!(selects(&check, &machine), name != "other", "{name}");
        }
    }
}
