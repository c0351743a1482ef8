//! R60 `bad-class-burns-rollout`: a template whose nodes can never join made VM after VM, and healthy old ones were given up
//! for it.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, seconds, wait};

use super::story;
use super::worlds::{at_size, bad_class, case, pool, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R60",
        name: "bad-class-burns-rollout",
        origin: "karpenter; CAPI#4497",
        group: Group::Rollouts,
        confidence: Confidence::Guess,
        cases: vec![case("R60", never_joins(), &["I7", "I9"])],
        open: "",
    }
}

fn never_joins() -> Scenario {
    let usual = pool(3);
    let story = story(
        "r60-never-joins",
        "Machines of a new class never join: for six hours every old one stays, and then the class is taken back.",
    )
    .steps(bad_class());
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-bad"))
        .step(wait(seconds(6 * 3600)))
        .eventually(seconds(1), usual.runs())
        .step(to_class("class-a"))
        .eventually(seconds(30 * 60), all([at_size(3), usual.runs()]))
}
