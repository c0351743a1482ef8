//! mcm is killed before and after its first effect for a new machine, and again for its deletion. Nothing counts the effects before
//! the steps, so the scenario does not depend on their number.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, crash_mcm_next, create_machine, creation_timeout, delete_machine, phase, vm_count};
use scenario::step::Moment;

use super::nothing_left;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "crash_next",
        "mcm is killed before its next effect and after it, during a creation and during a deletion: the machine has one VM, and no VM is left at the end.",
    )
    .step(crash_mcm_next(Moment::Before))
    .step(create_machine("m-1"))
    .eventually(
        creation_timeout(),
        all([phase("m-1", Phase::Running), vm_count("m-1", 1)]),
    )
    .step(crash_mcm_next(Moment::After))
    .step(delete_machine("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
