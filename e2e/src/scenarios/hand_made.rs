//! VMs created by hand: one without the cluster's tags is ignored, one with the tags but without a Machine is
//! an orphan and is deleted.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, create_machine, create_vm, orphan_period, phase, slack, vm_count};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "hand_made",
        "A VM created by hand without the cluster's tags stays, one with the tags but without a Machine is deleted as \
         an orphan; the machine's VM stays.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(create_vm("of-a-person", false))
    .step(create_vm("left-behind", true))
    .eventually(slack(), all([vm_count("of-a-person", 1), vm_count("left-behind", 1)]))
    // The orphan is found in the first period and deleted a sixth of a period later; a restarted process waits
    // for one period.
    .eventually(3 * orphan_period() + slack(), vm_count("left-behind", 0))
    .always(
        orphan_period() + slack(),
        all([
            vm_count("of-a-person", 1),
            vm_count("m-1", 1),
            phase("m-1", Phase::Running),
        ]),
    )
}
