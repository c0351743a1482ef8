//! A creation fails with one error, then with another, then with the first again: the machine reports each
//! error, and has exactly one VM at the end.

use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    all, calls_at_least, create_machine, creation_timeout, error_code, fail_call, fail_calls, lift, phase, vm_count,
};
use scenario::step::CloudCall;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "flaky_cloud",
        "A creation fails with two alternating errors: the machine reports each error, and has exactly one VM at the \
         end.",
    )
    // Of several matching rules the oldest applies first.
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
