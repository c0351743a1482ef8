//! A13 `inline-attachment-crashes-drain`: a VolumeAttachment without a PersistentVolume name crashed the drain.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    apply, create_machine, delete, delete_machine, deployment, exists, machine_gone, phase, pods, seconds, slack,
    workload,
};
use scenario::expect::PodState;
use serde_json::json;

use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A13",
        name: "inline-attachment-crashes-drain",
        origin: "spec machine.md 12, no. 19",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A13",
            scenario: inline(),
            mutant: true,
            breaks: &["I13", "I14", EXPECTED],
        }],
        open: "",
    }
}

/// A VolumeAttachment with an inline volume, as for volumes migrated from in-tree drivers.
fn inline() -> Scenario {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": "inline" },
        "spec": {
            "attacher": "other.example.org",
            "nodeName": "m-1",
            "source": { "inlineVolumeSpec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "1Gi" },
                "csi": { "driver": "other.example.org", "volumeHandle": "volume-1" },
            } },
        },
    });
    story(
        "a13-inline-attachment",
        "A node is drained to which an inline volume is attached: its pods are evicted, and the machine is deleted.",
    )
    .step(create_machine("m-1"))
    .step(deployment(workload("web")))
    .eventually(
        joining() + slack(),
        pods("web").on("m-1").are(PodState::Ready).exactly(1),
    )
    .step(apply(attachment))
    .eventually(seconds(1), exists("VolumeAttachment", "inline"))
    .step(delete_machine("m-1"))
    .eventually(2 * slack(), machine_gone("m-1"))
    .step(delete("VolumeAttachment", "inline"))
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
}
