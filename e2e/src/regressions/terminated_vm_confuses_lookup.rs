//! R14 `terminated-vm-confuses-lookup`: several VMs for one machine, because the record of a terminated VM hid
//! the running one.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, calls, fault_hits, inject, keep, lift_api_fault, seconds, vm, vm_count, wait,
};
use scenario::step::{Client, CloudCall, Fault, Step, VmAction};

use super::{POOL, joining, refused, story, well};

const MACHINE: &str = "md-a-1";

pub(super) fn entry() -> Entry {
    Entry {
        id: "R14",
        name: "terminated-vm-confuses-lookup",
        origin: "KMC#381, KMC PR#384",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R14",
                scenario: hidden(),
                mutant: true,
                breaks: &["I1"],
            },
            Case {
                id: "R14/ended",
                scenario: first_vm_terminated(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

/// That many creations make a VM and say that they failed.
fn failed(times: u64) -> Step {
    let fault = Fault::of("failed", CloudCall::CreateMachine).times(times);
    inject(fault.code(Code::Internal).after_commit())
}

/// Both attempts report a failure: the third one finds the second one's VM, unless the first one's record hides
/// it.
fn hidden() -> Scenario {
    story(
        "r14-hidden-vm",
        "The first VM of a machine is terminated but still listed, the second runs and was never reported: mcm finds \
         the second.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(failed(2))
    .step(keep(1))
    .eventually(seconds(30), all([fault_hits("failed", 1), vm_count(MACHINE, 1)]))
    .step(vm(MACHINE, VmAction::Delete))
    .at_most(1, seconds(900), calls(CloudCall::CreateMachine, MACHINE))
    .meanwhile()
    .eventually(seconds(600) + joining(), well(MACHINE))
    .eventually(seconds(1), fault_hits("failed", 2))
    .step(wait(seconds(900)))
}

/// The first VM is created by a call that reports a failure, and is terminated when the next attempt looks for
/// it.
fn first_vm_terminated() -> Scenario {
    let conflicts = Rule {
        matches: Match {
            verbs: vec![Verb::Patch],
            resource: Some(Pattern::new("machines")),
            skip: 1,
            times: Some(2),
            ..Match::default()
        },
        ..Rule::new("conflicts", refused(409))
    };
    story(
        "r14-ended-vm",
        "The first VM of a machine is terminated but still listed: mcm finds the second.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(failed(1))
    .step(keep(1))
    .eventually(seconds(30), all([fault_hits("failed", 1), vm_count(MACHINE, 1)]))
    .step(vm(MACHINE, VmAction::Delete))
    .eventually(seconds(60), vm_count(MACHINE, 0))
    .step(api_fault_by(Client::Mcm, conflicts))
    .at_most(1, seconds(900), calls(CloudCall::CreateMachine, MACHINE))
    .meanwhile()
    .eventually(seconds(180) + joining(), well(MACHINE))
    .step(lift_api_fault("conflicts"))
    .step(wait(seconds(900)))
}
