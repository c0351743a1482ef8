//! mcm is killed while it creates a VM, and again while it deletes the VM. `drydock crash lifecycle` kills it
//! after every effect; this scenario also runs with a wall clock.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, calls_at_least, create_machine, creation_timeout, delete_machine, mcm, phase, vm_count};
use scenario::step::{CloudCall, ProcessAction};

use super::nothing_left;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "crash",
        "mcm is killed during a creation and during a deletion: the machine has one VM, and no VM is left at the end.",
    )
    .step(create_machine("m-1"))
    .eventually(
        creation_timeout() / 2,
        calls_at_least(CloudCall::CreateMachine, "m-1", 1),
    )
    .step(mcm(ProcessAction::Restart))
    .eventually(
        creation_timeout(),
        all([phase("m-1", Phase::Running), vm_count("m-1", 1)]),
    )
    .step(delete_machine("m-1"))
    .step(mcm(ProcessAction::Restart))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
