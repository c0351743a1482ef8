//! A VM dies silently: node lifecycle detects it, and the machine becomes Unknown, and Failed after the health
//! timeout and not earlier.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    at_any_time, between, create_machine, health_timeout, history, node_grace, phase, seconds, slack, vm, vm_count,
};
use scenario::step::VmAction;

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "vm_dies",
        "A VM dies: its machine becomes Unknown, and Failed after the health timeout, not earlier.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(vm("m-1", VmAction::Kill))
    .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
    .eventually(health_timeout() + slack(), phase("m-1", Phase::Failed))
    .eventually(
        slack(),
        history(
            "m-1",
            [
                at_any_time(Phase::Pending),
                at_any_time(Phase::Running),
                at_any_time(Phase::Unknown),
                // The time of the phase has a resolution of seconds, and a busy host observes a phase later
                // than it was written.
                between(Phase::Failed, health_timeout() - seconds(2), health_timeout() + slack()),
            ],
        ),
    )
    .always(slack(), vm_count("m-1", 1))
}
