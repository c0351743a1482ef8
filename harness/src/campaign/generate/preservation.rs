//! Random preservations: a deployment that may keep some of its failed machines, people who ask for more and take that
//! back, machines that fail, recover and fail again, and owners that scale, roll and change the maximum meanwhile.
//!
//! In the end nothing is preserved any more, and every machine is of the newest template and available. What must not live
//! here: faults of processes, of the API server and of the cloud's calls (`faults`).

use std::time::Duration;

use clock::{Seed, Stream};
use mcm_api::GoDuration;
use serde_json::{Value, json};

use super::rollout::{self, CLASSES, NAME, class, spec, strategy};
use super::{DRAIN, Life, faults, performed};
use crate::campaign::suite::Suite;
use crate::plan::{Disturbance, Limits, Plan};
use crate::scenario::builder::{
    all, budget, creation_timeout, deployment, field, health_timeout, node_grace, seconds, slack, wait, workload,
};
use crate::scenario::someone::{Deed, Request, Someone};
use crate::scenario::step::{KubeletAction, VmAction};
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
    let disturbances = faults::draw_of(&seed.child("faults"), kinds, size, span, &lives);
    let scenario = scenario(suite, seed, &mut world, (size, span, kept));
    plan_of(number, scenario, disturbances, span + kept)
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
    scenario.world.replicas = if world.chance(0.1) { 2 } else { 1 };
    scenario.world.cloud.require_initialize = world.chance(0.1);
    scenario.world.cloud.boot_delay = seconds(5 + world.below(60));
    scenario = scenario.steps(CLASSES[1..].iter().map(|name| class(name)));
    if world.chance(0.6) {
        let pods = u32::try_from(1 + world.below(2 * replicas)).unwrap_or(1);
        scenario = scenario.steps([deployment(workload("web").replicas(pods)), budget("web", 1)]);
    }
    scenario = scenario.step(owner(replicas, world, kept));
    let mut users = seed.stream("users");
    let mut deeds = Vec::new();
    for machine in 0..2 + users.below(2 + size) {
        deeds.extend(story(machine, span, kept, &mut users));
    }
    let (changes, wanted) = changes(replicas, span, &mut seed.stream("owners"));
    deeds.extend(changes);
    deeds.sort_by_key(|(at, _)| *at);
    performed(scenario, deeds, span)
        .step(spec(json!({ "paused": false })))
        .step(wait(seconds(kept + 30 * MINUTE)))
        .for_at_least(
            node_grace() + slack(),
            bound(),
            all([
                rollout::at_rest(wanted),
                field("MachineDeployment", NAME, "/status/preservations", Value::Null),
            ]),
        )
}

/// How long it may take until nothing is preserved and all runs: machines that failed are replaced one at a time.
fn bound() -> DurationExpression {
    4 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

/// The deployment.
fn owner(replicas: u64, world: &mut Stream, kept: u64) -> Step {
    let mut deployment = rollout::object(replicas, &strategy(world, false));
    deployment["spec"]["autoPreserveFailedMax"] = json!(world.below(4));
    let template = &mut deployment["spec"]["template"]["spec"];
    template["machinePreserveTimeout"] = json!(GoDuration(Duration::from_secs(kept)).to_string());
    template["drainTimeout"] = json!(GoDuration(DRAIN * u32::try_from(1 + world.below(4)).unwrap_or(1)).to_string());
    crate::scenario::builder::apply(deployment)
}

type Deeds = Vec<(u64, Step)>;

/// What becomes of one machine, and what people do about it.
fn story(machine: u64, span: u64, kept: u64, users: &mut Stream) -> Deeds {
    let called = format!("machine-{machine}");
    let nth = users.below(8);
    let someone = |deed: Deed| {
        Step::Someone(Someone {
            called: called.clone(),
            among: format!("{NAME}-*"),
            nth,
            deed,
        })
    };
    let mut at = SETTLED + users.below(span - SETTLED);
    let mut deeds = Deeds::new();
    if users.chance(0.2) {
        return young(users).map(|(at, deed)| (at, someone(deed))).collect();
    }
    let mut then = |at: u64, deed: Deed| {
        if at < span {
            deeds.push((at, someone(deed)));
        }
    };
    if users.chance(0.5) {
        then(at.saturating_sub(1 + users.below(4 * MINUTE)), ask(users));
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
        at += MINUTE + users.below(40 * MINUTE);
        then(at, recovers);
        at += MINUTE + users.below(10 * MINUTE);
    }
    if users.chance(0.4) {
        at += MINUTE + users.below(30 * MINUTE);
        let last = match users.below(10) {
            0..=3 => ask(users),
            4..=6 => Deed::Expire(seconds(MINUTE + users.below(kept))),
            7 => Deed::Cordon,
            8 => Deed::Delete,
            _ => Deed::DeleteNode,
        };
        then(at, last);
    }
    deeds
}

/// What becomes of a machine that is asked for as soon as it is made: many of them never join.
fn young(users: &mut Stream) -> impl Iterator<Item = (u64, Deed)> + use<> {
    let asked = 1 + users.below(30);
    let value = if users.chance(0.5) { "now" } else { "when-failed" };
    let request = Deed::Preserve(Request {
        node: false,
        value: Some(value.to_owned()),
    });
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
    Deed::Preserve(Request {
        node: users.chance(0.6),
        value: value.map(str::to_owned),
    })
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

/// What becomes of the deployment, and how many machines it wants at last.
fn changes(replicas: u64, span: u64, owners: &mut Stream) -> (Deeds, u64) {
    let mut times: Vec<u64> = (0..owners.below(5))
        .map(|_| SETTLED + owners.below(span - SETTLED))
        .collect();
    times.sort_unstable();
    let mut wanted = replicas;
    let mut deeds = Deeds::new();
    for at in times {
        let change = match owners.below(10) {
            0..=2 => {
                wanted = owners.below(replicas + 2);
                json!({ "replicas": wanted })
            }
            3 | 4 => {
                let class = CLASSES[usize::try_from(owners.below(3)).unwrap_or_default()];
                json!({ "template": { "spec": { "class": { "name": class } } } })
            }
            5..=8 => json!({ "autoPreserveFailedMax": owners.below(4) }),
            _ => json!({ "paused": owners.chance(0.5) }),
        };
        deeds.push((at, spec(change)));
    }
    (deeds, wanted)
}
