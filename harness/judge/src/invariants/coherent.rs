//! I19: consistent state. A Machine is Terminating only with a deletionTimestamp. After its creation it names its VM
//! and its Node, and both name the same VM. Its provider ID is written once. It is preserved if and only if it has an
//! expiry.
//!
//! Two objects may disagree for one pass; so may a phase lack `:Preserved`, because another dialect or a user may have
//! written it. A Failed Machine whose pods are drained again has no `:Preserved`. After a user removes an expiry, it is
//! missing until the controller observes the removal; I13 checks how long that takes. I14 checks that a Machine with a
//! deletionTimestamp becomes Terminating.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::PreservationDialect;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{is_deleting, label, name, owner, phase, text, time};
use crate::world::WorldState;

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// State by Machine name.
#[derive(Debug, Default)]
pub(super) struct Coherent {
    /// Since when its Node has a different provider ID.
    disagreeing: BTreeMap<String, Timestamp>,
    /// Since when it is preserved without `:Preserved` in its phase.
    unmarked: BTreeMap<String, Timestamp>,
}

impl Check for Coherent {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(node) = context.applied("Node") {
            let machine = label(node, keys::MACHINE_NAME_LABEL).to_owned();
            self.compare(machine, context);
            return None;
        }
        if let Some(machine) = context.deleted("Machine") {
            self.disagreeing.remove(name(machine));
            self.unmarked.remove(name(machine));
        }
        let machine = context.applied("Machine")?;
        self.compare(name(machine).to_owned(), context);
        if context.rules.dialect == PreservationDialect::V2 && is_unmarked(machine) {
            self.unmarked.entry(name(machine).to_owned()).or_insert(context.at());
        } else {
            self.unmarked.remove(name(machine));
        }
        let machine_name = name(machine);
        let in_phase = phase(machine);
        if in_phase == "Terminating" && !is_deleting(machine) {
            return Some(format!(
                "machine {machine_name} is Terminating without a deletionTimestamp"
            ));
        }
        let provider_id = text(machine, "/spec/providerID");
        let past =
            ["Pending", "Running", "Unknown", "Available"].contains(&in_phase.split(':').next().unwrap_or_default());
        let new_phase = context.before.is_none_or(|before| phase(before) != in_phase);
        if past && new_phase && !context.rules.is_by_user("Machine", machine_name) {
            if provider_id.is_empty() {
                return Some(format!("machine {machine_name} is {in_phase} without a provider id"));
            }
            if in_phase != "Available" && label(machine, keys::NODE_LABEL).is_empty() {
                return Some(format!(
                    "machine {machine_name} is {in_phase} without the label {}",
                    keys::NODE_LABEL
                ));
            }
        }
        if let Some(before) = context.before.map(|before| text(before, "/spec/providerID"))
            && !before.is_empty()
            && before != provider_id
            && !context.rules.is_by_user("Machine", machine_name)
        {
            return Some(format!(
                "machine {machine_name} had the provider ID {before} and has {provider_id:?}"
            ));
        }
        let owners = |machine| owner(machine, "MachineSet").map(str::to_owned);
        if let Some(before) = context.before.filter(|before| owners(before) != owners(machine))
            && phase(before) == "InPlaceUpdating"
            && in_phase == "InPlaceUpdating"
        {
            return Some(format!(
                "machine {machine_name} moved from set {:?} to {:?} during its in-place update",
                owners(before).unwrap_or_default(),
                owners(machine).unwrap_or_default()
            ));
        }
        let marked = in_phase.ends_with(":Preserved");
        let removed = context.rules.ended_by_user.contains(machine_name) && !new_phase;
        (marked && !removed && time(machine, EXPIRY).is_none())
            .then(|| format!("machine {machine_name} is {in_phase} without an expiry"))
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let since = self.disagreeing.values().chain(self.unmarked.values());
        since.filter_map(|since| rules.due(*since, rules.pass())).min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let is_late = |since: &Timestamp| rules.due(*since, rules.pass()).is_some_and(|due| due <= now);
        let disagreeing = self.disagreeing.iter().filter(|(_, since)| is_late(since));
        let mut disagreeing = disagreeing.filter_map(|(machine, since)| {
            let (own, nodes) = differing_provider_ids(world, machine)?;
            Some(format!(
                "machine {machine} names VM {own} but its node names {nodes} since {since}"
            ))
        });
        let unmarked = self.unmarked.iter().filter(|(_, since)| is_late(since));
        let mut unmarked = unmarked.filter_map(|(machine, since)| {
            let phase = phase(world.object("Machine", machine)?);
            Some(format!(
                "machine {machine} is preserved since {since}, but its phase is {phase} without :Preserved"
            ))
        });
        disagreeing.next().or_else(|| unmarked.next())
    }
}

impl Coherent {
    fn compare(&mut self, machine: String, context: &CheckContext) {
        if differing_provider_ids(context.world, &machine).is_some() {
            self.disagreeing.entry(machine).or_insert(context.at());
        } else {
            self.disagreeing.remove(&machine);
        }
    }
}

/// The provider IDs of a Machine and of its Node, if they differ. The Machine is neither Failed nor deleted, and the
/// Node names it.
fn differing_provider_ids<'a>(world: &'a WorldState, machine: &str) -> Option<(&'a str, &'a str)> {
    let object = world
        .object("Machine", machine)
        .filter(|object| !is_deleting(object) && phase(object) != "Failed")?;
    let claims = |node: &&Value| label(node, keys::MACHINE_NAME_LABEL) == machine;
    let node = world.object("Node", label(object, keys::NODE_LABEL)).filter(claims)?;
    let (own, nodes) = (text(object, "/spec/providerID"), text(node, "/spec/providerID"));
    (!own.is_empty() && !nodes.is_empty() && own != nodes).then_some((own, nodes))
}

/// Whether the Machine runs or has failed, is preserved until its expiry, and has no `:Preserved` in its phase.
fn is_unmarked(machine: &Value) -> bool {
    let kept = text(machine, "/status/preservation/stage") == "Preserved" && time(machine, EXPIRY).is_some();
    ["Running", "Failed"].contains(&phase(machine)) && kept && !is_deleting(machine)
}
