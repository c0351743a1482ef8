//! VMs that somebody made by hand: one without the cluster's tags is nobody's business, one with them and without a
//! Machine is an orphan, and goes.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, create_machine, make_vm, orphan_period, phase, slack, vm_count};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "hand_made",
        "A VM made by hand without our tags is kept, one with them and without a Machine is collected; the machine's stays.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(make_vm("of-a-person", false))
    .step(make_vm("left-behind", true))
    .eventually(slack(), all([vm_count("of-a-person", 1), vm_count("left-behind", 1)]))
    // Seen in the first period and collected a sixth of one later; a process that is started again waits for a period.
    .eventually(3 * orphan_period() + slack(), vm_count("left-behind", 0))
    .always(
        orphan_period() + slack(),
        all([vm_count("of-a-person", 1), vm_count("m-1", 1), phase("m-1", Phase::Running)]),
    )
}
