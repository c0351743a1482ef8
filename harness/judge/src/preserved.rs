//! Counts events of preservations by kind, for campaigns that declare which events must occur.

use std::collections::BTreeSet;

use mcm_api::keys;
use scenario::observation::{Observation, Seen};
use serde_json::Value;

use super::world::WorldState;
use crate::invariants::{JudgingRules, preserved_at_most};
use crate::object::{annotation, is_deleting, owner, text};

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";
/// The annotations that a machine's template sets on its Node.
const TEMPLATE: &str = "/spec/nodeTemplate/metadata/annotations";

/// The preservation events that an observation causes; `before` is the object's previous version.
pub fn events(
    observation: &Observation,
    before: Option<&Value>,
    world: &WorldState,
    rules: &JudgingRules,
) -> Vec<String> {
    match (&observation.what, before) {
        (Seen::Applied(kind, machine), Some(before)) if kind.key == "Machine" => {
            let ends = deleted_during_drain(before, machine, world, rules);
            let event = ends.or_else(|| event_of_write(before, machine, world));
            let by_template_or_first_version = [
                requested_by_template(before, machine),
                requested_by_first_version(before, machine),
            ];
            event
                .into_iter()
                .chain(by_template_or_first_version.into_iter().flatten())
                .chain(fenced(before, machine))
                .chain(pods_kept(before, machine, world))
                .collect()
        }
        (Seen::Applied(kind, set), Some(before)) if kind.key == "MachineSet" => {
            preserved_by_standalone_set(before, set).into_iter().collect()
        }
        (Seen::Applied(kind, deployment), Some(before)) if kind.key == "MachineDeployment" => {
            listed_and_preserved(before, deployment, world).into_iter().collect()
        }
        (Seen::Applied(kind, node), Some(before))
            if kind.key == "Node" && is_deleting(node) && !is_deleting(before) =>
        {
            node_gone(node, world).into_iter().collect()
        }
        (Seen::Deleted(kind, node), _) if kind.key == "Node" => node_gone(node, world).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A machine is deleted while it drains for preservation, because of a rollout or a scale-down. It does not count if a
/// user deleted the machine or its Node, or if its VM no longer exists.
fn deleted_during_drain(before: &Value, after: &Value, world: &WorldState, rules: &JudgingRules) -> Option<String> {
    let begins_deletion = is_deleting(after) && !is_deleting(before) && stage(before) == "Draining";
    let mut vms = world.vms_of(text(after, "/metadata/name"));
    let has_vm = vms.any(|vm| vm.state.is_live());
    if !begins_deletion || !has_vm || rules.is_deleted_by_user(after) {
        return None;
    }
    let why = if is_outdated(after, world) {
        "rollout"
    } else if is_superfluous(after, world) {
        "scale-down"
    } else {
        return None;
    };
    Some(format!("{why} during a drain"))
}

/// The preservation event of a write to a Machine.
fn event_of_write(before: &Value, after: &Value, world: &WorldState) -> Option<String> {
    let by = text(after, "/status/preservation/by");
    match (stage(before), stage(after)) {
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

/// The VM of a preserved machine is stopped, because its node does not answer.
fn fenced(before: &Value, after: &Value) -> Option<String> {
    let stopped = |machine| text(machine, "/status/preservation/fencing/state") == "Stopped";
    (stopped(after) && !stopped(before)).then(|| "VM stopped by its driver".to_owned())
}

/// The drain of a failed machine ends, and a pod of a StatefulSet stays.
fn pods_kept(before: &Value, after: &Value, world: &WorldState) -> Option<String> {
    let ends = stage(before) == "Draining" && stage(after) == "Preserved" && phase(after).starts_with("Failed");
    let node = text(after, "/metadata/labels/node");
    let kept = |pod: &Value| text(pod, "/spec/nodeName") == node && owner(pod, "StatefulSet").is_some();
    (ends && !node.is_empty() && world.of_kind("Pod").any(kept)).then(|| "pod kept".to_owned())
}

/// A machine fails and is preserved because its template set the request on its Node.
fn requested_by_template(before: &Value, after: &Value) -> Option<String> {
    let begins = stage(after) == "Draining" && stage(before) != "Draining";
    let requested = after
        .pointer(TEMPLATE)
        .and_then(|all| all.get(keys::PRESERVE_ANNOTATION));
    let by_node = text(after, "/status/preservation/by") == "node";
    (begins && by_node && requested.is_some()).then(|| "failed, kept as its template asks".to_owned())
}

/// mcm accepts a request on a Machine that uses the annotation of the proposal's first version.
fn requested_by_first_version(before: &Value, after: &Value) -> Option<String> {
    let has = |machine| annotation(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION).is_some();
    let accepted = annotation(after, keys::PRESERVE_ANNOTATION).is_some();
    (has(before) && !has(after) && accepted).then(|| "the first version's word".to_owned())
}

/// A standalone set preserves another machine.
fn preserved_by_standalone_set(before: &Value, set: &Value) -> Option<String> {
    let grows = entries(set) > entries(before);
    (grows && owner(set, "MachineDeployment").is_none()).then(|| "kept by a set alone".to_owned())
}

/// A machine that cluster-autoscaler listed leaves the list because it is preserved.
fn listed_and_preserved(before: &Value, deployment: &Value, world: &WorldState) -> Option<String> {
    let left = listed(deployment);
    let mut dropped = listed(before).into_iter().filter(|name| !left.contains(name));
    let is_kept = |machine: &Value| {
        let kept = !text(machine, EXPIRY).is_empty() || stage(machine) == "Draining";
        kept && stage(machine) != "Releasing" && !is_deleting(machine)
    };
    dropped
        .any(|name| world.object("Machine", name).is_some_and(is_kept))
        .then(|| "named, and stays".to_owned())
}

/// The Node of a preserved machine is being deleted or was removed.
fn node_gone(node: &Value, world: &WorldState) -> Option<String> {
    let labels = &node["metadata"]["labels"];
    let machine = world.object("Machine", labels[keys::MACHINE_NAME_LABEL].as_str()?)?;
    (!stage(machine).is_empty() && stage(machine) != "Releasing").then(|| "node gone".to_owned())
}

/// An mcm process leads after its predecessor crashed, while machines drain for preservation.
pub fn crashed(world: &WorldState) -> Option<String> {
    let drains = world.of_kind("Machine").any(|machine| stage(machine) == "Draining");
    drains.then(|| "crash during a drain".to_owned())
}

fn stage(machine: &Value) -> &str {
    text(machine, "/status/preservation/stage")
}

fn phase(machine: &Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

/// Length of an owner's list of preservations.
fn entries(owner: &Value) -> usize {
    let list = owner.pointer("/status/preservations").and_then(Value::as_array);
    list.map_or(0, Vec::len)
}

/// The machines in cluster-autoscaler's list.
fn listed(deployment: &Value) -> BTreeSet<&str> {
    let list = annotation(deployment, keys::TRIGGER_DELETION_ANNOTATION).unwrap_or_default();
    list.split(',')
        .filter_map(|entry| entry.trim().split('~').next())
        .collect()
}

fn set_of<'a>(machine: &Value, world: &'a WorldState) -> Option<&'a Value> {
    world.object("MachineSet", owner(machine, "MachineSet")?)
}

fn deployment_of<'a>(set: &Value, world: &'a WorldState) -> Option<&'a Value> {
    world.object("MachineDeployment", owner(set, "MachineDeployment")?)
}

/// Whether the machine's class differs from its deployment's.
fn is_outdated(machine: &Value, world: &WorldState) -> bool {
    let class = |object: &Value| object["spec"]["template"]["spec"]["class"]["name"].clone();
    set_of(machine, world).is_some_and(|set| {
        let deployment = deployment_of(set, world);
        deployment.is_some_and(|deployment| class(set) != class(deployment))
    })
}

/// Whether its set has enough machines without it.
fn is_superfluous(machine: &Value, world: &WorldState) -> bool {
    let set = set_of(machine, world).filter(|set| !is_deleting(set));
    set.is_some_and(|set| {
        let name = text(set, "/metadata/name");
        let left = world
            .of_kind("Machine")
            .filter(|other| owner(other, "MachineSet") == Some(name) && !is_deleting(other));
        let replicas = set["spec"]["replicas"].as_u64();
        replicas.is_some_and(|replicas| replicas <= left.count() as u64)
    })
}

/// Whether the owner of the preservation limit may preserve failed machines and has reached the limit.
fn is_full(machine: &Value, world: &WorldState) -> bool {
    let set = set_of(machine, world);
    let limit_owner = set.map(|set| deployment_of(set, world).unwrap_or(set));
    limit_owner.is_some_and(|limit_owner| {
        let maximum = preserved_at_most(limit_owner);
        maximum > 0 && entries(limit_owner) >= maximum
    })
}

#[cfg(test)]
#[path = "preserved_tests.rs"]
mod tests;
