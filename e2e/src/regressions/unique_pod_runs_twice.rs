//! A23 and A24: pods that must not run twice left the API of a node that did not answer while its VM ran, and volumes were
//! detached from a VM that ran.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Code, keys};
use scenario::builder::{
    all, annotate, apply, attached_to, create_machine, delete_machine, fail_calls, fault_hits, kubelet, lift,
    machine_gone, phase, pods, seconds, slack, stateful_set, storage_class, wait, workload,
};
use scenario::expect::PodState;
use scenario::step::{CloudCall, KubeletAction};
use scenario::workload::{APP, SIMULATED, STORAGE};
use scenario::{PreserveFencing, Scenario, Step};
use serde_json::json;

use super::worlds::{case, pool, settled};
use super::{joining, story};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "A23",
            "unique-pod-runs-twice",
            vec![
                case("A23", preserved(), &["I20", EXPECTED]),
                case("A23/b", deleted(), &["I20", EXPECTED]),
                case("A23/c", fenced(), &["I20", EXPECTED]),
            ],
        ),
        entry(
            "A24",
            "volume-of-a-running-vm",
            vec![case("A24", with_volume(), &["I21", EXPECTED])],
        ),
    ]
}

fn entry(id: &'static str, name: &'static str, cases: Vec<Case>) -> Entry {
    Entry {
        id,
        name,
        origin: "seen in the code of MCM",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases,
        open: "",
    }
}

/// Two machines, the pod of a StatefulSet on the first one, which is to be preserved and is cut off.
fn cut_off(story: Scenario) -> Scenario {
    let cordon = |closed: bool| scenario::builder::patch_spec("Node", "md-a-2", json!({ "unschedulable": closed }));
    settled(story, &[pool(2)])
        .step(cordon(true))
        .step(wait(slack()))
        .step(stateful_set(workload("db")))
        .eventually(
            joining() + slack(),
            pods("db").on("md-a-1").are(PodState::Ready).exactly(1),
        )
        .step(cordon(false))
        .step(annotate("Node", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Partition))
}

/// The pod on that machine terminates, and there is no second one.
fn stays(machine: &str) -> scenario::Condition {
    all([
        pods("db").exactly(1),
        pods("db").on(machine).are(PodState::Terminating).exactly(1),
    ])
}

fn preserved() -> Scenario {
    cut_off(story(
        "a23-preserved",
        "The node of a preserved machine does not answer: the pod of a StatefulSet on it stays in the API.",
    ))
    .step(wait(seconds(12 * 60)))
    .always(seconds(10 * 60), stays("md-a-1"))
}

fn fenced() -> Scenario {
    let mut story = story(
        "a23-c-stop-fails",
        "The VM of a preserved machine that does not answer cannot be stopped: the pod of a StatefulSet on it stays in the \
         API.",
    );
    story.world.fencing = PreserveFencing::StopVm;
    let story = story.step(fail_calls("refused", CloudCall::StopMachine, "md-a-1", Code::Internal));
    cut_off(story)
        .step(wait(seconds(12 * 60)))
        .always(seconds(10 * 60), stays("md-a-1"))
}

/// Two machines; the first, with the pods of this step, is cut off and deleted, and the cloud does not delete its VM.
fn undeletable(story: Scenario, workload: impl IntoIterator<Item = Step>) -> Scenario {
    let ready = |machine: &str| pods("db").on(machine).are(PodState::Ready).exactly(1);
    story
        .step(create_machine("m-1"))
        .eventually(joining(), phase("m-1", mcm_api::Phase::Running))
        .steps(workload)
        .eventually(joining() + 2 * slack(), ready("m-1"))
        .step(create_machine("m-2"))
        .eventually(joining(), phase("m-2", mcm_api::Phase::Running))
        .step(fail_calls("busy", CloudCall::DeleteMachine, "m-1", Code::Unavailable))
        .step(kubelet("m-1", KubeletAction::Partition))
        .step(delete_machine("m-1"))
        .eventually(seconds(10 * 60), fault_hits("busy", 1))
}

fn deleted() -> Scenario {
    let story = story(
        "a23-b-deleted",
        "A machine is deleted whose node does not answer, and the cloud does not delete its VM: the pod of a StatefulSet on it \
         stays in the API until the VM is deleted.",
    );
    undeletable(story, [stateful_set(workload("db"))])
        .step(wait(seconds(10 * 60)))
        .eventually(seconds(1), stays("m-1"))
        .step(lift("busy"))
        .eventually(slack(), machine_gone("m-1"))
        .eventually(2 * slack(), pods("db").on("m-2").are(PodState::Ready).exactly(1))
}

/// The pod of a Deployment, whose successor waits for the volume.
fn with_volume() -> Scenario {
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let labels = json!({ APP: "db" });
    let container = json!({
        "name": "main",
        "image": "example.com/main",
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "db", "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "nodeSelector": { SIMULATED: "true" },
                    "containers": [container],
                    "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
                },
            },
        },
    });
    let story = story(
        "a24-volume",
        "A machine is deleted whose node does not answer, and the cloud does not delete its VM: the volume stays attached \
         until the VM is deleted.",
    );
    undeletable(story, [storage_class(), apply(claim), apply(deployment)])
        .step(wait(seconds(10 * 60)))
        .eventually(seconds(1), attached_to("data", "m-1"))
        .step(lift("busy"))
        .eventually(slack(), machine_gone("m-1"))
        .eventually(
            2 * slack(),
            all([
                attached_to("data", "m-2"),
                pods("db").on("m-2").are(PodState::Ready).exactly(1),
            ]),
        )
}
