//! Q06, Q07, Q08, Q16: defects that the reference has, and nobody has reported.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, field, phase, seconds, slack};
use harness::scenario::expect::Condition;
use mcm_api::{Phase, keys};
use serde_json::{Value, json};

use super::worlds::{
    Pool, at_size, case, class, drains_end, drains_take_long, merge, pool, rolled, scale, settled, to_class, updated,
};
use super::{joining, story};

pub(super) fn entries() -> [Entry; 4] {
    let entry = |id, name, origin, case| Entry {
        id,
        name,
        origin,
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case],
        open: "",
    };
    [
        entry(
            "Q06",
            "in-place-never-scales",
            "the reference's scaling",
            case("Q06", scaled_in_place(), &[EXPECTED]),
        ),
        entry(
            "Q07",
            "surge-applied-twice",
            "the reference's first size of a new set",
            case("Q07", rolled_out(), &["I7"]),
        ),
        entry(
            "Q08",
            "never-grows-again",
            "the reference's label of an update in place",
            case("Q08", taken_back(), &[EXPECTED]),
        ),
        entry(
            "Q16",
            "no-surge-no-brake",
            "the reference's overshoot check",
            case("Q16", two_deployments(), &[EXPECTED]),
        ),
    ]
}

fn in_place(machines: u32, surge: u32) -> Pool {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": surge, "maxUnavailable": 1 - surge, "orchestrationType": "Auto" },
    });
    Pool {
        strategy,
        ..pool(machines)
    }
}

/// In the midst of an update in place, when both sets have machines, another one is wanted.
fn scaled_in_place() -> Scenario {
    let usual = in_place(2, 0);
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    let story = story(
        "q06-scaled-in-place",
        "An update in place is scaled up in its midst: it goes on, and there are as many machines as are wanted.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(seconds(600), phase("md-a-1", Phase::InPlaceUpdating))
        .step(merge("Node", "md-a-1", succeeded.clone()))
        .eventually(seconds(600), all([phase("md-a-1", Phase::Running), updated(1)]))
        .step(scale(3))
        .eventually(joining() + seconds(600), phase("md-a-2", Phase::InPlaceUpdating))
        .step(merge("Node", "md-a-2", succeeded))
        .eventually(joining() + seconds(600), at_size(3))
}

fn rolled_out() -> Scenario {
    let story = story(
        "q07-rolled-out",
        "Three machines are rolled out with a surge of one: never are there five.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(seconds(1800), rolled(3))
}

/// The template of an update in place comes back before any machine was updated, and then more are wanted.
fn taken_back() -> Scenario {
    let usual = in_place(2, 1);
    let disabled = |is: Value| -> Condition {
        let label = keys::SCALE_UP_DISABLED_LABEL.replace('/', "~1");
        field("MachineSet", &usual.set(), &format!("/metadata/labels/{label}"), is)
    };
    let story = story(
        "q08-taken-back",
        "An update in place is taken back at once, and more machines are wanted: the set of before grows.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(slack(), disabled(json!("true")))
        .step(to_class("class-a"))
        .step(scale(4))
        .eventually(2 * joining(), all([at_size(4), disabled(Value::Null)]))
}

/// One deployment recreates and has no surge; another one's set has too many machines.
fn two_deployments() -> Scenario {
    let first = Pool {
        name: "md-0",
        strategy: json!({ "type": "Recreate" }),
        ..pool(1)
    };
    let usual = pool(2);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let frozen = field("MachineSet", &usual.set(), "/metadata/labels/freeze", json!("True"));
    let story = story(
        "q16-two-deployments",
        "A set gets three machines too many, and another deployment knows no surge: the set is frozen all the same.",
    );
    settled(story, &[first, usual])
        .step(drains_take_long())
        .steps(extra)
        .eventually(2 * slack(), frozen)
        .step(drains_end())
        .eventually(seconds(600), at_size(2))
}
