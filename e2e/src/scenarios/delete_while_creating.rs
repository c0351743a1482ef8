//! A machine is deleted while its VM boots: its node never joins, and no objects are left.

use scenario::Scenario;
use scenario::builder::{calls_at_least, create_machine, creation_timeout, delete_machine, node_gone, slack, vm_count};
use scenario::step::CloudCall;

use super::nothing_left;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "delete_while_creating",
        "A machine is deleted while its VM boots: no objects are left, and none appear later.",
    )
    .step(create_machine("m-1"))
    .eventually(slack(), calls_at_least(CloudCall::CreateMachine, "m-1", 1))
    .eventually(slack(), vm_count("m-1", 1))
    .step(delete_machine("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
    .always(slack(), node_gone("m-1"))
}
