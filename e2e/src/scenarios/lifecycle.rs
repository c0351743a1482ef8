//! A full life cycle: a machine is created, joins, becomes Running and is deleted; no objects are left.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, at_any_time, create_machine, delete_machine, field, history, phase, slack, vm_count};

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "lifecycle",
        "A machine is created, joins and becomes Running; after its deletion no VM and no node are left.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), all([phase("m-1", Phase::Running), vm_count("m-1", 1)]))
    // The API server taints a new node; node lifecycle removes the taint when the node is Ready.
    .eventually(slack(), field("Node", "m-1", "/spec/taints/0", ()))
    .step(delete_machine("m-1"))
    .eventually(slack(), nothing_left("m-1"))
    .eventually(
        slack(),
        history(
            "m-1",
            [Phase::Pending, Phase::Running, Phase::Terminating].map(at_any_time),
        ),
    )
}
