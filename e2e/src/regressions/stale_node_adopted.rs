//! R65 `stale-node-adopted`: a new machine became Running on the Node of a dead predecessor of the same name.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, calls_at_least, create_machine, exists, inject, mcm, phase, seconds, slow_call, vm, vm_count,
};
use scenario::step::{CloudCall, Fault, ProcessAction, VmAction};

use super::failed_machine_is_created_again::{class_with_names, machine_of_that_class};
use super::{joining, removed, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R65",
        name: "stale-node-adopted",
        origin: "MCM#633, MCM PR#645",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R65",
                scenario: same_name(),
                mutant: true,
                breaks: &["I19", EXPECTED],
            },
            Case {
                id: "R65/b",
                scenario: joins_early(),
                mutant: true,
                breaks: &["I3"],
            },
        ],
        open: "",
    }
}

/// The process dies after the VM is created; the cloud hides it from the next process, which requests it again;
/// by then its kubelet has registered.
fn joins_early() -> Scenario {
    let lag = |name: &str, call| inject(Fault::of(name, call).stale(seconds(180)));
    story(
        "r65-b-joins-early",
        "The node of a VM joins before its provider ID is stored, and the creation is repeated: the VM stays.",
    )
    .creates_once()
    .boots_in(seconds(1))
    .step(class_with_names())
    .step(slow_call("late", CloudCall::CreateMachine, "m-1", seconds(60)))
    .steps([
        lag("lag-of-lookups", CloudCall::GetMachineStatus),
        lag("lag-of-lists", CloudCall::ListMachines),
    ])
    .step(machine_of_that_class("m-1"))
    .eventually(seconds(120), exists("Node", "ip-m-1"))
    .step(mcm(ProcessAction::Kill))
    .step(mcm(ProcessAction::Start))
    .eventually(seconds(300), all([phase("m-1", Phase::Running), vm_count("m-1", 1)]))
    .always(seconds(300), phase("m-1", Phase::Running))
    .eventually(seconds(1), calls_at_least(CloudCall::CreateMachine, "m-1", 2))
}

/// While mcm is down the machine is removed by force, its VM is deleted, and its node remains.
fn same_name() -> Scenario {
    story(
        "r65-same-name",
        "A machine has the name of one that was removed by force and whose node still exists: it waits for its own \
         node.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(mcm(ProcessAction::Kill))
    .steps(removed("Machine", "m-1"))
    .step(vm("m-1", VmAction::Delete))
    .step(create_machine("m-1"))
    .step(mcm(ProcessAction::Start))
    .never(seconds(60), phase("m-1", Phase::Running))
    .eventually(seconds(25 * 60), phase("m-1", Phase::Running))
    .always(seconds(300), phase("m-1", Phase::Running))
}
