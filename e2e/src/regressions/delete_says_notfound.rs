//! R12 `delete-says-notfound`: VMs kept running unowned after deletions that were reported as done but had not
//! happened.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{fault_hits, inject, keep, machine_gone, orphan_period, seconds, slack, vm_count};
use scenario::step::{CloudCall, Fault};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R12",
        name: "delete-says-notfound",
        origin: "karpenter-provider-gcp#242",
        group: Group::Ledger,
        confidence: Confidence::Symptom,
        cases: vec![Case {
            id: "R12",
            scenario: false_success(),
            mutant: true,
            breaks: &["I2"],
        }],
        open: "",
    }
}

fn false_success() -> Scenario {
    let fault = Fault::of("lie", CloudCall::DeleteMachine).machine("md-a-1").times(1);
    story(
        "r12-deletion-was-a-lie",
        "The cloud reports a VM as deleted without deleting it: the VM is collected as an orphan.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(inject(fault.lie()))
    .step(keep(0))
    .eventually(slack(), machine_gone("md-a-1"))
    .eventually(seconds(1), vm_count("md-a-1", 1))
    .eventually(seconds(1), fault_hits("lie", 1))
    .quiet_end(2 * orphan_period())
}
