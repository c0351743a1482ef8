//! R47 `overshoot-on-stale-cache`: a scale-up from 3 to 131 machines created about 43 too many, because the
//! next pass did not see those that had just been created.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{fault_hits, seconds};

use super::story;
use super::worlds::{api_fails, at_size, case, pool, scale, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R47",
        name: "overshoot-on-stale-cache",
        origin: "MCM#1091; k0smotron#1534",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R47", late_watch(), &["I7", "I9"])],
        open: "to 61 machines, not 131",
    }
}

fn late_watch() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(10),
    };
    let story = story(
        "r47-late-watch",
        "Watch events of machines arrive ten seconds late: from 3 to 61 and back no surplus machine is created or \
         deleted.",
    );
    settled(story, &[pool(3)])
        .step(api_fails(&[Verb::Watch], "machines", lag))
        .step(scale(61))
        .eventually(seconds(3600), at_size(61))
        .step(scale(3))
        .eventually(seconds(3600), at_size(3))
        .eventually(seconds(1), fault_hits("api", 1))
}
