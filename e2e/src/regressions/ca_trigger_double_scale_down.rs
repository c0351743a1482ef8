//! R43 `ca-trigger-double-scale-down`: a priority that an incomplete request had left on a machine was honoured
//! by a later, unrelated scale-down.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::keys;
use scenario::Scenario;
use scenario::builder::{all, field, machine_gone, seconds, slack, wait};
use serde_json::{Value, json};

use super::worlds::{TIMES, at_size, autoscaler, case, merge, pool, settled};
use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R43",
        name: "ca-trigger-double-scale-down",
        origin: "GA#342, GA PR#341, MCM PR#965; MCM#64, MCM#159, MCM#328, MCM PR#215",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R43", leftover_priority(), &["I15", "I7"]),
            case("R43/b", repeated(), &["I15", "I7", EXPECTED]),
            case("R43/old-protocol", old_protocol(), &[]),
        ],
        open: "",
    }
}

/// cluster-autoscaler selects a machine before a scale-down and reverts it. Later it selects another one.
fn leftover_priority() -> Scenario {
    let list = |list: Value| {
        let annotations = json!({
            keys::TRIGGER_DELETION_ANNOTATION: list,
            keys::LAST_SCALE_ANNOTATION: TIMES[0],
        });
        merge(
            "MachineDeployment",
            POOL,
            json!({ "metadata": { "annotations": annotations } }),
        )
    };
    let story = story(
        "r43-left-over",
        "The selection of a machine is reverted; later another one is selected: only that one is deleted.",
    );
    settled(story, &[pool(6)])
        .step(list(json!(format!("md-a-1~{}", TIMES[1]))))
        .eventually(slack(), field("Machine", "md-a-1", &priority(), "1"))
        .step(list(Value::Null))
        .step(wait(seconds(600)))
        .step(autoscaler("md-a-6", TIMES[2], 5))
        .eventually(seconds(600), all([machine_gone("md-a-6"), at_size(5)]))
        .eventually(
            seconds(1),
            all([well("md-a-1"), field("Machine", "md-a-1", &priority(), "3")]),
        )
        .quiet_end(joining())
}

fn priority() -> String {
    format!("/metadata/annotations/{}", keys::PRIORITY_ANNOTATION)
}

/// The response to the request is lost, and the request is sent again.
fn repeated() -> Scenario {
    let story = story(
        "r43-b-repeated",
        "A request that selects a machine and lowers the replicas is sent twice: one machine is deleted.",
    );
    let remaining = ["md-a-1", "md-a-2", "md-a-3", "md-a-4", "md-a-5"];
    settled(story, &[pool(6)])
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .step(wait(seconds(10)))
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .step(wait(seconds(600)))
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .eventually(seconds(600), all([machine_gone("md-a-6"), at_size(5)]))
        .eventually(seconds(1), all(remaining.map(well)))
}

/// A priority without the autoscaler's mark is a user's: it stays, and the next scale-down still selects
/// another machine.
fn old_protocol() -> Scenario {
    let chosen = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: "1" } } });
    let story = story(
        "r43-old-protocol",
        "A machine gets the lowest priority without a scale-down; later another one is selected: only that one is \
         deleted.",
    );
    settled(story, &[pool(6)])
        .step(merge("Machine", "md-a-1", chosen))
        .step(wait(seconds(600)))
        .step(autoscaler("md-a-6", TIMES[2], 5))
        .eventually(seconds(600), all([machine_gone("md-a-6"), at_size(5)]))
        .eventually(
            seconds(1),
            all([well("md-a-1"), field("Machine", "md-a-1", &priority(), "1")]),
        )
}
