//! R20 `ca-breaks-meltdown-limit`: in an outage cluster-autoscaler took back a machine that had never come up, and the
//! controller removed one that had a node.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{fail_zone, mend_zone, seconds, wait};
use scenario::step::ZoneFailure;

use super::worlds::{at_size, case, pool, scale, settled, status};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R20",
        name: "ca-breaks-meltdown-limit",
        origin: "MCM#741",
        group: Group::Freeze,
        confidence: Confidence::Symptom,
        cases: vec![case("R20", decreased(), &["I15"])],
        open: "",
    }
}

/// The zone's VMs stand still for two hours; the replacement of the first machine never boots. The number is lowered
/// without a name.
fn decreased() -> Scenario {
    let story = story(
        "r20-decreased",
        "In an outage the number of replicas is lowered by one: the machine that never joined goes.",
    );
    settled(story, &[pool(4)])
        .step(wait(seconds(60)))
        .step(fail_zone("z1", ZoneFailure::Compute))
        .step(wait(seconds(38 * 60)))
        .step(scale(3))
        .step(wait(seconds(82 * 60)))
        .eventually(seconds(1), status(POOL, "replicas", 3))
        .step(mend_zone("z1"))
        .eventually(seconds(1800), at_size(3))
}
