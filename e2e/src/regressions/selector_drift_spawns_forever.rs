//! R49 `selector-drift-spawns-forever`: a set created machines forever, because they no longer matched its
//! selector.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::keys;
use scenario::Scenario;
use scenario::builder::{event_count, field, seconds, strip};
use serde_json::json;

use super::worlds::{at_size, case, pool, scale, settled};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R49",
        name: "selector-drift-spawns-forever",
        origin: "CAPI#14217, CAPI#12156, CAPI#738; cluster-api-provider-libvirt#109",
        group: Group::Rollouts,
        confidence: Confidence::Symptom,
        cases: vec![case("R49", labels_removed(), &["I9"])],
        open: "",
    }
}

/// For twenty minutes a user removes the label from each new machine. An hour later the released machines no
/// longer count.
fn labels_removed() -> Scenario {
    let usual = pool(3);
    let frozen = field("MachineSet", &usual.set(), "/metadata/labels/freeze", json!("True"));
    let story = story(
        "r49-labels-go",
        "A user removes the label from each new machine: the set stops after a few, and scales up long after that.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(scale(4))
        .eventually(seconds(120), frozen)
        .meanwhile()
        .eventually(
            seconds(120),
            event_count("MachineSet", &usual.set(), "ReleasedMachine", 1),
        )
        .meanwhile()
        .step(strip(keys::DEPLOYMENT_LABEL, POOL, seconds(1200)))
        .eventually(seconds(3600) + joining(), at_size(4))
}
