//! Random rollouts: users scale a deployment, change its template, pause it and roll it back, while machines fail.
//!
//! In the end every machine is available and has the newest template, and their number is the desired one.

use clock::{Seed, Stream};
use scenario::builder::{
    all, any, apply, creation_timeout, field, health_timeout, node_grace, patch_spec, seconds, slack,
};
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::{Condition, DurationExpression, Scenario, Step};
use serde_json::{Value, json};

use super::{Life, performed};
use crate::campaign::suite::Suite;

/// Name of the deployment.
pub(super) const NAME: &str = "md-a";
pub(super) const CLASSES: [&str; 3] = ["class-a", "class-b", "class-c"];

/// Time span of user actions in a world of that size, in seconds.
pub(super) fn span(size: u64, world: &mut Stream) -> u64 {
    300 + 120 * world.below(1 + size)
}

/// The targets of faults: any machine of the deployment.
pub(super) fn lives(size: u64) -> Vec<Life> {
    let life = |_| Life {
        name: format!("{NAME}-*"),
        created: 0,
        deleted: None,
    };
    (0..size).map(life).collect()
}

/// The scenario: user actions in order of time, and the expected final state.
pub(super) fn scenario(suite: &Suite, seed: &Seed, size: u64, span: u64) -> Scenario {
    let mut users = seed.stream("users");
    let mut world = seed.stream("rollout world");
    let mut scenario = Scenario::new("campaign", suite.about);
    scenario.world.replicas = if world.chance(0.1) { 2 } else { 1 };
    scenario.world.cloud.boot_delay = seconds(5 + world.below(60));
    scenario = scenario.steps(CLASSES[1..].iter().map(|name| class(name)));
    let in_place = world.chance(0.2);
    scenario.world.agents = in_place;
    let strategy = strategy(&mut world, in_place);
    scenario = scenario.step(deployment(size, &strategy));
    let (user_actions, replicas) = user_actions(size, span, in_place, &mut users);
    performed(scenario, user_actions, span)
        .step(spec(json!({ "paused": false })))
        .for_at_least(node_grace() + slack(), bound(), at_rest(replicas))
}

/// The user actions with their seconds, and the final number of replicas.
fn user_actions(size: u64, span: u64, in_place: bool, users: &mut Stream) -> (Vec<(u64, Step)>, u64) {
    let count = 1 + users.below(2 + 2 * size);
    let mut times: Vec<u64> = (0..count).map(|_| users.below(span)).collect();
    times.sort_unstable();
    let mut replicas = size;
    let mut user_actions = Vec::new();
    for at in times {
        let user_action = match users.below(12) {
            0..=2 => {
                replicas = users.below(2 * size + 2);
                spec(json!({ "replicas": replicas }))
            }
            3..=5 => {
                let class = CLASSES[usize::try_from(users.below(3)).unwrap_or_default()];
                spec(json!({ "template": { "spec": { "class": { "name": class } } } }))
            }
            6 => spec(json!({ "paused": users.chance(0.5) })),
            7 => spec(json!({ "rollbackTo": { "revision": 0 } })),
            8 => spec(json!({ "strategy": strategy(users, in_place) })),
            9 | 10 => pick(user_actions.len(), size, UserAction::Prefer, users),
            _ if users.chance(0.5) => pick(user_actions.len(), size, UserAction::Cordon, users),
            _ => pick(user_actions.len(), size, UserAction::Uncordon, users),
        };
        user_actions.push((at, user_action));
    }
    (user_actions, replicas)
}

/// A user action on any machine of the deployment.
fn pick(number: usize, size: u64, user_action: UserAction, users: &mut Stream) -> Step {
    Step::Deferred(DeferredTarget {
        called: format!("picked-{number}"),
        among: format!("{NAME}-*"),
        nth: users.below(size),
        user_action,
        may_miss: false,
    })
}

pub(super) fn strategy(stream: &mut Stream, in_place: bool) -> Value {
    let surge = stream.below(3);
    let unavailable = if surge == 0 {
        1 + stream.below(2)
    } else {
        stream.below(3)
    };
    if in_place && stream.chance(0.7) {
        let bounds = json!({ "maxSurge": surge, "maxUnavailable": unavailable, "orchestrationType": "Auto" });
        json!({ "type": "InPlaceUpdate", "rollingUpdate": null, "inPlaceUpdate": bounds })
    } else if stream.chance(0.2) {
        json!({ "type": "Recreate", "rollingUpdate": null, "inPlaceUpdate": null })
    } else {
        let rolling = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        json!({ "type": "RollingUpdate", "rollingUpdate": rolling, "inPlaceUpdate": null })
    }
}

pub(super) fn spec(change: Value) -> Step {
    patch_spec("MachineDeployment", NAME, change)
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "name": NAME } },
        "spec": { "class": { "kind": "MachineClass", "name": CLASSES[0] } },
    })
}

fn deployment(replicas: u64, strategy: &Value) -> Step {
    apply(object(replicas, strategy))
}

/// The deployment object.
pub(super) fn object(replicas: u64, strategy: &Value) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": { "name": NAME },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": NAME } },
            "strategy": strategy,
            "template": template(),
        },
    })
}

pub(super) fn class(name: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": name },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": "class-a-secret" },
    }))
}

/// Maximum duration of a rollout after all faults have ended: failed machines are replaced one at a time.
fn bound() -> DurationExpression {
    2 * (creation_timeout() + health_timeout()) + node_grace() + 10 * slack()
}

pub(super) fn at_rest(replicas: u64) -> Condition {
    let numbers = ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"];
    all(numbers.map(|number| counted("MachineDeployment", number, replicas)))
}

/// A status field of the deployment, or of the set of that name, has that number.
pub(super) fn counted(kind: &str, number: &str, is: u64) -> Condition {
    let of = |is: Value| field(kind, NAME, &format!("/status/{number}"), is);
    if is == 0 {
        any([of(json!(0)), of(Value::Null)])
    } else {
        of(json!(is))
    }
}
