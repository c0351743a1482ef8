//! A user deletes the Node of a machine: mcm deletes the machine and its VM.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{create_machine, creation_timeout, delete, phase};

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "node_deleted",
        "A user deletes the Node of a machine: mcm deletes the machine and its VM.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(delete("Node", "m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
