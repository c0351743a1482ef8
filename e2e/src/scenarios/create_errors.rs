//! A creation fails three times in three ways and then succeeds, with exactly one VM.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls, calls_at_least, create_machine, creation_timeout, error_code, fail_call, fail_calls, lift, phase,
    slack, vm_count,
};
use scenario::step::CloudCall;

pub(super) fn scenario() -> Scenario {
    let once = |name: &str, code| fail_call(name, CloudCall::CreateMachine, "m-1", 1, code);
    Scenario::new(
        "create_errors",
        "A creation fails three times and then succeeds, with exactly one VM.",
    )
    // The fault lasts until a condition shows it: an mcm that crashes before it writes the status has still
    // called the driver.
    .step(fail_calls(
        "quota",
        CloudCall::CreateMachine,
        "m-1",
        Code::ResourceExhausted,
    ))
    .step(once("outage", Code::Unavailable))
    .step(once("broken", Code::Internal))
    .step(create_machine("m-1"))
    .eventually(
        slack(),
        all([
            phase("m-1", Phase::CrashLoopBackOff),
            error_code("m-1", Code::ResourceExhausted),
        ]),
    )
    .step(lift("quota"))
    .eventually(creation_timeout(), phase("m-1", Phase::Running))
    .eventually(
        slack(),
        all([vm_count("m-1", 1), calls_at_least(CloudCall::CreateMachine, "m-1", 4)]),
    )
    .at_most(0, slack(), calls(CloudCall::CreateMachine, "m-1"))
}
