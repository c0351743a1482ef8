//! A VM that is of no use until it was initialized, and an initialization that fails for a while: the VM is kept and
//! initialized again, and before that its machine does not run, however healthy its node is.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls_at_least, create_machine, creation_timeout, fail_calls, lift, phase, seconds, short_retry, slack,
    vm_count,
};
use scenario::step::CloudCall;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "initialize",
        "A VM has to be initialized and that fails for a while: the same VM comes up, and not before.",
    )
    .require_initialize()
    .boots_in(seconds(1))
    .step(fail_calls(
        "flaky",
        CloudCall::InitializeMachine,
        "m-1",
        Code::Unavailable,
    ))
    .step(create_machine("m-1"))
    .eventually(slack(), phase("m-1", Phase::CrashLoopBackOff))
    .always(4 * short_retry(), phase("m-1", Phase::CrashLoopBackOff))
    .step(lift("flaky"))
    .eventually(creation_timeout(), phase("m-1", Phase::Running))
    .eventually(
        slack(),
        all([
            vm_count("m-1", 1),
            calls_at_least(CloudCall::InitializeMachine, "m-1", 2),
        ]),
    )
}
