//! A user deletes a VM in the cloud: the cloud controller deletes its Node after it is not ready, and mcm
//! deletes the machine.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{create_machine, creation_timeout, node_gone, node_grace, phase, slack, vm, vm_count};
use scenario::step::VmAction;

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "vm_deleted",
        "A VM is deleted in the cloud: the cloud controller deletes its Node, and mcm deletes the machine.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(vm("m-1", VmAction::Delete))
    .eventually(slack(), vm_count("m-1", 0))
    .eventually(node_grace() + slack(), node_gone("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
