//! A user deletes a machine that does not exist: the API server returns NotFound, and existing machines are not
//! affected.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, create_machine, delete_unknown_machine, exists, phase, slack, vm_count};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "delete_unknown",
        "The deletion of a machine that does not exist fails, and no VM or Node is deleted.",
    )
    .step(delete_unknown_machine("m-0"))
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(delete_unknown_machine("m-0"))
    .always(
        slack(),
        all([phase("m-1", Phase::Running), exists("Node", "m-1"), vm_count("m-1", 1)]),
    )
}
