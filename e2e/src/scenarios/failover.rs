//! Of two mcm processes the leader is killed during creations: the standby takes over when the Lease expires,
//! and every machine gets exactly one VM.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, any, boot_delay, calls_at_least, create_machine, creation_timeout, delete_machine, lease_duration, mcm, phase,
    slack, vm_count,
};
use scenario::step::{CloudCall, ProcessAction};

use super::nothing_left;

const MACHINES: [&str; 3] = ["m-1", "m-2", "m-3"];

pub(super) fn scenario() -> Scenario {
    let running = |name| all([phase(name, Phase::Running), vm_count(name, 1)]);
    Scenario::new(
        "failover",
        "The leading mcm is killed during creations: the standby takes over, and each machine has exactly one VM.",
    )
    .replicas(2)
    .steps(MACHINES.map(create_machine))
    .eventually(
        creation_timeout() / 2,
        any(MACHINES.map(|name| calls_at_least(CloudCall::CreateMachine, name, 1))),
    )
    .step(mcm(ProcessAction::KillLeader))
    .eventually(lease_duration() + boot_delay() + slack(), all(MACHINES.map(running)))
    .steps(MACHINES.map(delete_machine))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
}
