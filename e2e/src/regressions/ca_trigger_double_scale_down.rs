//! R43 `ca-trigger-double-scale-down`: a priority that a broken request had left on a machine was honoured at the next,
//! unrelated scale-down.

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
            case("R43", left_over(), &["I15", "I7"]),
            case("R43/b", repeated(), &["I15", "I7", EXPECTED]),
            case("R43/old-protocol", old_protocol(), &[]),
        ],
        open: "",
    }
}

/// Cluster-autoscaler names a machine for a scale-down that is still to come, and takes the name back. Later it names
/// another one.
fn left_over() -> Scenario {
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
        "A machine is named and the name taken back; later another one is named: that one goes alone.",
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

/// The answer to the request was lost, and it is sent again.
fn repeated() -> Scenario {
    let story = story(
        "r43-b-repeated",
        "A request that names a machine and lowers the number is sent twice: one machine goes.",
    );
    let stay = ["md-a-1", "md-a-2", "md-a-3", "md-a-4", "md-a-5"];
    settled(story, &[pool(6)])
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .step(wait(seconds(10)))
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .step(wait(seconds(600)))
        .step(autoscaler("md-a-6", TIMES[0], 5))
        .eventually(seconds(600), all([machine_gone("md-a-6"), at_size(5)]))
        .eventually(seconds(1), all(stay.map(well)))
}

/// A priority that nobody marked is a person's: it stays, and the next scale-down names another machine all the same.
fn old_protocol() -> Scenario {
    let chosen = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: "1" } } });
    let story = story(
        "r43-old-protocol",
        "A machine got the lowest priority and the number stayed; later another one is named: that one goes alone.",
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
