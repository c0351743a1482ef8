//! What planted defects do in the place of the owner of preserved machines.

use mcm_core::preservation::Gate;

use super::Owner;

/// No rollout is ever under way; or nothing is kept but where machines are rolled.
pub(super) fn misread(mut owner: Owner) -> Result<Owner, Gate> {
    if let Owner::Deployment(one) = &mut owner {
        if defect!(AutomaticPreservationInRollout) {
            one.status.rolled_out.clear();
        }
        if defect!(OnlyRollingDeploymentsPreserve) && one.spec.strategy.type_ != "RollingUpdate" {
            return Err(Gate::RollingOut);
        }
    }
    Ok(owner)
}
