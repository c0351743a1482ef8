//! I12: the brake against meltdown. Of a MachineDeployment at most one Machine is in replacement because of the health
//! timeout: at the commit from Unknown to Failed every sibling is Running, Unknown or preserved.
//!
//! Siblings have the same label `name`, with or without a MachineDeployment of that name.

use std::time::Duration;

use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, label, name, phase, time};
use crate::world::machines_of;

/// Times of objects have whole seconds.
const MOMENT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OneReplacementAtATime;

impl Check for OneReplacementAtATime {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        let machine = context
            .applied("Machine")
            .filter(|machine| phase(machine) == "Failed")?;
        let deployment = label(machine, keys::DEPLOYMENT_LABEL);
        if deployment.is_empty() || context.before.is_none_or(|before| phase(before) != "Unknown") {
            return None;
        }
        let other = |sibling: &&Value| {
            name(sibling) != name(machine) && !is_settled(sibling) && !is_unheard_of(context, sibling)
        };
        let others: Vec<String> = machines_of(context.world, deployment)
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

/// Whether the machine was made in this moment, by a rollout or in another one's place: nobody can have heard of it who was
/// about to write.
fn is_unheard_of(context: &CheckContext, machine: &Value) -> bool {
    let made = time(machine, "/metadata/creationTimestamp");
    phase(machine).is_empty() && made.is_some_and(|made| context.at() <= after(made, MOMENT))
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
