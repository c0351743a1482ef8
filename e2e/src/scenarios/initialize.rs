//! A VM that is of no use until it was initialized, and an initialization that fails once: the VM is
//! kept and initialized again, not made anew.

use harness::Scenario;
use harness::scenario::builder::{
    all, calls_at_least, create_machine, creation_timeout, fail_call, phase, slack, vm_count,
};
use harness::scenario::step::CloudCall;
use mcm_api::{Code, Phase};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "initialize",
        "A VM has to be initialized and that fails once: the same VM comes up.",
    )
    .require_initialize()
    // A machine whose node is healthy is Running, initialized or not: the VM comes up after the second attempt.
    .boots_in(slack())
    .step(fail_call(
        "flaky",
        CloudCall::InitializeMachine,
        "m-1",
        1,
        Code::Unavailable,
    ))
    .step(create_machine("m-1"))
    .eventually(creation_timeout(), phase("m-1", Phase::Running))
    .eventually(
        slack(),
        all([
            vm_count("m-1", 1),
            calls_at_least(CloudCall::InitializeMachine, "m-1", 2),
        ]),
    )
}
