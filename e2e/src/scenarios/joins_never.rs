//! The VM of a machine never finishes booting, and its node never joins: the machine fails after its creation
//! timeout, and can be deleted.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, create_machine, creation_timeout, delete_machine, description_contains, phase, seconds, slack, vm_count,
};

use super::nothing_left;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "joins_never",
        "The node of a machine never joins: the machine reports what it waits for, and fails after its creation \
         timeout.",
    )
    .boots_in(seconds(36_000))
    .step(create_machine("m-1"))
    .eventually(
        slack(),
        all([
            phase("m-1", Phase::Pending),
            description_contains("m-1", "Creating machine on cloud provider"),
            vm_count("m-1", 1),
        ]),
    )
    .always(creation_timeout() / 2, phase("m-1", Phase::Pending))
    .eventually(
        creation_timeout(),
        all([
            phase("m-1", Phase::Failed),
            description_contains("m-1", "failed to join the cluster in"),
        ]),
    )
    .step(delete_machine("m-1"))
    .eventually(slack(), nothing_left("m-1"))
}
