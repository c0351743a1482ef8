//! R58 `terminating-without-deletion`: the phase was Terminating although the deletion had failed, and it was
//! not retried.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Verb};
use scenario::builder::{fault_hits, seconds};

use super::worlds::{api_trouble_times, at_size, case, pool, refusal, scale, settled};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R58",
        name: "terminating-without-deletion",
        origin: "MCM#984, MCM PR#995",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R58", refused("r58-refused", refusal(500)), &["I19", "I11"]),
            case(
                "R58/lost",
                refused("r58-lost", Action::Drop { at: At::AfterCommit }),
                &[],
            ),
        ],
        open: "",
    }
}

fn refused(name: &str, action: Action) -> Scenario {
    let story = story(
        name,
        "Deletions of a machine fail three times: it is deleted all the same, and is not Terminating before.",
    );
    settled(story, &[pool(3)])
        .step(api_trouble_times(&[Verb::Delete], "machines", action, Some(3)))
        .step(scale(2))
        .eventually(seconds(600), at_size(2))
        .eventually(seconds(1), fault_hits("api", 1))
        .quiet_end(joining())
}
