//! R71 `update-hot-loop`: an update that could not succeed was tried again at once, tens of thousands of times.

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{medium_retry, seconds, struck, wait};
use harness::scenario::disturb::api::{Action, Verb};

use super::worlds::{
    api_recovers, api_trouble, at_size, case, drains_end, drains_take_long, pool, refusal, scale, settled,
};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R71",
        name: "update-hot-loop",
        origin: "MCM#686, MCM#382",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            case("R71", refused("r71-refused", refusal(500)), &["I18"]),
            case("R71/b", refused("r71-b-conflicts", refusal(409)), &["I18"]),
            case("R71/not-frozen", not_frozen(), &[]),
        ],
        open: "",
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

/// A set has too many machines, and for ten minutes nothing of it can be written, its freeze among it.
fn not_frozen() -> Scenario {
    let usual = pool(2);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let story = story(
        "r71-not-frozen",
        "A set is to be frozen, and for ten minutes no write of it succeeds: it is tried now and then, and done when it may be.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .step(api_trouble(&[Verb::Patch], "machinesets*", refusal(503)))
        .steps(extra)
        .step(wait(seconds(600)))
        .eventually(seconds(1), struck("api", 2))
        .step(api_recovers())
        .step(drains_end())
        .eventually(medium_retry() + 2 * joining(), at_size(2))
        .quiet_end(joining())
}
