//! I12: protection against a meltdown. At most one Machine of a MachineDeployment is being replaced because of the
//! health timeout: at the commit from Unknown to Failed every sibling is Running, Unknown, preserved, or its in-place update
//! failed, so that it waits for its turn itself. If a health check requests the replacement, the deployment may permit
//! several. A machine whose preservation ends was Failed before.
//!
//! Siblings have the same label `name`, whether or not a MachineDeployment of that name exists.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, label, name, phase, time};
use crate::remediation::{is_remediation_requested, max_in_flight, max_in_flight_of};
use crate::world::machines_of;

/// Timestamps in objects have whole seconds.
const ONE_SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct OneReplacementAtATime {
    /// By deployment: former numbers of simultaneous replacements, and when a user changed them.
    former: BTreeMap<String, Vec<(Timestamp, usize)>>,
}

impl OneReplacementAtATime {
    fn follow_deployment(&mut self, context: &CheckContext) {
        let deployment = context.applied("MachineDeployment");
        let Some((deployment, before)) = deployment.zip(context.before) else {
            return;
        };
        let former = max_in_flight_of(before);
        if former != max_in_flight_of(deployment) {
            let changes = self.former.entry(name(deployment).to_owned()).or_default();
            changes.push((context.at(), former));
        }
    }

    /// The largest number that the controller may know.
    fn max_in_flight(&self, context: &CheckContext, deployment: &str) -> usize {
        let former = self.former.get(deployment).into_iter().flatten();
        former
            .filter(|(changed, _)| context.may_be_unseen(*changed))
            .map(|(_, limit)| *limit)
            .chain([max_in_flight(context.world, deployment)])
            .max()
            .unwrap_or(1)
    }
}

impl Check for OneReplacementAtATime {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.follow_deployment(context);
        let machine = context
            .applied("Machine")
            .filter(|machine| phase(machine) == "Failed")?;
        let deployment = label(machine, keys::DEPLOYMENT_LABEL);
        if deployment.is_empty() || context.before.is_none_or(|before| !may_become_failed(before)) {
            return None;
        }
        let other = |sibling: &&Value| {
            name(sibling) != name(machine) && !is_settled(sibling) && !is_just_created(context, sibling)
        };
        let others: Vec<String> = machines_of(context.world, deployment)
            .filter(other)
            .map(|sibling| format!("{} is {}", name(sibling), phase_or_new(sibling)))
            .collect();
        let requested = context.before.is_some_and(is_remediation_requested) || is_remediation_requested(machine);
        let limit = if requested {
            self.max_in_flight(context, deployment)
        } else {
            1
        };
        (others.len() >= limit).then(|| {
            format!(
                "machine {} of {deployment} is Failed after the health timeout while its sibling {}",
                name(machine),
                others.join(", ")
            )
        })
    }
}

/// Whether the machine is not Failed yet, and a timeout or a health check can make it so.
fn may_become_failed(machine: &Value) -> bool {
    match phase(machine) {
        "Unknown" => true,
        "Failed" | "Failed:Preserved" => false,
        _ => is_remediation_requested(machine),
    }
}

/// The phase of a machine in words.
fn phase_or_new(machine: &Value) -> &str {
    match phase(machine) {
        "" => "without a phase",
        phase => phase,
    }
}

/// Whether the machine was created at this moment, by a rollout or as a replacement: a controller that is about to
/// write cannot have observed it.
fn is_just_created(context: &CheckContext, machine: &Value) -> bool {
    let created = time(machine, "/metadata/creationTimestamp");
    phase(machine).is_empty() && created.is_some_and(|created| context.at() <= after(created, ONE_SECOND))
}

fn is_settled(machine: &Value) -> bool {
    let preserved = time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    // After a user removes the expiry, the Machine stays preserved until the controller observes the removal.
    let kept = machine
        .pointer("/status/preservation/stage")
        .is_some_and(|stage| stage == "Draining" || stage == "Preserved");
    matches!(
        phase(machine),
        "Running" | "Unknown" | "InPlaceUpdateFailed" | "Running:Preserved"
    ) || ((preserved || kept) && phase(machine) != "Terminating")
}
