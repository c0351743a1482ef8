//! A VM needs initialization, which fails for some time: mcm keeps the VM and retries. The machine does not
//! become Running before, even if its node is healthy.

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
        "The initialization of a VM fails for some time: mcm retries on the same VM, and the machine does not become \
         Running before it succeeds.",
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
