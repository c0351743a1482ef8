//! InitializeMachine returns NotFound: mcm skips the initialization, and the machines join.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, any, calls, calls_at_least, create_machine, creation_timeout, fail_calls, phase, slack, vm_count,
};
use scenario::step::CloudCall;

/// Two machines, because an mcm that crashes before the call later finds a VM that needs no initialization.
const MACHINES: [&str; 2] = ["m-1", "m-2"];

pub(super) fn scenario() -> Scenario {
    let not_found = |machine| fail_calls(machine, CloudCall::InitializeMachine, machine, Code::NotFound);
    let initialization_called = |machine| calls_at_least(CloudCall::InitializeMachine, machine, 1);
    Scenario::new(
        "initialize_not_found",
        "InitializeMachine returns NotFound: mcm skips it, and each machine becomes Running with its one VM.",
    )
    .steps(MACHINES.map(not_found))
    .steps(MACHINES.map(create_machine))
    .eventually(
        creation_timeout(),
        all(MACHINES.map(|machine| all([phase(machine, Phase::Running), vm_count(machine, 1)]))),
    )
    .eventually(slack(), any(MACHINES.map(initialization_called)))
    .at_most(0, slack(), calls(CloudCall::CreateMachine, "m-1"))
}
