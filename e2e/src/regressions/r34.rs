//! R34 `unreachable-node-volumes`: after a node had died its stateful pods could not start elsewhere for long, because its
//! volumes stayed attached.

use harness::regression::{Case, Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    attached_at_most, attached_to, keep, kubelet, machine_gone, pods, seconds, slack, stateful_set, storage_class,
    workload,
};
use harness::scenario::expect::PodState;
use harness::scenario::step::KubeletAction;

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R34",
        name: "unreachable-node-volumes",
        origin: "MCM#781, MCM PR#839, CAPI#10661",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R34/unreachable",
            scenario: unreachable(),
            mutant: false,
            breaks: &[],
        }],
        open: "its mutants: the cloud detaches the volumes of a VM that it deletes, and no detachment hangs for ever",
    }
}

/// A pod with a volume on the first of two machines, whose kubelet dies.
fn unreachable() -> Scenario {
    story(
        "r34-unreachable",
        "A node with a volume dies: when its machine is given up the volume is detached, and its pod runs elsewhere.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(storage_class())
    .step(keep(1))
    .step(stateful_set(workload("db").volume("1Gi")))
    .eventually(joining() + 2 * slack(), attached_to("data-db-0", "md-a-1"))
    .eventually(slack(), pods("db").on("md-a-1").are(PodState::Ready).exactly(1))
    .step(keep(2))
    .eventually(joining(), well("md-a-2"))
    .throughout(attached_at_most("data-db-0", 1))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(
        seconds(15 * 60 + 40),
        pods("db").on("md-a-2").are(PodState::Ready).exactly(1),
    )
    .meanwhile()
    .eventually(seconds(20 * 60), machine_gone("md-a-1"))
}
