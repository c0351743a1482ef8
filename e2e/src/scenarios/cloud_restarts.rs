//! fakecloud is restarted during ten creations, and killed during ten deletions; its ledger survives both.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, any, boot_delay, calls_at_least, create_machine, creation_timeout, delete_machine, fakecloud, phase, slack,
    vm_count,
};
use scenario::step::{CloudCall, ProcessAction};

use super::nothing_left;

const MACHINES: [&str; 10] = ["m-0", "m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7", "m-8", "m-9"];

pub(super) fn scenario() -> Scenario {
    let running = |name| all([phase(name, Phase::Running), vm_count(name, 1)]);
    let called = |call: CloudCall| any(MACHINES.map(|name| calls_at_least(call, name, 1)));
    Scenario::new(
        "cloud_restarts",
        "fakecloud restarts while ten machines are created and again while they are deleted: no VM is lost or \
         duplicated.",
    )
    .steps(MACHINES.map(create_machine))
    .eventually(creation_timeout() / 2, called(CloudCall::CreateMachine))
    .step(fakecloud(ProcessAction::RollingRestart))
    .eventually(boot_delay() + 3 * slack(), all(MACHINES.map(running)))
    .always(slack() / 2, all(MACHINES.map(running)))
    .steps(MACHINES.map(delete_machine))
    .eventually(creation_timeout() + slack(), called(CloudCall::DeleteMachine))
    .step(fakecloud(ProcessAction::Restart))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
}
