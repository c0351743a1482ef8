//! Random preservations: a deployment or standalone set that preserves some of its failed machines, users who request
//! preservation and withdraw requests, machines that fail, recover and fail again, and owners that scale, roll out and
//! change the maximum meanwhile, often while failed machines are drained. Budgets may block those drains until their
//! timeout.
//!
//! In the end no machine is preserved, and every machine is available and has the newest template. The module `faults`
//! draws faults of processes, the API server and cloud calls.

mod blocked_drain;
mod databases;
mod machine_actions;
mod pool;

use std::time::Duration;

use clock::{Seed, Stream};
use mcm_api::{Code, GoDuration};
use scenario::builder::{
    budget, creation_timeout, deployment, health_timeout, node_grace, seconds, slack, wait, workload,
};
use scenario::plan::{Disturbance, Limits, Plan};
use scenario::step::deferred_target::{DeferredTarget, Request, UserAction};
use scenario::step::{CloudCall, Fault, KubeletAction, VmAction, Window};
use scenario::{DurationExpression, Scenario, Step};
use serde_json::{Value, json};

use self::blocked_drain::BlockedDrain;
use self::databases::Databases;
use self::machine_actions::failure;
use self::pool::Pool;
use super::rollout::{self, CLASSES, NAME, class, strategy};
use super::{Life, faults, performed};
use crate::campaign::suite::Suite;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Time after which all machines run in an undisturbed world.
const SETTLED: u64 = 5 * MINUTE;
/// Minimum and maximum of the preserve timeout.
const KEPT: (u64, u64) = (HOUR, 6 * HOUR);
/// One in this many worlds uses the production preserve timeout.
const LONG: u64 = 50;
/// The production preserve timeout.
const KEPT_LONG: u64 = 72 * HOUR;
/// Factor for the number of effects of mcm for each machine, because these worlds last for hours.
const EFFECTS: u64 = 6;
/// Limit of trace entries, which no correct run reaches.
const EVENT_LIMIT: u64 = 5_000_000;

/// Approximate time from the failure of a machine until it is Failed.
const KNOWN: u64 = 11 * MINUTE;
/// Approximate duration of the drain that follows.
const DRAINED: u64 = 6 * MINUTE;
/// How long before the machine is Failed owners may change the spec.
const HASTE: u64 = 4 * MINUTE;

/// Kinds of faults in addition to user actions. One world of three has only crashes, so that deadlines are judged
/// there.
const FAULTS: [&str; 6] = ["crash", "pause", "lag", "api", "cloud error", "cloud latency"];

/// The plan of a seed.
pub(super) fn plan(suite: &Suite, number: u64, seed: &Seed, size: u64) -> Plan {
    let mut world = seed.stream("world");
    let kept = kept_for(&mut world);
    let span = 30 * MINUTE + 20 * MINUTE * world.below(4);
    let lives: Vec<Life> = (0..EFFECTS).flat_map(|_| rollout::lives(size)).collect();
    let kinds = if number.is_multiple_of(3) {
        &FAULTS[..1]
    } else {
        &FAULTS
    };
    let mut disturbances = faults::draw_of(&seed.child("faults"), kinds, size, span, &lives);
    if kinds.len() > 1 {
        disturbances.extend(lasting_fault(span, &mut seed.stream("lasting fault")));
    }
    let scenario = scenario(suite, seed, &mut world, (size, span, kept));
    plan_of(number, scenario, disturbances, span + kept)
}

/// A fault of creations while the first machines are created, because later creations are rare; or a fault of deletions
/// at any time.
fn lasting_fault(span: u64, stream: &mut Stream) -> Option<Disturbance> {
    let (call, until) = match stream.below(10) {
        0 | 1 => (CloudCall::CreateMachine, SETTLED),
        2 | 3 => (CloudCall::DeleteMachine, span),
        _ => return None,
    };
    let mut fault = Fault::of("lasting", call).code(Code::Unavailable);
    if stream.chance(0.4) {
        fault = fault.after_commit();
    }
    fault = fault.times(1 + stream.below(2));
    fault.matches.window = Some(Window {
        from: None,
        until: Some(seconds(until)),
    });
    Some(Disturbance::Cloud(Box::new(fault)))
}

fn plan_of(number: u64, scenario: Scenario, disturbances: Vec<Disturbance>, lasts: u64) -> Plan {
    Plan {
        disturbances,
        may_miss: true,
        limits: Limits {
            virtual_time: GoDuration(Duration::from_secs(lasts + 6 * HOUR)),
            events: EVENT_LIMIT,
            ..Limits::default()
        },
        ..Plan::new(scenario, number)
    }
}

/// The preserve timeout in seconds.
fn kept_for(world: &mut Stream) -> u64 {
    let (least, most) = KEPT;
    if world.below(LONG) == 0 {
        KEPT_LONG
    } else {
        least + MINUTE * world.below((most - least) / MINUTE + 1)
    }
}

fn scenario(suite: &Suite, seed: &Seed, world: &mut Stream, (size, span, kept): (u64, u64, u64)) -> Scenario {
    let replicas = 1 + size;
    let mut scenario = Scenario::new("campaign", suite.about);
    // A standby process reads the Lease every few seconds, which is too expensive in a world that lasts for days.
    let has_standby = world.chance(0.1) && kept < KEPT_LONG;
    scenario.world.replicas = if has_standby { 2 } else { 1 };
    scenario.world.cloud.require_initialize = world.chance(0.1);
    scenario.world.cloud.boot_delay = seconds(5 + world.below(60));
    scenario = scenario.steps(CLASSES[1..].iter().map(|name| class(name)));
    let pool = Pool::draw(&mut seed.stream("pool"));
    let mut waves = seed.stream("waves");
    let blocked = waves.chance(0.45).then(|| BlockedDrain::draw(&mut waves));
    let blocked = blocked.map(|blocked| {
        if pool.rolls() {
            blocked
        } else {
            blocked.without_rollouts()
        }
    });
    let (from, span) = blocked
        .as_ref()
        .map_or((SETTLED, span), |blocked| (blocked.over(), span + blocked.over()));
    let some_pods = (1 + world.below(2 * replicas), u32::from(world.chance(0.5)));
    let (pods, disrupted) = if blocked.is_some() {
        (2 * replicas, 0)
    } else {
        some_pods
    };
    if blocked.is_some() || world.chance(0.6) {
        let pods = u32::try_from(pods).unwrap_or(1);
        scenario = scenario.steps([deployment(workload("web").replicas(pods)), budget("web", disrupted)]);
    }
    let databases = Databases::draw(&mut seed.stream("databases"));
    scenario.world.fencing = databases.fencing();
    scenario = scenario.steps(databases.steps(replicas));
    let mut maximum = world.below(4);
    let mut strategy = strategy(world, false);
    let mut user_actions = UserActions::new();
    if let Some(blocked) = blocked {
        strategy = blocked.strategy().unwrap_or(strategy);
        user_actions.extend(blocked.user_actions(replicas, &pool, &mut waves));
    } else if waves.chance(0.4) {
        maximum = 2 + waves.below(2);
        user_actions.extend(wave(maximum, span, &pool, &mut waves));
    }
    scenario = scenario.step(pool.create((replicas, maximum), &strategy, kept, world));
    let mut users = seed.stream("users");
    for machine in 0..2 + users.below(2 + size) {
        user_actions.extend(machine_actions::story(machine, (from, span), kept, &mut users));
    }
    user_actions.extend(others(seed, (from, span), kept, &pool));
    let failures = user_actions
        .iter()
        .filter(|(at, step)| *at >= from && fails(step))
        .map(|(at, _)| *at)
        .collect();
    let mut owners = seed.stream("owners");
    user_actions.extend(changes(replicas, (from, span), failures, &pool, &mut owners));
    databases::cut_off(&mut user_actions, &mut seed.stream("partitions"));
    user_actions.sort_by_key(|(at, _)| *at);
    let wanted = user_actions.iter().rev().find_map(|(_, step)| scaled_to(step));
    // The number of machines that cluster-autoscaler removes is not known in advance.
    let wanted = wanted.unwrap_or(replicas);
    performed(scenario, user_actions, span)
        .step(pool.settled(wanted))
        .step(wait(seconds(kept + 30 * MINUTE)))
        .for_at_least(node_grace() + slack(), bound(), pool.at_rest(wanted))
}

/// Actions of operators and cluster-autoscaler, in some worlds.
fn others(seed: &Seed, when: (u64, u64), kept: u64, pool: &Pool) -> UserActions {
    let mut user_actions = UserActions::new();
    let (mut ends, mut patience, mut scaler) = (
        seed.stream("ended by hand"),
        seed.stream("patience"),
        seed.stream("autoscaler"),
    );
    if ends.chance(0.3) {
        user_actions.extend(machine_actions::ended_by_operator(when, &mut ends));
    }
    if patience.chance(0.3) {
        user_actions.extend(machine_actions::timeout_changes(when, kept, pool, &mut patience));
    }
    if pool.rolls() && scaler.chance(0.35) {
        user_actions.extend(machine_actions::autoscaler(when, &mut scaler));
    }
    user_actions
}

/// Maximum time until no machine is preserved and all machines run: failed machines are replaced one at a time.
fn bound() -> DurationExpression {
    4 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

type UserActions = Vec<(u64, Step)>;

/// Several machines without requests fail one after another, in any order. After the maximum of them is preserved, the
/// maximum is lowered.
fn wave(maximum: u64, span: u64, pool: &Pool, waves: &mut Stream) -> UserActions {
    let mut at = SETTLED;
    let mut user_actions = UserActions::new();
    for machine in 0..=maximum {
        at += waves.below(8 * MINUTE);
        let (fails, _) = failure(waves);
        user_actions.push((at, deferred(&format!("struck-{machine}"), waves.below(8), fails)));
    }
    at += KNOWN + waves.below(2 * DRAINED);
    user_actions.push((at, pool.spec(pool.keeps_at_most(1 + waves.below(maximum - 1)))));
    user_actions.retain(|(at, _)| *at < span);
    user_actions
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

/// Sets the preservation request of a machine, on its Node or on itself; `None` removes it.
fn request(node: bool, value: Option<&str>) -> UserAction {
    UserAction::Preserve(Request {
        node,
        value: value.map(str::to_owned),
        ..Request::default()
    })
}

/// Whether the step makes a machine fail.
fn fails(step: &Step) -> bool {
    let Step::Deferred(target) = step else {
        return false;
    };
    matches!(
        target.user_action,
        UserAction::Vm(VmAction::Kill | VmAction::Stop)
            | UserAction::Kubelet(KubeletAction::Stop | KubeletAction::FillDisk)
    )
}

/// The number of replicas that the step sets.
fn scaled_to(step: &Step) -> Option<u64> {
    match step {
        Step::Patch(patch) => patch.merge.pointer("/spec/replicas")?.as_u64(),
        _ => None,
    }
}

/// Changes of the deployment or set. Half of them happen while failed machines are drained.
fn changes(
    replicas: u64,
    (from, span): (u64, u64),
    failures: Vec<u64>,
    pool: &Pool,
    owners: &mut Stream,
) -> UserActions {
    let mut times: Vec<(u64, bool)> = (0..owners.below(5))
        .map(|_| {
            let any = from + owners.below(span - from);
            let failure = failures.get(index(owners.below(1 + failures.len() as u64)));
            let known = failure.map(|at| at + KNOWN - HASTE + owners.below(HASTE + DRAINED));
            let during_drain = known.filter(|at| *at < span && owners.chance(0.5));
            (during_drain.unwrap_or(any), during_drain.is_some())
        })
        .collect();
    times.sort_unstable();
    let mut changes = Vec::new();
    for (at, during_drain) in times {
        let change = match owners.below(10) {
            0..=2 if during_drain => {
                // Scales down, and later back to the previous size.
                let again = at + MINUTE + owners.below(20 * MINUTE);
                changes.push((again, json!({ "replicas": replicas })));
                json!({ "replicas": owners.below(2) })
            }
            0..=2 => json!({ "replicas": owners.below(replicas + 2) }),
            3..=6 if during_drain && pool.rolls() => template(owners),
            3 | 4 if pool.rolls() => template(owners),
            9 if pool.rolls() => json!({ "paused": owners.chance(0.5) }),
            _ => pool.keeps_at_most(owners.below(4)),
        };
        changes.push((at, change));
    }
    let user_actions = changes.into_iter().map(|(at, change)| (at, pool.spec(change)));
    user_actions.collect()
}

/// A template of any class.
fn template(owners: &mut Stream) -> Value {
    let class = CLASSES[index(owners.below(3))];
    json!({ "template": { "spec": { "class": { "name": class } } } })
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
