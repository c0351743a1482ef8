//! R51 `scale-up-feeds-old-set`: a scale-up during a rollout created machines of the old template, which the
//! rollout deleted minutes later.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::seconds;

use super::worlds::{at_size, case, class, pool, scale, settled, to_class, updated};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R51",
        name: "scale-up-feeds-old-set",
        origin: "MCM#754, MCM PR#765; GA#160, GA#30",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R51", scaled_during_rollout(), &["I15"])],
        open: "",
    }
}

fn scaled_during_rollout() -> Scenario {
    let story = story(
        "r51-grows-meanwhile",
        "A rollout of six machines is scaled up to twelve: no machine of the old class is created.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(6)])
        .step(to_class("class-b"))
        .eventually(3 * joining(), updated(3))
        .step(scale(12))
        .eventually(seconds(3600), at_size(12))
}
