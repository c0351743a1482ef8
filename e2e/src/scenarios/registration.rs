//! Drivers that register with mcm: replicas of mcm, several processes of one driver, updates and migrations.

use mcm_api::Phase;
use scenario::builder::{
    all, any, boot_delay, calls_at_least, create_machine, creation_timeout, delete_machine, description_contains,
    drivers, lease_duration, lift, mcm, phase, slack, slow_call, vm_count,
};
use scenario::step::{CloudCall, ProcessAction};
use scenario::{Condition, Scenario};

use super::{class_migration, hot_update, joining, nothing_left};

const MACHINES: [&str; 3] = ["m-1", "m-2", "m-3"];

pub(super) fn scenarios() -> [Scenario; 4] {
    [failover(), processes(), update(), migration()]
}

fn running(name: &str) -> Condition {
    all([phase(name, Phase::Running), vm_count(name, 1)])
}

fn failover() -> Scenario {
    Scenario::new(
        "registered_failover",
        "The leading mcm is killed during creations: the driver is already registered with the standby, and each machine \
         has exactly one VM, also one that is created later.",
    )
    .replicas(2)
    .drivers(1)
    .steps(MACHINES.map(create_machine))
    .eventually(
        creation_timeout() / 2,
        any(MACHINES.map(|name| calls_at_least(CloudCall::CreateMachine, name, 1))),
    )
    .step(mcm(ProcessAction::KillLeader))
    .eventually(lease_duration() + boot_delay() + slack(), all(MACHINES.map(running)))
    .step(create_machine("m-4"))
    .eventually(joining(), running("m-4"))
    .steps(MACHINES.map(delete_machine))
    .step(delete_machine("m-4"))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
    .eventually(slack(), nothing_left("m-4"))
}

fn processes() -> Scenario {
    Scenario::new(
        "registered_processes",
        "Two processes of one driver are restarted one after the other during a creation and a deletion, and both end: \
         no VM is lost or duplicated, and the machines continue when a process is back.",
    )
    .drivers(2)
    .step(slow_call("slow creation", CloudCall::CreateMachine, "m-1", slack()))
    .step(create_machine("m-1"))
    .eventually(joining(), calls_at_least(CloudCall::CreateMachine, "m-1", 1))
    .step(drivers(ProcessAction::RollingRestart))
    .step(lift("slow creation"))
    .eventually(joining() + slack(), running("m-1"))
    .step(drivers(ProcessAction::Kill))
    .step(create_machine("m-2"))
    .eventually(slack(), description_contains("m-2", "no driver has registered"))
    .step(drivers(ProcessAction::Start))
    .eventually(joining() + slack(), running("m-2"))
    .step(slow_call("slow deletion", CloudCall::DeleteMachine, "m-1", slack()))
    .steps(["m-1", "m-2"].map(delete_machine))
    .eventually(joining(), calls_at_least(CloudCall::DeleteMachine, "m-1", 1))
    .step(drivers(ProcessAction::RollingRestart))
    .step(lift("slow deletion"))
    .eventually(creation_timeout(), all(["m-1", "m-2"].map(nothing_left)))
}

fn update() -> Scenario {
    hot_update::story(
        "registered_hot_update",
        "The provider spec of a class changes in place, and the driver registers with mcm: the VM is updated, also after \
         a failure and a crash.",
    )
    .drivers(1)
}

fn migration() -> Scenario {
    class_migration::story(
        "registered_class_migration",
        "A machine refers to a class of a legacy kind, and the driver that converts this kind registers with mcm: the \
         machine becomes Running.",
    )
    .drivers(1)
}
