//! Somebody deletes the Node of a machine: the machine goes with it, and its VM.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{create_machine, creation_timeout, delete, phase};

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "node_deleted",
        "The Node of a machine is deleted by hand: machine and VM go with it.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(delete("Node", "m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
