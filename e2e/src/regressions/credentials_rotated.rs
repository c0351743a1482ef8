//! R15 `credentials-rotated`: deletions kept using old credentials after they had been replaced, or machines
//! were removed whose VMs were invisible with another project's credentials.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{
    all, fault_hits, inject, keep, lift, long_retry, machine_gone, may_miss, mcm, orphan_period, seconds, slack,
    vm_count, wait,
};
use scenario::fixtures::{API_TOKEN, SECRET};
use scenario::step::{CloudCall, Fault, Patch, ProcessAction, Step};
use serde_json::json;

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R15",
        name: "credentials-rotated",
        origin: "CAPO#1116, MCM#542, kubermatic#13670",
        group: Group::Ledger,
        confidence: Confidence::Symptom,
        cases: vec![
            Case {
                id: "R15",
                scenario: rotated(),
                mutant: true,
                breaks: &[EXPECTED, "I13"],
            },
            Case {
                id: "R15/b",
                scenario: empty_project(),
                mutant: true,
                breaks: &["I2", EXPECTED],
            },
        ],
        open: "",
    }
}

fn token(token: &str) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: "Secret".to_owned(),
        name: SECRET.to_owned(),
        namespace: None,
        merge: json!({ "stringData": { "apiToken": token } }),
        status: false,
    })
}

/// A process starts with invalid credentials, which are corrected twenty minutes later.
fn rotated() -> Scenario {
    story(
        "r15-credentials-corrected",
        "A machine is deleted while the cloud rejects the credentials: its VM is deleted after they are corrected.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
    .step(token("expired"))
    .step(mcm(ProcessAction::Restart))
    .step(wait(seconds(30)))
    .step(keep(2))
    .step(wait(seconds(20 * 60)))
    .always(seconds(1), vm_count("md-a-3", 1))
    .step(token(API_TOKEN))
    .eventually(
        long_retry() + slack(),
        all([machine_gone("md-a-3"), vm_count("md-a-3", 0)]),
    )
}

/// With the credentials of another, empty project lookups find no VM, deletions find none, and lists are empty.
/// They are corrected long after the machine is gone.
fn empty_project() -> Scenario {
    let empty = [
        CloudCall::GetMachineStatus,
        CloudCall::DeleteMachine,
        CloudCall::ListMachines,
    ];
    let fault = |call: CloudCall| match inject(Fault::of(call.rpc(), call).lie()) {
        // A deletion needs no lookup.
        step if call == CloudCall::GetMachineStatus => may_miss(step),
        step => step,
    };
    story(
        "r15-b-empty-project",
        "A machine is deleted with the credentials of an empty project: its VM is collected after they are corrected.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
    .steps(empty.map(fault))
    .step(keep(2))
    .eventually(slack(), machine_gone("md-a-3"))
    .step(wait(seconds(20 * 60)))
    .always(seconds(1), vm_count("md-a-3", 1))
    .eventually(seconds(1), fault_hits(CloudCall::DeleteMachine.rpc(), 1))
    .steps(empty.map(|call| lift(call.rpc())))
    .eventually(2 * orphan_period(), vm_count("md-a-3", 0))
    .eventually(seconds(1), all(["md-a-1", "md-a-2"].map(well)))
    .quiet_end(slack())
}
