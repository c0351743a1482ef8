//! The cloud answers a creation with one error, another, and the first one again: the machine says so each time, and
//! has exactly one VM in the end.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls_at_least, create_machine, creation_timeout, error_code, fail_call, fail_calls, lift, phase, vm_count,
};
use scenario::step::CloudCall;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "flaky_cloud",
        "Creation fails in two ways by turns: the machine says how, and has exactly one VM in the end.",
    )
    // The rule that was made first strikes first.
    .step(fail_call(
        "outage",
        CloudCall::CreateMachine,
        "m-1",
        2,
        Code::Unavailable,
    ))
    .step(fail_calls("broken", CloudCall::CreateMachine, "m-1", Code::Internal))
    .step(create_machine("m-1"))
    .eventually(
        creation_timeout(),
        all([
            error_code("m-1", Code::Internal),
            calls_at_least(CloudCall::CreateMachine, "m-1", 3),
        ]),
    )
    .step(lift("broken"))
    .eventually(
        creation_timeout(),
        all([phase("m-1", Phase::Running), vm_count("m-1", 1)]),
    )
}
