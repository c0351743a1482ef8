//! R50 `all-sets-scaled-to-zero`: the replicas changed halfway through a rollout such that nothing was left to
//! distribute, and every set was scaled to zero.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, seconds, slack};
use serde_json::json;

use super::worlds::{at_size, case, class, pool, rolling, settled, spec, status, to_class, updated};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R50",
        name: "all-sets-scaled-to-zero",
        origin: "MCM#802, MCM PR#803",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R50", nothing_to_distribute(), &["I7", "I15"]),
            case("R50/paused", paused(), &[]),
        ],
        open: "",
    }
}

/// A rollout of three machines, after its first new machine.
fn begun(name: &str, about: &str) -> Scenario {
    settled(story(name, about).step(class("class-b", "z1")), &[pool(3)])
        .step(to_class("class-b"))
        .eventually(slack(), updated(1))
}

fn nothing_to_distribute() -> Scenario {
    begun(
        "r50-nothing-to-distribute",
        "Replicas grow during a rollout by as much as the surge shrinks: no set loses its machines.",
    )
    .step(spec(json!({ "replicas": 4, "strategy": rolling(0, 1) })))
    .eventually(seconds(40 * 60), at_size(4))
}

/// The same after the first new machine, while the deployment is paused.
fn paused() -> Scenario {
    let keeps_its_machines = all([updated(1), status(POOL, "replicas", 4)]);
    begun(
        "r50-paused",
        "Replicas grow during a paused rollout by as much as the surge shrinks: every set keeps its size.",
    )
    .step(spec(
        json!({ "paused": true, "replicas": 4, "strategy": rolling(0, 1) }),
    ))
    .always(seconds(40 * 60), keeps_its_machines)
    .step(spec(json!({ "paused": false })))
    .eventually(seconds(40 * 60), at_size(4))
}
