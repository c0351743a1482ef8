//! R54 `terminating-ignored-in-surge`: a machine no longer counted as soon as its deletion began, so that a
//! rollout had more VMs than replicas and surge.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, seconds, wait};

use super::worlds::{at_size, case, class, drains_end, drains_take_long, pool, settled, status, to_class, updated};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R54",
        name: "terminating-ignored-in-surge",
        origin: "MCM PR#627, MCM#425; CAPI#3417",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R54", slow_drains(), &["I7"])],
        open: "a quota of four, and consecutive drains of half an hour: the invariant counts terminating VMs",
    }
}

fn slow_drains() -> Scenario {
    let story = story(
        "r54-slow-drains",
        "Old machines of a rollout drain for half an hour: they count against the surge until they are gone.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(drains_take_long())
        .step(to_class("class-b"))
        .step(wait(seconds(30 * 60)))
        .eventually(seconds(1), all([updated(1), status(POOL, "replicas", 4)]))
        .step(drains_end())
        .eventually(seconds(3600), at_size(3))
}
