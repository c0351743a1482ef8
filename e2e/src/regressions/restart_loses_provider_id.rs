//! R05 `restart-loses-provider-id`: VMs stayed forever, or machines had two, after the controller died between
//! the cloud's response and the write of the provider ID.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{
    all, calls, delete_machine, fault_hits, keep, machine_gone, mcm, seconds, slow_call, vm_count, wait,
};
use scenario::step::{CloudCall, ProcessAction};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R05",
        name: "restart-loses-provider-id",
        origin: "MCM#423, CAPA#5794",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R05",
                scenario: deleted_while_down(),
                mutant: true,
                breaks: &["I2", "I1"],
            },
            Case {
                id: "R05/b",
                scenario: restarted(),
                mutant: true,
                breaks: &["I1"],
            },
        ],
        open: "",
    }
}

/// The process is killed after the VM is created and before the response arrives.
fn killed_after_creation(name: &str, about: &str) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(slow_call("late", CloudCall::CreateMachine, "md-a-1", seconds(10)))
        .step(keep(1))
        .eventually(seconds(60), vm_count("md-a-1", 1))
        .step(mcm(ProcessAction::Kill))
}

fn deleted_while_down() -> Scenario {
    killed_after_creation(
        "r05-restart-loses-id",
        "mcm dies before it writes a provider ID, and the machine is deleted in the meantime: its VM is deleted before \
         the machine.",
    )
    .step(delete_machine("md-a-1"))
    .step(wait(seconds(30)))
    .step(mcm(ProcessAction::Start))
    .eventually(seconds(300), all([machine_gone("md-a-1"), vm_count("md-a-1", 0)]))
    .eventually(joining(), well("md-a-2"))
    .eventually(seconds(1), fault_hits("late", 1))
    .quiet_end(joining())
}

fn restarted() -> Scenario {
    killed_after_creation(
        "r05-b-restart-creates",
        "mcm dies before it writes a provider ID: its successor adopts the existing VM.",
    )
    .step(wait(seconds(30)))
    .at_most(0, seconds(600), calls(CloudCall::CreateMachine, "md-a-1"))
    .meanwhile()
    .step(mcm(ProcessAction::Start))
    .eventually(seconds(300), well("md-a-1"))
    .eventually(seconds(1), fault_hits("late", 1))
    .quiet_end(joining())
}
