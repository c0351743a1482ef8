//! Random preservations: a deployment that may keep some of its failed machines, people who ask for more and take that
//! back, machines that fail, recover and fail again, and owners that scale, roll and change the maximum meanwhile, often
//! just when failed machines are drained. Budgets may hold those drains up until their time is over.
//!
//! In the end nothing is preserved any more, and every machine is of the newest template and available. What must not live
//! here: faults of processes, of the API server and of the cloud's calls (`faults`).

mod held;

use std::time::Duration;

use clock::{Seed, Stream};
use mcm_api::{Code, GoDuration};
use serde_json::{Value, json};

use self::held::Held;
use super::rollout::{self, CLASSES, NAME, class, spec, strategy};
use super::{DRAIN, Life, faults, performed};
use crate::campaign::suite::Suite;
use crate::plan::{CloudFault, Disturbance, Limits, Plan};
use crate::scenario::builder::{
    all, budget, creation_timeout, deployment, field, health_timeout, node_grace, seconds, slack, wait, workload,
};
use crate::scenario::someone::{Deed, Request, Someone};
use crate::scenario::step::{CloudCall, Fault, KubeletAction, VmAction};
use crate::scenario::{DurationExpression, Scenario, Step};

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
    let fault = Fault {
        code: Some(Code::Unavailable),
        after_effect: stream.chance(0.4),
        times: u32::try_from(1 + stream.below(2)).ok(),
        ..Fault::of("lasting", call)
    };
    Some(Disturbance::Cloud(CloudFault {
        fault,
        from: None,
        until: Some(seconds(until)),
    }))
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
    let mut waves = seed.stream("waves");
    let held = waves.chance(0.45).then(|| Held::draw(&mut waves));
    let (from, span) = held
        .as_ref()
        .map_or((SETTLED, span), |held| (held.over(), span + held.over()));
    let some_pods = (1 + world.below(2 * replicas), u32::from(world.chance(0.5)));
    let (pods, disrupted) = if held.is_some() { (2 * replicas, 0) } else { some_pods };
    if held.is_some() || world.chance(0.6) {
        let pods = u32::try_from(pods).unwrap_or(1);
        scenario = scenario.steps([deployment(workload("web").replicas(pods)), budget("web", disrupted)]);
    }
    let mut maximum = world.below(4);
    let mut strategy = strategy(world, false);
    let mut deeds = Deeds::new();
    if let Some(held) = held {
        strategy = held.strategy().unwrap_or(strategy);
        deeds.extend(held.deeds(replicas, &mut waves));
    } else if waves.chance(0.4) {
        maximum = 2 + waves.below(2);
        deeds.extend(wave(maximum, span, &mut waves));
    }
    scenario = scenario.step(owner(replicas, maximum, &strategy, world, kept));
    let mut users = seed.stream("users");
    for machine in 0..2 + users.below(2 + size) {
        deeds.extend(story(machine, (from, span), kept, &mut users));
    }
    let failures = deeds
        .iter()
        .filter(|(at, step)| *at >= from && fails(step))
        .map(|(at, _)| *at)
        .collect();
    deeds.extend(changes(replicas, (from, span), failures, &mut seed.stream("owners")));
    deeds.sort_by_key(|(at, _)| *at);
    let wanted = deeds.iter().rev().find_map(|(_, step)| scaled_to(step));
    performed(scenario, deeds, span)
        .step(spec(json!({ "paused": false })))
        .step(wait(seconds(kept + 30 * MINUTE)))
        .for_at_least(
            node_grace() + slack(),
            bound(),
            all([
                rollout::at_rest(wanted.unwrap_or(replicas)),
                field("MachineDeployment", NAME, "/status/preservations", Value::Null),
            ]),
        )
}

/// How long it may take until nothing is preserved and all runs: machines that failed are replaced one at a time.
fn bound() -> DurationExpression {
    4 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

/// The deployment.
fn owner(replicas: u64, maximum: u64, strategy: &Value, world: &mut Stream, kept: u64) -> Step {
    let mut deployment = rollout::object(replicas, strategy);
    deployment["spec"]["autoPreserveFailedMax"] = json!(maximum);
    let template = &mut deployment["spec"]["template"]["spec"];
    template["machinePreserveTimeout"] = json!(GoDuration(Duration::from_secs(kept)).to_string());
    template["drainTimeout"] = json!(GoDuration(DRAIN * u32::try_from(1 + world.below(4)).unwrap_or(1)).to_string());
    crate::scenario::builder::apply(deployment)
}

type Deeds = Vec<(u64, Step)>;

/// Several machines fail one after another, in any order, and nobody asks for them; once as many are kept as may be, that
/// becomes fewer.
fn wave(maximum: u64, span: u64, waves: &mut Stream) -> Deeds {
    let mut at = SETTLED;
    let mut deeds = Deeds::new();
    for machine in 0..=maximum {
        at += waves.below(8 * MINUTE);
        let (fails, _) = failure(waves);
        deeds.push((at, someone(&format!("struck-{machine}"), waves.below(8), fails)));
    }
    at += KNOWN + waves.below(2 * DRAINED);
    deeds.push((
        at,
        spec(json!({ "autoPreserveFailedMax": 1 + waves.below(maximum - 1) })),
    ));
    deeds.retain(|(at, _)| *at < span);
    deeds
}

fn someone(called: &str, nth: u64, deed: Deed) -> Step {
    Step::Someone(Someone {
        called: called.to_owned(),
        among: format!("{NAME}-*"),
        nth,
        deed,
    })
}

/// A request to keep a machine, on its Node or on itself; `None` takes it back.
fn request(node: bool, value: Option<&str>) -> Deed {
    Deed::Preserve(Request {
        node,
        value: value.map(str::to_owned),
    })
}

/// Whether a machine fails by it.
fn fails(step: &Step) -> bool {
    let Step::Someone(someone) = step else { return false };
    matches!(
        someone.deed,
        Deed::Vm(VmAction::Kill | VmAction::Stop) | Deed::Kubelet(KubeletAction::Stop | KubeletAction::FillDisk)
    )
}

/// What becomes of one machine, and what people do about it.
fn story(machine: u64, (from, span): (u64, u64), kept: u64, users: &mut Stream) -> Deeds {
    let called = format!("machine-{machine}");
    let nth = users.below(8);
    let someone = |deed: Deed| someone(&called, nth, deed);
    let mut at = from + users.below(span - from);
    let mut deeds = Deeds::new();
    if users.chance(0.2) && from == SETTLED {
        return young(users).map(|(at, deed)| (at, someone(deed))).collect();
    }
    let mut then = |at: u64, deed: Deed| {
        if at < span {
            deeds.push((at, someone(deed)));
        }
    };
    let mut asked = None;
    if users.chance(0.5) {
        let first = ask(users);
        then(at.saturating_sub(1 + users.below(4 * MINUTE)), first.clone());
        asked = Some(first);
    }
    // It fails, and recovers, up to three times.
    for _ in 0..users.below(4) {
        let (fails, recovers) = failure(users);
        then(at, fails);
        if users.chance(0.3) {
            at += users.below(20 * MINUTE);
            then(at, ask(users));
        }
        let Some(recovers) = recovers.filter(|_| users.chance(0.7)) else {
            break;
        };
        let away = MINUTE + users.below(40 * MINUTE);
        if let Some(asked) = asked.take().filter(|_| users.chance(0.3)) {
            then(at + users.below(away), taken_back(&asked, users));
        }
        at += away;
        then(at, recovers);
        at += MINUTE + users.below(10 * MINUTE);
    }
    if users.chance(0.5) {
        at += MINUTE + users.below(30 * MINUTE);
        let last = match users.below(12) {
            0..=3 => ask(users),
            4..=6 => Deed::Expire(seconds(MINUTE + users.below(kept))),
            7 => Deed::Cordon,
            8 => Deed::Delete,
            9 | 10 => Deed::DeleteNode,
            _ => Deed::Vm(VmAction::Delete),
        };
        then(at, last);
    }
    deeds
}

/// What becomes of a machine that is asked for as soon as it is made: many of them never join.
fn young(users: &mut Stream) -> impl Iterator<Item = (u64, Deed)> + use<> {
    let asked = 1 + users.below(30);
    let value = if users.chance(0.5) { "now" } else { "when-failed" };
    let request = request(false, Some(value));
    let dies = users
        .chance(0.6)
        .then(|| (1 + users.below(30), Deed::Vm(VmAction::Kill)));
    [(asked, request)].into_iter().chain(dies)
}

/// A request of any kind, those that ask for something more often than others.
fn ask(users: &mut Stream) -> Deed {
    let value = match users.below(10) {
        0..=2 => Some("now"),
        3..=5 => Some("when-failed"),
        6 | 7 => Some("false"),
        8 => None,
        _ => Some("perhaps"),
    };
    request(users.chance(0.6), value)
}

/// Who asked thinks better of it.
fn taken_back(asked: &Deed, users: &mut Stream) -> Deed {
    let node = matches!(asked, Deed::Preserve(request) if request.node);
    request(node, users.chance(0.5).then_some("false"))
}

/// How a machine fails, and how it recovers, if it can.
fn failure(users: &mut Stream) -> (Deed, Option<Deed>) {
    match users.below(6) {
        0 => (Deed::Vm(VmAction::Kill), None),
        1 => (Deed::Vm(VmAction::Stop), Some(Deed::Vm(VmAction::Start))),
        2 | 3 => (
            Deed::Kubelet(KubeletAction::FillDisk),
            Some(Deed::Kubelet(KubeletAction::FreeDisk)),
        ),
        _ => (
            Deed::Kubelet(KubeletAction::Stop),
            Some(Deed::Kubelet(KubeletAction::Start)),
        ),
    }
}

/// How many machines are wanted from then on.
fn scaled_to(step: &Step) -> Option<u64> {
    match step {
        Step::Patch(patch) => patch.merge.pointer("/spec/replicas")?.as_u64(),
        _ => None,
    }
}

/// What becomes of the deployment. Half of what its owners do they do in haste:
/// when machines that failed are drained.
fn changes(replicas: u64, (from, span): (u64, u64), failures: Vec<u64>, owners: &mut Stream) -> Deeds {
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
            3..=6 if hasty => template(owners),
            3 | 4 => template(owners),
            5..=8 => json!({ "autoPreserveFailedMax": owners.below(4) }),
            _ => json!({ "paused": owners.chance(0.5) }),
        };
        changes.push((at, change));
    }
    let deeds = changes.into_iter().map(|(at, change)| (at, spec(change)));
    deeds.collect()
}

/// A template of any class.
fn template(owners: &mut Stream) -> Value {
    let class = CLASSES[index(owners.below(3))];
    json!({ "template": { "spec": { "class": { "name": class } } } })
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
