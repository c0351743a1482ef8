//! I16: a clean end. A deletion leaves no Node and no VolumeAttachment behind, at most one pass after the Machine is
//! removed. At the end of the quiet period no object is Terminating, and no bootstrap token, disk or network interface
//! is left over.
//!
//! A Machine that the scenario removes by force is exempt.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mcm_api::keys;
use scenario::observation::{Quiet, Seen};

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{is_deleting, label, name, phase, text, uid};
use crate::world::WorldState;

/// By Node: the removed Machine, its VM's provider ID, and the time of removal.
#[derive(Debug, Default)]
pub(super) struct CleanEnd(BTreeMap<String, (String, String, Timestamp)>);

impl Check for CleanEnd {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            let node = node_of(machine, context);
            let terminated = phase(machine) == "Terminating";
            if !node.is_empty() && terminated {
                let of_node = context
                    .world
                    .object("Node", node)
                    .map(|node| text(node, "/spec/providerID"));
                let own = text(machine, "/spec/providerID");
                let provider_id = if own.is_empty() {
                    of_node.unwrap_or_default()
                } else {
                    own
                }
                .to_owned();
                self.0
                    .insert(node.to_owned(), (name(machine).to_owned(), provider_id, context.at()));
            }
        }
        if let Some(machine) = context.applied("Machine") {
            self.0.remove(label(machine, keys::NODE_LABEL));
        }
        if let Seen::Quiet(Quiet::Silent { tokens, parts }) = context.observation.what {
            let lost = || format!("{parts} disks and network interfaces are left that belong to no VM");
            return left_over(context, tokens).or_else(|| (parts > 0).then(lost));
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        self.0
            .values()
            .filter_map(|(_, _, since)| rules.due(*since, rules.pass()))
            .min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: Timestamp| rules.due(since, rules.pass()).is_some_and(|due| due <= now);
        let over: Vec<String> = self
            .0
            .iter()
            .filter(|(_, (_, _, since))| late(*since))
            .map(|(node, _)| node.clone())
            .collect();
        over.into_iter().find_map(|node| {
            let (machine, provider_id, since) = self.0.remove(&node)?;
            let own = |object: &&serde_json::Value| text(object, "/spec/providerID") == provider_id;
            if world.object("Node", &node).filter(own).is_some() {
                return Some(format!(
                    "machine {machine} was removed at {since}, but its node {node} still exists"
                ));
            }
            let mut attachments = world.of_kind("VolumeAttachment");
            let left = attachments
                .find(|attachment| text(attachment, "/spec/nodeName") == node && world.object("Node", &node).is_none());
            left.filter(|attachment| !is_deleting(attachment)).map(|attachment| {
                format!(
                    "machine {machine} was removed at {since}, but VolumeAttachment {} of its node {node} still exists",
                    name(attachment)
                )
            })
        })
    }
}

/// The Machine's Node: the one in its label, otherwise the one whose provider ID is that of one of its VMs.
fn node_of<'a>(machine: &'a serde_json::Value, context: &CheckContext<'a>) -> &'a str {
    let labelled = label(machine, keys::NODE_LABEL);
    if !labelled.is_empty() {
        return labelled;
    }
    let own = context.world.vms.values().filter(|vm| vm.machine_uid == uid(machine));
    let own: BTreeSet<&str> = own.map(|vm| vm.provider_id.as_str()).collect();
    let mut nodes = context.world.of_kind("Node");
    let names_one = |node: &&serde_json::Value| own.contains(text(node, "/spec/providerID"));
    nodes.find(names_one).map(name).unwrap_or_default()
}

fn left_over(context: &CheckContext, tokens: usize) -> Option<String> {
    let kinds = [
        "Machine",
        "MachineSet",
        "MachineDeployment",
        "MachineClass",
        "Node",
        "Pod",
        "VolumeAttachment",
    ];
    for kind in kinds {
        if let Some(object) = context.world.of_kind(kind).find(|object| is_deleting(object)) {
            return Some(format!(
                "{kind} {} is Terminating since {}, still after the time to settle",
                name(object),
                text(object, "/metadata/deletionTimestamp")
            ));
        }
    }
    let waiting = context
        .world
        .of_kind("Machine")
        .filter(|machine| !phase(machine).starts_with("Running") && phase(machine) != "Unknown")
        .count();
    (tokens > waiting).then(|| {
        format!(
            "{tokens} bootstrap tokens are left after the time to settle, but only {waiting} Machines have not joined"
        )
    })
}
