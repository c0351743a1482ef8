//! What became of preservations, by kind and number: for campaigns, which declare what must occur in them.
//!
//! What must not live here: whether any of it was right.

use std::collections::BTreeMap;

use mcm_api::keys;
use serde_json::Value;

use super::world::{WorldState, text};
use crate::invariants::{is_deleting, owner};

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// How often each thing happened.
pub type Counts = BTreeMap<String, u64>;

/// What a write of a Machine says of its preservation.
pub(super) fn machine(before: &Value, after: &Value, world: &WorldState) -> Option<String> {
    let stages = (stage(before), stage(after));
    if is_deleting(after) && !is_deleting(before) && stages.0 == "Draining" {
        let why = if is_outdated(after, world) {
            "rollout"
        } else {
            "scale-down"
        };
        return Some(format!("{why} during a drain"));
    }
    let by = text(after, "/status/preservation/by");
    match stages {
        ("Draining", "Draining") => None,
        (_, "Draining") if !text(before, EXPIRY).is_empty() => Some("relapse".to_owned()),
        (_, "Draining") => Some(format!("failed, kept by {by}")),
        ("", "Preserved") => Some(format!("kept by {by}")),
        (_, "Preserved") if phase(before).starts_with("Failed") && phase(after).starts_with("Running") => {
            Some("recovery".to_owned())
        }
        ("Releasing", "Releasing") => None,
        (_, "Releasing") => Some(format!("ended: {}", text(after, "/status/preservation/reason"))),
        _ if phase(after) == "Failed" && phase(before) != "Failed" && is_full(after, world) => {
            Some("limit reached".to_owned())
        }
        _ => None,
    }
}

/// What the removal of a Node means for a preservation.
pub(super) fn node_gone(node: &Value, world: &WorldState) -> Option<String> {
    let labels = &node["metadata"]["labels"];
    let machine = world.object("Machine", labels[keys::MACHINE_NAME_LABEL].as_str()?)?;
    (!stage(machine).is_empty() && stage(machine) != "Releasing").then(|| "node gone".to_owned())
}

/// Another mcm leads, and a preserved machine's pods are leaving.
pub(super) fn another_leads(world: &WorldState) -> Option<String> {
    let drains = world.of_kind("Machine").any(|machine| stage(machine) == "Draining");
    drains.then(|| "crash during a drain".to_owned())
}

fn stage(machine: &Value) -> &str {
    text(machine, "/status/preservation/stage")
}

fn phase(machine: &Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

fn deployment_of<'a>(machine: &Value, world: &'a WorldState) -> Option<(&'a Value, &'a Value)> {
    let set = world.object("MachineSet", owner(machine, "MachineSet")?)?;
    let deployment = world.object("MachineDeployment", owner(set, "MachineDeployment")?)?;
    Some((set, deployment))
}

/// Whether the machine is of another class than its deployment has.
fn is_outdated(machine: &Value, world: &WorldState) -> bool {
    let class = |object: &Value| object["spec"]["template"]["spec"]["class"]["name"].clone();
    deployment_of(machine, world).is_some_and(|(set, deployment)| class(set) != class(deployment))
}

/// Whether its deployment keeps as many failed machines as it may, and may keep some.
fn is_full(machine: &Value, world: &WorldState) -> bool {
    let Some((_, deployment)) = deployment_of(machine, world) else {
        return false;
    };
    let maximum = deployment["spec"]["autoPreserveFailedMax"].as_u64().unwrap_or_default();
    let entries = deployment.pointer("/status/preservations").and_then(Value::as_array);
    maximum > 0 && entries.is_some_and(|entries| entries.len() as u64 >= maximum)
}
