//! R52 `stale-desired-replicas-blocks-roll`: what a set noted of its deployment's size was out of date while its own size
//! fitted; every pass saw a changed size, did nothing, and the rollout never began.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::seconds;
use mcm_api::keys;
use serde_json::json;

use super::worlds::{case, class, merge, pool, rolled, settled, to_class};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R52",
        name: "stale-desired-replicas-blocks-roll",
        origin: "MCM#815, MCM PR#821",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R52", out_of_date(), &["I11"])],
        open: "",
    }
}

fn out_of_date() -> Scenario {
    let usual = pool(3);
    let noted = json!({ "metadata": { "annotations": { keys::DESIRED_REPLICAS_ANNOTATION: "5" } } });
    let story = story(
        "r52-out-of-date",
        "A set notes another size of its deployment than there is, and has the right one: a rollout goes on all the same.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(merge("MachineSet", &usual.set(), noted))
        .step(to_class("class-b"))
        .eventually(seconds(30 * 60), rolled(3))
        .quiet_end(joining())
}
