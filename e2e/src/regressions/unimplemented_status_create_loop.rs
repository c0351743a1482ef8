//! R16 `unimplemented-status-create-loop`: with a driver without VM lookup, and without a target cluster, every
//! pass created a VM.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls, fault_hits, inject, keep, machine_gone, mcm, phase, seconds, slack, vm_count, wait,
};
use scenario::expect::Condition;
use scenario::step::{CloudCall, Fault, ProcessAction};

use super::{POOL, story};

const MACHINES: [&str; 2] = ["md-a-1", "md-a-2"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R16",
        name: "unimplemented-status-create-loop",
        origin: "MCM PR#1050",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R16",
            scenario: loops(),
            mutant: true,
            breaks: &["I1", "I9", "I18"],
        }],
        open: "",
    }
}

fn loops() -> Scenario {
    let unimplemented = Fault::of("no-status", CloudCall::GetMachineStatus).code(Code::Unimplemented);
    let available = |machine: &str| {
        all([
            phase(machine, Phase::Available),
            vm_count(machine, 1),
            created_once(machine),
        ])
    };
    story(
        "r16-create-loop",
        "A driver has no VM lookup, and there is no target cluster: each machine has one VM, and is Available.",
    )
    .without_target()
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(inject(unimplemented))
    .step(keep(2))
    .eventually(slack(), all(MACHINES.map(available)))
    .step(wait(seconds(1800)))
    .step(mcm(ProcessAction::Restart))
    .always(seconds(1800), all(MACHINES.map(available)))
    .eventually(seconds(1), fault_hits("no-status", 2))
    .step(keep(0))
    .eventually(slack(), all(MACHINES.map(machine_gone)))
}

/// CreateMachine was called for the machine exactly once.
fn created_once(machine: &str) -> Condition {
    match calls(CloudCall::CreateMachine, machine) {
        Condition::Calls(calls) => Condition::Calls(scenario::expect::Calls {
            at_least: Some(1),
            at_most: Some(1),
            ..calls
        }),
        other => other,
    }
}
