//! R10 `delete-during-create`: a machine that was deleted during a slow creation disappeared, and its VM
//! stayed.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{
    all, fault_hits, keep, machine_gone, mcm, orphan_period, seconds, slow_creation, vm_count, wait,
};
use scenario::step::ProcessAction;

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R10",
        name: "delete-during-create",
        origin: "MCM#1035, KMC#581",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R10",
                scenario: deleted_meanwhile(),
                mutant: true,
                breaks: &["I2"],
            },
            Case {
                id: "R10/crash",
                scenario: crashed_meanwhile(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

fn deleted_meanwhile() -> Scenario {
    story(
        "r10-delete-during-create",
        "A machine is deleted while its creation takes five minutes: the deletion waits for the result, and nothing is \
         left.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(slow_creation("slow", "md-a-1", seconds(300)))
    .step(keep(1))
    .step(wait(seconds(60)))
    .step(keep(0))
    .eventually(seconds(600), all([machine_gone("md-a-1"), vm_count("md-a-1", 0)]))
    .step(wait(seconds(300)))
    .eventually(seconds(1), fault_hits("slow", 1))
    .quiet_end(seconds(60))
}

/// No process knows of the creation: the machine is removed, and its VM appears afterwards. The orphan
/// collection runs after a process has led for a period, and deletes it in the next pass.
fn crashed_meanwhile() -> Scenario {
    story(
        "r10-crash-during-create",
        "A machine is deleted while its creation takes five minutes, and the process crashes: the VM appears late, and \
         is collected.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(slow_creation("slow", "md-a-1", seconds(300)))
    .step(keep(1))
    .step(wait(seconds(60)))
    .step(keep(0))
    .step(wait(seconds(60)))
    .step(mcm(ProcessAction::Restart))
    .eventually(seconds(120), machine_gone("md-a-1"))
    .eventually(seconds(300), vm_count("md-a-1", 1))
    .eventually(2 * orphan_period(), vm_count("md-a-1", 0))
    .eventually(seconds(1), fault_hits("slow", 1))
    .quiet_end(seconds(60))
}
