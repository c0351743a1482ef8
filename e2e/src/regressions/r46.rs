//! R46 `one-too-many-on-scale-down`: a scale-down from 40 to 2 left one; machines that were going already were counted, and
//! others chosen.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{flap, seconds, wait};
use harness::scenario::disturb::api::{Action, Verb};

use super::story;
use super::worlds::{api_trouble, at_size, case, drains_end, drains_take_long, pool, scale, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R46",
        name: "one-too-many-on-scale-down",
        origin: "MCM#81; CAPI#6299, CAPI#9334; KMC#390",
        group: Group::Rollouts,
        confidence: Confidence::Guess,
        cases: vec![case("R46", many_drain(), &["I15", "I7"])],
        open: "a person deletes a machine while the number is lowered: a set that does not know the lower number yet makes another",
    }
}

fn many_drain() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(2),
    };
    let story = story(
        "r46-many-drain",
        "Of 40 machines 38 drain for ten minutes while a node flaps: 38 go and two stay.",
    );
    settled(story, &[pool(40)])
        .step(drains_take_long())
        .step(api_trouble(&[Verb::Watch], "machines", lag))
        .step(scale(2))
        .step(wait(seconds(30)))
        .step(flap(
            "md-a-9",
            "CustomProblem",
            ["True", "False"],
            seconds(30),
            seconds(600),
        ))
        .step(drains_end())
        .eventually(seconds(3600), at_size(2))
}
