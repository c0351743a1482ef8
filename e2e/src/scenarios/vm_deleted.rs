//! Somebody deletes a VM in the cloud: its Node goes once it is not ready, by the hand of the cloud's controller, and
//! the machine with it.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{create_machine, creation_timeout, node_gone, node_grace, phase, slack, vm, vm_count};
use scenario::step::VmAction;

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "vm_deleted",
        "A VM is deleted in the cloud: the cloud's controller removes its Node, and the machine goes with it.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(vm("m-1", VmAction::Delete))
    .eventually(slack(), vm_count("m-1", 0))
    .eventually(node_grace() + slack(), node_gone("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
