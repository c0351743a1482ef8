//! R71 `update-hot-loop`: an update that could not succeed was tried again at once, tens of thousands of times.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{seconds, struck, wait};
use harness::scenario::disturb::api::{Action, Verb};

use super::worlds::{api_recovers, api_trouble, at_size, case, pool, refusal, scale, settled};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R71",
        name: "update-hot-loop",
        origin: "MCM#686, MCM#382",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![case("R71", refused("r71-refused", refusal(500)), &["I18"])],
        open: "writes that conflict for ever are tried again every 200 ms",
    }
}

fn refused(name: &str, action: Action) -> Scenario {
    let story = story(
        name,
        "For ten minutes no write of a deployment succeeds: it is tried now and then, and done when it may be.",
    );
    settled(story, &[pool(3)])
        .step(api_trouble(&[Verb::Patch], "machinedeployments*", action))
        .step(scale(4))
        .step(wait(seconds(600)))
        .eventually(seconds(1), struck("api", 2))
        .step(api_recovers())
        .eventually(joining(), at_size(4))
        .quiet_end(joining())
}
