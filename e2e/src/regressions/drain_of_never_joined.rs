//! R32 `drain-of-never-joined`: machines that had never had a node could not be deleted, because their drain
//! failed forever.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{all, creation_timeout, fail_calls, keep, machine_gone, seconds, slack, vm_count, wait};
use scenario::step::CloudCall;

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R32",
        name: "drain-of-never-joined",
        origin: "MCM#465, MCM PR#480",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R32",
                scenario: without_vm(),
                mutant: true,
                breaks: &[EXPECTED, "I13", "I16"],
            },
            Case {
                id: "R32/boots",
                scenario: boots(),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R32/joins-never",
                scenario: never_joins(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

/// No VM is ever created, so the machine has no node.
fn without_vm() -> Scenario {
    story(
        "r32-never-joined",
        "A machine is deleted that never had a VM or a node: the drain has nothing to do, and the machine is deleted.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_calls("broken", CloudCall::CreateMachine, "md-a-*", Code::Internal))
    .step(keep(1))
    .step(wait(seconds(180)))
    .step(keep(0))
    .eventually(seconds(120), machine_gone("md-a-1"))
}

/// The VM exists, and its kubelet has not started yet.
fn boots() -> Scenario {
    story(
        "r32-boots",
        "A machine is deleted while its VM boots: the drain has nothing to do, and machine and VM are deleted.",
    )
    .boots_in(seconds(10 * 3600))
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(slack(), vm_count("md-a-1", 1))
    .step(wait(seconds(180)))
    .step(keep(0))
    .eventually(seconds(120), all([machine_gone("md-a-1"), vm_count("md-a-1", 0)]))
}

/// The VM exists, and its kubelet never starts.
fn never_joins() -> Scenario {
    story(
        "r32-joins-never",
        "The kubelet of a machine never starts: the machine fails after its creation timeout, and leaves nothing \
         behind.",
    )
    .boots_in(seconds(10 * 3600))
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(slack(), vm_count("md-a-1", 1))
    .eventually(creation_timeout() + slack() + seconds(120), machine_gone("md-a-1"))
    .step(keep(0))
    .eventually(seconds(120), machine_gone("md-a-2"))
    // The keeper may stop before it replaces the machine.
    .may_miss()
}
