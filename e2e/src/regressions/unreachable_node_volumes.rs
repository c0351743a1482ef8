//! R34 `unreachable-node-volumes`: after a node had died its stateful pods could not start elsewhere for long,
//! because its volumes stayed attached.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::builder::{
    all, attached_at_most, fail_calls, fault_hits, kubelet, lift, machine_gone, pods, seconds, slack, vm,
};
use scenario::expect::PodState;
use scenario::step::{CloudCall, KubeletAction, VmAction};
use scenario::{Scenario, Step};

use super::no_evictions_no_end::with_volume;

pub(super) fn entry() -> Entry {
    Entry {
        id: "R34",
        name: "unreachable-node-volumes",
        origin: "MCM#781, MCM PR#839, CAPI#10661",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R34",
                scenario: unreachable(),
                mutant: true,
                breaks: &["I16", EXPECTED],
            },
            Case {
                id: "R34/b",
                scenario: stuck(),
                mutant: true,
                breaks: &["I13", "I16", EXPECTED],
            },
        ],
        open: "",
    }
}

/// A pod with a volume on the first of two machines, which dies by this step.
fn dies(name: &str, about: &str, death: Step) -> Scenario {
    with_volume(name, about, serde_json::Value::Null)
        .throughout(attached_at_most("data-db-0", 1))
        .step(death)
}

fn unreachable() -> Scenario {
    dies(
        "r34-unreachable",
        "A node with a volume dies: the volume is detached when its machine fails, and its pod runs elsewhere.",
        kubelet("md-a-1", KubeletAction::Stop),
    )
    .eventually(
        seconds(15 * 60 + 40),
        pods("db").on("md-a-2").are(PodState::Ready).exactly(1),
    )
    .meanwhile()
    .eventually(seconds(20 * 60), machine_gone("md-a-1"))
}

fn stuck() -> Scenario {
    dies(
        "r34-b-stuck",
        "A VM with a volume stops, and the cloud does not detach it while the VM exists: the machine is deleted all \
         the same.",
        vm("md-a-1", VmAction::Kill),
    )
    .step(fail_calls(
        "busy",
        CloudCall::DeleteMachine,
        "md-a-1",
        Code::Unavailable,
    ))
    .step(fail_calls(
        "stuck",
        CloudCall::DetachVolume,
        "md-a-1",
        Code::Unavailable,
    ))
    .eventually(seconds(15 * 60), all([fault_hits("busy", 1), fault_hits("stuck", 1)]))
    .step(lift("busy"))
    .eventually(slack(), machine_gone("md-a-1"))
    .step(lift("stuck"))
    .eventually(slack(), pods("db").on("md-a-2").are(PodState::Ready).exactly(1))
}
