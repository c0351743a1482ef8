//! R20 `ca-breaks-meltdown-limit`: during an outage cluster-autoscaler released a machine that had never
//! joined, and the controller deleted one that had a node.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{fail_zone, restore_zone, seconds, wait};
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

/// The zone's VMs freeze for two hours; the replacement of the first machine never boots. The replicas are
/// lowered without selecting a machine.
fn decreased() -> Scenario {
    let story = story(
        "r20-decreased",
        "Replicas are lowered by one during an outage: the machine that never joined is deleted.",
    );
    settled(story, &[pool(4)])
        .step(wait(seconds(60)))
        .step(fail_zone("z1", ZoneFailure::Compute))
        .step(wait(seconds(38 * 60)))
        .step(scale(3))
        .step(wait(seconds(82 * 60)))
        .eventually(seconds(1), status(POOL, "replicas", 3))
        .step(restore_zone("z1"))
        .eventually(seconds(1800), at_size(3))
}
