//! A26 `negative-unavailable`: during a scale-down a deployment had less than zero unavailable machines, which its
//! definition refuses, so that its status stayed as it was until the machines were gone.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, machine_gone, observed};

use super::worlds::{case, pool, scale, settled};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A26",
        name: "negative-unavailable",
        origin: "found in the requests of mcm",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("A26", scaled_to_none(), &["I22"])],
        open: "",
    }
}

fn scaled_to_none() -> Scenario {
    let story = story(
        "a26-scaled-to-none",
        "A deployment of three machines is scaled to none: every status that mcm writes on the way is valid.",
    );
    let gone = [1, 2, 3].map(|number| machine_gone(&format!("{POOL}-{number}")));
    settled(story, &[pool(3)]).step(scale(0)).eventually(
        2 * joining(),
        all(gone.into_iter().chain([observed("MachineDeployment", POOL)])),
    )
}
