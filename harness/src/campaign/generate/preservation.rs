//! Random preservations: a deployment, or a set alone, that may keep some of its failed machines, people who ask for more and
//! take that back, machines that fail, recover and fail again, and owners that scale, roll and change the maximum meanwhile,
//! often just when failed machines are drained. Budgets may hold those drains up until their time is over.
//!
//! In the end nothing is preserved any more, and every machine is of the newest template and available. What must not live
//! here: faults of processes, of the API server and of the cloud's calls (`faults`).

mod blocked_drain;
mod people;
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
use self::people::failure;
use self::pool::Pool;
use super::rollout::{self, CLASSES, NAME, class, strategy};
use super::{Life, faults, performed};
use crate::campaign::suite::Suite;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// When everything runs, unless something disturbs.
const SETTLED: u64 = 5 * MINUTE;
/// For how long machines are kept at least and at most.
const KEPT: (u64, u64) = (HOUR, 6 * HOUR);
/// In one of so many worlds they are kept for production's time.
const LONG: u64 = 50;
const KEPT_LONG: u64 = 72 * HOUR;
/// How many machines stand for one in how many effects mcm has: these worlds go on for hours.
const EFFECTS: u64 = 6;
/// No world has as many events; one that does runs away.
const EVENT_LIMIT: u64 = 5_000_000;

/// When a machine that failed is known to have failed, about, and for how long it may be drained then.
const KNOWN: u64 = 11 * MINUTE;
const DRAINED: u64 = 6 * MINUTE;
/// So much before it is known owners begin to be hasty.
const HASTE: u64 = 4 * MINUTE;

/// What strikes beside what people do; in one world of three only crashes, so that deadlines are judged there.
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

/// A creation fails while the first machines are made, as later ones are made rarely; or a deletion at any time.
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
        limits: Limits {
            virtual_time: GoDuration(Duration::from_secs(lasts + 6 * HOUR)),
            events: EVENT_LIMIT,
            ..Limits::default()
        },
        ..Plan::new(scenario, number)
    }
}

/// For how long machines are kept, in seconds.
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
    // Who stands by looks at the Lease every few seconds: not for days.
    let stands_by = world.chance(0.1) && kept < KEPT_LONG;
    scenario.world.replicas = if stands_by { 2 } else { 1 };
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
    scenario = scenario.step(pool.made((replicas, maximum), &strategy, kept, world));
    let mut users = seed.stream("users");
    for machine in 0..2 + users.below(2 + size) {
        user_actions.extend(people::story(machine, (from, span), kept, &mut users));
    }
    user_actions.extend(others(seed, (from, span), kept, &pool));
    let failures = user_actions
        .iter()
        .filter(|(at, step)| *at >= from && fails(step))
        .map(|(at, _)| *at)
        .collect();
    let mut owners = seed.stream("owners");
    user_actions.extend(changes(replicas, (from, span), failures, &pool, &mut owners));
    user_actions.sort_by_key(|(at, _)| *at);
    let wanted = user_actions.iter().rev().find_map(|(_, step)| scaled_to(step));
    // What cluster-autoscaler took nobody can tell beforehand.
    let wanted = wanted.unwrap_or(replicas);
    performed(scenario, user_actions, span)
        .step(pool.settled(wanted))
        .step(wait(seconds(kept + 30 * MINUTE)))
        .for_at_least(node_grace() + slack(), bound(), pool.at_rest(wanted))
}

/// What operators and cluster-autoscaler do in some worlds.
fn others(seed: &Seed, when: (u64, u64), kept: u64, pool: &Pool) -> UserActions {
    let mut user_actions = UserActions::new();
    let (mut ends, mut patience, mut scaler) = (
        seed.stream("ended by hand"),
        seed.stream("patience"),
        seed.stream("autoscaler"),
    );
    if ends.chance(0.3) {
        user_actions.extend(people::ended_by_hand(when, &mut ends));
    }
    if patience.chance(0.3) {
        user_actions.extend(people::patience(when, kept, pool, &mut patience));
    }
    if pool.rolls() && scaler.chance(0.35) {
        user_actions.extend(people::autoscaler(when, &mut scaler));
    }
    user_actions
}

/// How long it may take until nothing is preserved and all runs: machines that failed are replaced one at a time.
fn bound() -> DurationExpression {
    4 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

type UserActions = Vec<(u64, Step)>;

/// Several machines fail one after another, in any order, and nobody asks for them; once as many are kept as may be, that
/// becomes fewer.
fn wave(maximum: u64, span: u64, pool: &Pool, waves: &mut Stream) -> UserActions {
    let mut at = SETTLED;
    let mut user_actions = UserActions::new();
    for machine in 0..=maximum {
        at += waves.below(8 * MINUTE);
        let (fails, _) = failure(waves);
        user_actions.push((at, someone(&format!("struck-{machine}"), waves.below(8), fails)));
    }
    at += KNOWN + waves.below(2 * DRAINED);
    user_actions.push((at, pool.spec(pool.keeps_at_most(1 + waves.below(maximum - 1)))));
    user_actions.retain(|(at, _)| *at < span);
    user_actions
}

fn someone(called: &str, nth: u64, user_action: UserAction) -> Step {
    Step::Deferred(DeferredTarget {
        called: called.to_owned(),
        among: format!("{NAME}-*"),
        nth,
        user_action,
    })
}

/// A request to keep a machine, on its Node or on itself; `None` takes it back.
fn request(node: bool, value: Option<&str>) -> UserAction {
    UserAction::Preserve(Request {
        node,
        value: value.map(str::to_owned),
        ..Request::default()
    })
}

/// Whether a machine fails by it.
fn fails(step: &Step) -> bool {
    let Step::Deferred(someone) = step else {
        return false;
    };
    matches!(
        someone.user_action,
        UserAction::Vm(VmAction::Kill | VmAction::Stop)
            | UserAction::Kubelet(KubeletAction::Stop | KubeletAction::FillDisk)
    )
}

/// How many machines are wanted from then on.
fn scaled_to(step: &Step) -> Option<u64> {
    match step {
        Step::Patch(patch) => patch.merge.pointer("/spec/replicas")?.as_u64(),
        _ => None,
    }
}

/// What becomes of the deployment or set. Half of what its owners do they do in haste:
/// when machines that failed are drained.
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
            let hasty = known.filter(|at| *at < span && owners.chance(0.5));
            (hasty.unwrap_or(any), hasty.is_some())
        })
        .collect();
    times.sort_unstable();
    let mut changes = Vec::new();
    for (at, hasty) in times {
        let change = match owners.below(10) {
            0..=2 if hasty => {
                // As few as there may be, and after a while as many as before.
                let again = at + MINUTE + owners.below(20 * MINUTE);
                changes.push((again, json!({ "replicas": replicas })));
                json!({ "replicas": owners.below(2) })
            }
            0..=2 => json!({ "replicas": owners.below(replicas + 2) }),
            3..=6 if hasty && pool.rolls() => template(owners),
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
