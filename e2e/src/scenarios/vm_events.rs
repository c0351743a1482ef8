//! What clouds do to VMs besides killing them: they preempt them after a notice, kernels panic, and the API of a zone
//! fails for some calls.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    brown_out, create_machine, creation_timeout, delete_machine, health_timeout, node_grace, phase, preempt,
    restore_zone, short_retry, slack, vm, vm_count,
};
use scenario::step::VmAction;

use super::{joining, nothing_left};

pub(super) fn scenarios() -> [Scenario; 3] {
    [preempted(), panicked(), browned_out()]
}

fn preempted() -> Scenario {
    running(
        "vm_preempted",
        "A VM is preempted: its machine stays Running until the end of the notice, and is Failed after the health timeout.",
    )
    .step(preempt("m-1", slack()))
    .always(slack() / 2, phase("m-1", Phase::Running))
    .eventually(slack() + node_grace() + slack(), phase("m-1", Phase::Unknown))
    .eventually(health_timeout() + slack(), phase("m-1", Phase::Failed))
    .always(slack(), vm_count("m-1", 1))
}

fn panicked() -> Scenario {
    running(
        "vm_panicked",
        "The kernel of a VM panics: its machine becomes Unknown although the cloud shows the VM as running, and Running \
         after a reboot.",
    )
    .step(vm("m-1", VmAction::Panic))
    .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
    .step(vm("m-1", VmAction::Reboot))
    .eventually(joining(), phase("m-1", Phase::Running))
    .always(slack(), vm_count("m-1", 1))
}

fn browned_out() -> Scenario {
    Scenario::new(
        "zone_browned_out",
        "While some calls for a zone fail and the others are slow, a machine is created and deleted, and no VM is left.",
    )
    .step(brown_out("z1", short_retry()))
    .step(create_machine("m-1"))
    .eventually(creation_timeout(), phase("m-1", Phase::Running))
    .always(slack(), vm_count("m-1", 1))
    .step(delete_machine("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
    .step(restore_zone("z1"))
}

fn running(name: &str, about: &str) -> Scenario {
    Scenario::new(name, about)
        .step(create_machine("m-1"))
        .eventually(joining(), phase("m-1", Phase::Running))
}
