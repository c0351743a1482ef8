//! Latent defects of preservation without an issue of their own, by their number in the appendix of the corpus.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Code, Phase, keys};
use scenario::builder::{
    all, annotate, budget, create_machine, deployment, fail_calls, field, flap, kubelet, lift, not, phase, pods,
    preserve_timeout, seconds, slack, unchanged, wait, workload,
};
use scenario::expect::PodState;
use scenario::step::{CloudCall, KubeletAction};
use scenario::{Condition, Scenario, Step};
use serde_json::Value;

use super::worlds::{Pool, case, failing, kept, pool, settled, status};
use super::{POOL, joining, story, well};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "A08",
            "second-failure-not-drained",
            case("A08", fails_twice(), &["I11", EXPECTED]),
        ),
        entry(
            "A09",
            "create-failure-drops-expiry",
            case("A09", creation_fails(), &["I5", EXPECTED]),
        ),
        entry(
            "A20",
            "node-request-counts-as-automatic",
            case("A20", requested_beside_automatic(), &["I4", "I11", EXPECTED]),
        ),
        entry(
            "A21",
            "no-wake-up-on-failure",
            case("A21", node_requests(), &["I13", "I11", EXPECTED]),
        ),
        entry("A22", "expiry-without-timer", case("A22", idle_cluster(), &["I13"])),
    ]
}

fn entry(id: &'static str, name: &'static str, case: Case) -> Entry {
    Entry {
        id,
        name,
        origin: "seen in the code of MCM",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![case],
        open: "",
    }
}

fn request_preservation(kind: &str, name: &str, value: &str) -> Step {
    annotate(kind, name, keys::PRESERVE_ANNOTATION, value)
}

/// Makes the kernel of a node dead or healthy and waits for this number of minutes.
fn kernel_is_dead(dead: &str, minutes: u64) -> Step {
    flap(
        "md-a-1",
        "KernelDeadlock",
        [dead, dead],
        seconds(60),
        seconds(60 * minutes),
    )
}

/// Pods so large that each of two nodes has room for one.
fn fails_twice() -> Scenario {
    let serves = || pods("web").on("md-a-1").are(PodState::Ready).exactly(1);
    let empty = || all([kept("md-a-1"), pods("web").on("md-a-1").exactly(0)]);
    let story = story(
        "a08-fails-twice",
        "A preserved machine fails, recovers and fails again: its pods are evicted both times.",
    );
    settled(story, &[pool(2)])
        .step(deployment(workload("web").replicas(2).cpu("1500m")))
        .step(budget("web", 1))
        .eventually(slack(), serves())
        .step(request_preservation("Machine", "md-a-1", "now"))
        .step(kernel_is_dead("True", 12))
        .eventually(slack(), empty())
        .step(kernel_is_dead("False", 1))
        .eventually(slack(), all([phase("md-a-1", Phase::RunningPreserved), serves()]))
        .step(kernel_is_dead("True", 12))
        .eventually(slack(), empty())
}

fn creation_fails() -> Scenario {
    let expiry = |machine: &str, is: Value| field("Machine", machine, "/status/currentStatus/preserveExpiryTime", is);
    story(
        "a09-creation-fails",
        "A machine whose creation fails repeatedly is preserved, and stays preserved until its expiry.",
    )
    .step(fail_calls("broken", CloudCall::CreateMachine, "m-1", Code::Internal))
    .step(create_machine("m-1"))
    .eventually(slack(), phase("m-1", Phase::CrashLoopBackOff))
    .step(request_preservation("Machine", "m-1", "now"))
    .eventually(slack(), not(expiry("m-1", Value::Null)))
    .always(
        seconds(10 * 60),
        unchanged("Machine", "m-1", "/status/currentStatus/preserveExpiryTime"),
    )
    .step(lift("broken"))
    .eventually(joining() + seconds(180), phase("m-1", Phase::RunningPreserved))
}

fn requested_beside_automatic() -> Scenario {
    let one = Pool { maximum: 1, ..pool(3) };
    let entries = || status(POOL, "preservedFailedReplicas", 2);
    settled(
        story(
            "a20-asked-beside-automatic",
            "One machine is preserved automatically with a maximum of one: another one whose Node requests it is \
             preserved as well.",
        ),
        &[one],
    )
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(failing(), kept("md-a-1"))
    .step(request_preservation("Node", "md-a-2", "when-failed"))
    .step(kubelet("md-a-2", KubeletAction::Stop))
    .eventually(failing(), both_kept())
    .always(slack(), both_kept())
    .eventually(slack(), entries())
}

fn both_kept() -> Condition {
    all(["md-a-1", "md-a-2"].map(kept))
}

fn node_requests() -> Scenario {
    settled(
        story(
            "a21-node-asks",
            "A machine whose Node requests preservation fails in an otherwise idle cluster: it is preserved \
             immediately.",
        ),
        &[pool(3)],
    )
    .step(request_preservation("Node", "md-a-1", "when-failed"))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(failing(), kept("md-a-1"))
}

fn idle_cluster() -> Scenario {
    story(
        "a22-quiet",
        "A preservation expires in an otherwise idle cluster: the machine stays Running and is released without delay.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), well("m-1"))
    .step(request_preservation("Machine", "m-1", "now"))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .step(wait(preserve_timeout() + 20 * slack()))
    .eventually(seconds(1), phase("m-1", Phase::Running))
}
