//! A user updates a machine repeatedly during its creation: no update is lost, and the creation succeeds.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, annotate, calls_at_least, create_machine, creation_timeout, field, phase, slack, slow_call, vm_count,
};
use scenario::step::CloudCall;

/// The number of updates.
const EDITS: usize = 30;

pub(super) fn scenario() -> Scenario {
    let edits = (1..=EDITS).map(|number| annotate("Machine", "m-1", "example.com/edit", &number.to_string()));
    let last = EDITS.to_string();
    Scenario::new(
        "edits",
        "A user updates a machine repeatedly during its creation: no update is lost, and the machine has one VM.",
    )
    .step(slow_call("slow", CloudCall::CreateMachine, "m-1", slack() / 2))
    .step(create_machine("m-1"))
    .steps(edits)
    .eventually(
        creation_timeout(),
        all([
            phase("m-1", Phase::Running),
            vm_count("m-1", 1),
            field("Machine", "m-1", "/metadata/annotations/example.com~1edit", last),
            calls_at_least(CloudCall::CreateMachine, "m-1", 1),
        ]),
    )
}
