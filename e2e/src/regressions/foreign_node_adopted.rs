//! R68 `foreign-node-adopted`: a foreign node was taken for a machine's node, because neither had a provider
//! ID.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{all, apply, fail_calls, fault_hits, field, keep, machine_gone, seconds, unchanged, wait};
use scenario::step::CloudCall;
use serde_json::json;

use super::{POOL, story};

const FOREIGN: [&str; 2] = ["f-1", "f-2"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R68",
        name: "foreign-node-adopted",
        origin: "MCM PR#451",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R68",
            scenario: no_provider_ids(),
            mutant: true,
            breaks: &["I10", "I16", EXPECTED],
        }],
        open: "",
    }
}

fn no_provider_ids() -> Scenario {
    let node = |name| apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } }));
    let untouched = || all(FOREIGN.map(|name| unchanged("Node", name, "/metadata/labels")));
    story(
        "r68-foreign-nodes",
        "Nodes without a provider ID exist while a machine without one is created and deleted: the nodes stay \
         unchanged.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .steps(FOREIGN.map(node))
    .step(wait(seconds(30)))
    .step(fail_calls("broken", CloudCall::CreateMachine, "md-a-1", Code::Internal))
    .throughout(untouched())
    .step(keep(1))
    .step(wait(seconds(300)))
    .step(keep(0))
    .eventually(seconds(900), machine_gone("md-a-1"))
    .eventually(seconds(1), fault_hits("broken", 1))
    .eventually(
        seconds(1),
        all(FOREIGN.map(|name| field("Node", name, "/metadata/deletionTimestamp", json!(null)))),
    )
}
