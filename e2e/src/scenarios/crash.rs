//! mcm is killed without notice while a VM is being made and again while it is being removed. `drydock crash lifecycle`
//! tries every moment between two effects; this is the one that also runs on a wall clock.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, calls_at_least, create_machine, creation_timeout, delete_machine, mcm, phase, vm_count};
use scenario::step::{CloudCall, ProcessAction};

use super::nothing_left;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "crash",
        "mcm is killed in the middle of a creation and of a deletion: one VM, and none is left.",
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
