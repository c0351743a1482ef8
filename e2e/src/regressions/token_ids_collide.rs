//! A15 `token-ids-collide`: the ID of a bootstrap token was derived from three bytes of the machine's name. Two
//! machines shared one token, and the first to join deleted it.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, boot_delay, keep, seconds, slack, wait};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A15",
        name: "token-ids-collide",
        origin: "spec machine.md 12, no. 6",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A15",
            scenario: similar_names(),
            mutant: true,
            breaks: &["I13", EXPECTED],
        }],
        open: "",
    }
}

fn similar_names() -> Scenario {
    story(
        "a15-alike-names",
        "Two machines with similar names boot at the same time, one a little later: both join.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .step(wait(seconds(60)))
    .step(keep(2))
    .eventually(joining(), well("md-a-1"))
    .eventually(boot_delay() + 2 * slack(), all(["md-a-1", "md-a-2"].map(well)))
}
