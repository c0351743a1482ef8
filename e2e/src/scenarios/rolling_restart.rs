//! A rolling restart of mcm during ten creations: no VM is lost or duplicated.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, any, boot_delay, calls_at_least, create_machine, creation_timeout, delete_machine, lease_duration, mcm, phase,
    slack, vm_count,
};
use scenario::step::{CloudCall, ProcessAction};

use super::nothing_left;

const MACHINES: [&str; 10] = ["m-0", "m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7", "m-8", "m-9"];

pub(super) fn scenario() -> Scenario {
    let running = |name| all([phase(name, Phase::Running), vm_count(name, 1)]);
    Scenario::new(
        "rolling_restart",
        "Two mcm are restarted one after the other while ten machines are created: each has one VM, and no VM is left \
         at the end.",
    )
    .replicas(2)
    .steps(MACHINES.map(create_machine))
    .eventually(
        creation_timeout() / 2,
        any(MACHINES.map(|name| calls_at_least(CloudCall::CreateMachine, name, 1))),
    )
    .step(mcm(ProcessAction::RollingRestart))
    .eventually(
        lease_duration() + boot_delay() + slack() + slack(),
        all(MACHINES.map(running)),
    )
    .steps(MACHINES.map(delete_machine))
    .step(mcm(ProcessAction::RollingRestart))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
}
