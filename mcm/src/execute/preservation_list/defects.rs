//! Changes by planted defects to the owner of preserved machines.

use mcm_core::preservation::Admission;

use super::Owner;

/// Hides a rollout, or refuses preservation unless the strategy is RollingUpdate, depending on the defect.
pub(super) fn misread(mut owner: Owner) -> Result<Owner, Admission> {
    if let Owner::Deployment(one) = &mut owner {
        if defect!(AutomaticPreservationInRollout) {
            one.status.rolled_out.clear();
        }
        if defect!(OnlyRollingDeploymentsPreserve) && one.spec.strategy.type_ != "RollingUpdate" {
            return Err(Admission::RollingOut);
        }
    }
    Ok(owner)
}
