//! I12: the brake against meltdown. Of a MachineDeployment at most one Machine is in replacement because of the health
//! timeout: at the commit from Unknown to Failed every sibling is Running, Unknown or preserved.
//!
//! Siblings have the same label `name`, with or without a MachineDeployment of that name.

use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::sight::{Sight, label, machines_of, name, phase, time};

#[derive(Debug)]
pub(super) struct Brake;

impl Check for Brake {
    fn see(&mut self, sight: &Sight) -> Option<String> {
        let machine = sight.applied("Machine").filter(|machine| phase(machine) == "Failed")?;
        let deployment = label(machine, keys::DEPLOYMENT_LABEL);
        if deployment.is_empty() || sight.before.is_none_or(|before| phase(before) != "Unknown") {
            return None;
        }
        let other = |sibling: &&Value| name(sibling) != name(machine) && !is_settled(sibling);
        let others: Vec<String> = machines_of(sight.world, deployment)
            .filter(other)
            .map(|sibling| format!("{} is {:?}", name(sibling), phase(sibling)))
            .collect();
        (!others.is_empty()).then(|| {
            format!(
                "machine {} of {deployment} is Failed after the health timeout, and its sibling {}",
                name(machine),
                others.join(", ")
            )
        })
    }
}

fn is_settled(machine: &Value) -> bool {
    let preserved = time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    // One whose expiry a person removed is kept until the controller sees that.
    let kept = machine
        .pointer("/status/preservation/stage")
        .is_some_and(|stage| stage == "Draining" || stage == "Preserved");
    matches!(phase(machine), "Running" | "Unknown" | "Running:Preserved")
        || ((preserved || kept) && phase(machine) != "Terminating")
}
