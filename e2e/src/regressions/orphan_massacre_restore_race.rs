//! R02 `orphan-massacre-restore-race`: a control plane was migrated; the controller started before its Machines
//! were restored, and treated their VMs as orphans.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, apply, create_vm, mcm, orphan_period, seconds, vm_count, wait};
use scenario::step::ProcessAction;
use serde_json::{Value, json};

use super::story;

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R02",
        name: "orphan-massacre-restore-race",
        origin: "G PR#8742, G#3520",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R02",
            scenario: restored_late(),
            mutant: true,
            breaks: &["I3"],
        }],
        open: "",
    }
}

/// A Machine without its provider ID, as restored without a status; it may take long to join.
fn restored(name: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name, "labels": { "name": "md-a" } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "creationTimeout": "24h" },
    })
}

fn restored_late() -> Scenario {
    let vms_exist = || all(MACHINES.map(|machine| vm_count(machine, 1)));
    story(
        "r02-restore-race",
        "The VMs of a cluster exist before their Machines are restored: within an orphan period none is collected.",
    )
    .step(mcm(ProcessAction::Kill))
    .steps(MACHINES.map(|machine| create_vm(machine, true)))
    .eventually(seconds(5), vms_exist())
    .step(mcm(ProcessAction::Start))
    .step(wait(seconds(180)))
    .steps(MACHINES.map(|machine| apply(restored(machine))))
    .step(wait(2 * orphan_period()))
    .eventually(seconds(1), vms_exist())
}
