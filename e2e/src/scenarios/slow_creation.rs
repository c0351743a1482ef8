//! A cloud takes more than a minute to create a VM, and the machine is deleted in the meantime: mcm waits for
//! the result of the creation.

use scenario::Scenario;
use scenario::builder::{
    calls_at_least, create_machine, delete_machine, exists, fault_hits, seconds, slack, slow_creation, vm_count, wait,
};
use scenario::step::CloudCall;

use super::nothing_left;

/// Longer than the usual timeout of gRPC calls.
const SECONDS: u64 = 65;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "slow_creation",
        "A machine is deleted while the cloud takes long to create its VM: it stays until the VM is created, and is \
         deleted with it.",
    )
    .step(slow_creation("slow", "m-1", seconds(SECONDS)))
    .step(create_machine("m-1"))
    .eventually(slack(), calls_at_least(CloudCall::GetMachineStatus, "m-1", 1))
    // The creation starts immediately, and its fault counts only when it is over.
    .step(wait(seconds(2)))
    .step(delete_machine("m-1"))
    .always(seconds(SECONDS - 10), exists("Machine", "m-1"))
    .eventually(seconds(10) + 2 * slack(), nothing_left("m-1"))
    .eventually(slack(), fault_hits("slow", 1))
    .always(slack(), vm_count("m-1", 0))
}
