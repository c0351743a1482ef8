//! R63 `node-finalizer-orphan`: a deleted node kept the controller's finalizer, and no controller was left to
//! remove it.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, apply, budget, delete, deployment, field, keep, machine_gone, node_gone, orphan_period, phase, pods, seconds,
    slack, wait, workload,
};
use scenario::expect::PodState;
use serde_json::json;

use super::{POOL, joining, merge, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R63",
        name: "node-finalizer-orphan",
        origin: "MCM#1080, MCM PR#1097",
        group: Group::Loops,
        confidence: Confidence::Symptom,
        cases: vec![
            Case {
                id: "R63",
                scenario: label_taken(),
                mutant: true,
                breaks: &["I16", "I6", EXPECTED],
            },
            Case {
                id: "R63/b",
                scenario: own_nodes(),
                mutant: true,
                breaks: &["I10", EXPECTED],
            },
        ],
        open: "a crash at each stage: `drydock crash` does that to every scenario",
    }
}

/// A user removes the machine's label with the name of its node during the drain.
fn label_taken() -> Scenario {
    let unlabelled = json!({ "metadata": { "labels": { keys::NODE_LABEL: null } } });
    story(
        "r63-label-taken",
        "A machine loses its node label during the drain: the drain continues, and the node is deleted with the \
         machine.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(2))
    .eventually(joining(), all(["md-a-1", "md-a-2"].map(well)))
    .step(deployment(workload("web").replicas(4)))
    .step(budget("web", 0))
    .eventually(slack(), pods("web").on("md-a-2").are(PodState::Ready).at_least(1))
    .step(keep(1))
    .eventually(slack(), phase("md-a-2", Phase::Terminating))
    .step(wait(seconds(30)))
    .step(merge("Machine", "md-a-2", unlabelled))
    .always(seconds(300), pods("web").on("md-a-2").are(PodState::Ready).at_least(1))
    .step(budget("web", 4))
    .eventually(seconds(300), all([machine_gone("md-a-2"), node_gone("md-a-2")]))
}

/// Two nodes that a user manages.
fn own_nodes() -> Scenario {
    const OWN: [&str; 2] = ["own-1", "own-2"];
    let node = |name| apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } }));
    story(
        "r63-b-own-nodes",
        "A user's own nodes are in the cluster: mcm never writes them, and a deleted one is gone immediately.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .steps(OWN.map(node))
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(wait(orphan_period() + seconds(60)))
    .eventually(
        seconds(1),
        all(OWN.map(|name| field("Node", name, "/metadata/finalizers", json!(null)))),
    )
    .step(delete("Node", OWN[0]))
    .eventually(seconds(5), node_gone(OWN[0]))
    .step(keep(0))
    .eventually(slack(), machine_gone("md-a-1"))
}
