//! Somebody deletes a machine that is not there: the API server says so, and nothing happens to those that are.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, create_machine, delete_unknown_machine, exists, phase, slack, vm_count};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "delete_unknown",
        "A machine that nobody made cannot be deleted, and no VM and no Node goes when somebody tries.",
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
