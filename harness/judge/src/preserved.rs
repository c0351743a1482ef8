//! What became of preservations, by kind and number: for campaigns, which declare what must occur in them.

use std::collections::BTreeSet;

use mcm_api::keys;
use scenario::observation::{Observation, Seen};
use serde_json::Value;

use super::world::WorldState;
use crate::invariants::{JudgingRules, preserved_at_most};
use crate::object::{annotation, is_deleting, owner, text};

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";
/// Where a machine's template asks of its Node to be preserved.
const TEMPLATE: &str = "/spec/nodeTemplate/metadata/annotations";

/// What an observation means for preservations; `before` is the object as it was.
pub fn happened(
    observation: &Observation,
    before: Option<&Value>,
    world: &WorldState,
    rules: &JudgingRules,
) -> Vec<String> {
    match (&observation.what, before) {
        (Seen::Applied(kind, machine), Some(before)) if kind.kind == "Machine" => {
            let ends = ends_in_a_drain(before, machine, world, rules);
            let told = ends.or_else(|| follows(before, machine, world));
            let words = [by_its_template(before, machine), in_the_first_word(before, machine)];
            told.into_iter().chain(words.into_iter().flatten()).collect()
        }
        (Seen::Applied(kind, set), Some(before)) if kind.kind == "MachineSet" => {
            kept_by_a_set(before, set).into_iter().collect()
        }
        (Seen::Applied(kind, deployment), Some(before)) if kind.kind == "MachineDeployment" => {
            named_and_stays(before, deployment, world).into_iter().collect()
        }
        (Seen::Applied(kind, node), Some(before))
            if kind.kind == "Node" && is_deleting(node) && !is_deleting(before) =>
        {
            node_gone(node, world).into_iter().collect()
        }
        (Seen::Deleted(kind, node), _) if kind.kind == "Node" => node_gone(node, world).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A machine goes whose pods were leaving: for its deployment's rollout or a smaller number alone, and not because a person
/// deleted it or its Node, or its VM went.
fn ends_in_a_drain(before: &Value, after: &Value, world: &WorldState, rules: &JudgingRules) -> Option<String> {
    let goes = is_deleting(after) && !is_deleting(before) && stage(before) == "Draining";
    let mut vms = world.vms_of(text(after, "/metadata/name"));
    let has_vm = vms.any(|vm| vm.state.is_live());
    if !goes || !has_vm || rules.is_deleted_by_user(after) {
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

/// What a write of a Machine says of its preservation.
fn follows(before: &Value, after: &Value, world: &WorldState) -> Option<String> {
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

/// A machine fails and is kept because its Node asks for that, on which its template wrote it.
fn by_its_template(before: &Value, after: &Value) -> Option<String> {
    let begins = stage(after) == "Draining" && stage(before) != "Draining";
    let asked = after
        .pointer(TEMPLATE)
        .and_then(|all| all.get(keys::PRESERVE_ANNOTATION));
    let by_node = text(after, "/status/preservation/by") == "node";
    (begins && by_node && asked.is_some()).then(|| "failed, kept as its template asks".to_owned())
}

/// A request on the Machine in the word of the proposal's first version is understood.
fn in_the_first_word(before: &Value, after: &Value) -> Option<String> {
    let has = |machine| annotation(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION).is_some();
    let understood = annotation(after, keys::PRESERVE_ANNOTATION).is_some();
    (has(before) && !has(after) && understood).then(|| "the first version's word".to_owned())
}

/// A set that no deployment controls keeps one more.
fn kept_by_a_set(before: &Value, set: &Value) -> Option<String> {
    let more = entries(set) > entries(before);
    (more && owner(set, "MachineDeployment").is_none()).then(|| "kept by a set alone".to_owned())
}

/// cluster-autoscaler named a machine, which leaves its list again, as it is kept.
fn named_and_stays(before: &Value, deployment: &Value, world: &WorldState) -> Option<String> {
    let left = named(deployment);
    let mut dropped = named(before).into_iter().filter(|name| !left.contains(name));
    let is_kept = |machine: &Value| {
        let kept = !text(machine, EXPIRY).is_empty() || stage(machine) == "Draining";
        kept && stage(machine) != "Releasing" && !is_deleting(machine)
    };
    dropped
        .any(|name| world.object("Machine", name).is_some_and(is_kept))
        .then(|| "named, and stays".to_owned())
}

/// What it means for a preservation that its machine's Node goes, or is gone.
fn node_gone(node: &Value, world: &WorldState) -> Option<String> {
    let labels = &node["metadata"]["labels"];
    let machine = world.object("Machine", labels[keys::MACHINE_NAME_LABEL].as_str()?)?;
    (!stage(machine).is_empty() && stage(machine) != "Releasing").then(|| "node gone".to_owned())
}

/// Another mcm leads after a crash of the one before, and a preserved machine's pods are leaving.
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

/// How many are in an owner's list.
fn entries(owner: &Value) -> usize {
    let list = owner.pointer("/status/preservations").and_then(Value::as_array);
    list.map_or(0, Vec::len)
}

/// Whom cluster-autoscaler's list names.
fn named(deployment: &Value) -> BTreeSet<&str> {
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

/// Whether the machine is of another class than its deployment has.
fn is_outdated(machine: &Value, world: &WorldState) -> bool {
    let class = |object: &Value| object["spec"]["template"]["spec"]["class"]["name"].clone();
    set_of(machine, world).is_some_and(|set| {
        let deployment = deployment_of(set, world);
        deployment.is_some_and(|deployment| class(set) != class(deployment))
    })
}

/// Whether its set wants no more machines than there are without it.
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

/// Whether its deployment, or its set where there is none, keeps as many failed machines as it may, and may keep some.
fn is_full(machine: &Value, world: &WorldState) -> bool {
    let set = set_of(machine, world);
    let keeper = set.map(|set| deployment_of(set, world).unwrap_or(set));
    keeper.is_some_and(|keeper| {
        let maximum = preserved_at_most(keeper);
        maximum > 0 && entries(keeper) >= maximum
    })
}

#[cfg(test)]
#[path = "preserved_tests.rs"]
mod tests;
