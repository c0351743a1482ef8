//! I19: coherent state. Terminating only with a deletionTimestamp; past creation a Machine names its VM and its Node; the
//! two name the same VM; a provider id is written once; preserved means that an expiry is set, both ways.
//!
//! Of two objects, one pass of grace; of a phase without its `:Preserved` as well, as another dialect or a person may have
//! written it. A Failed Machine whose pods leave once more is shown without. An expiry that a person removed is missing until
//! the controller sees that, which I13 times. The other direction of Terminating is I14's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::PreservationDialect;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{is_deleting, label, name, owner, phase, text, time};
use crate::world::WorldState;

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// By Machine.
#[derive(Debug, Default)]
pub(super) struct Coherent {
    /// Since when its Node names another VM than it does.
    apart: BTreeMap<String, Timestamp>,
    /// Since when it is preserved and its phase does not say so.
    silent: BTreeMap<String, Timestamp>,
}

impl Check for Coherent {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(node) = context.applied("Node") {
            let machine = label(node, keys::MACHINE_NAME_LABEL).to_owned();
            self.compare(machine, context);
            return None;
        }
        if let Some(machine) = context.deleted("Machine") {
            self.apart.remove(name(machine));
            self.silent.remove(name(machine));
        }
        let machine = context.applied("Machine")?;
        self.compare(name(machine).to_owned(), context);
        if context.rules.dialect == PreservationDialect::V2 && is_silent(machine) {
            self.silent.entry(name(machine).to_owned()).or_insert(context.at());
        } else {
            self.silent.remove(name(machine));
        }
        let named = name(machine);
        let in_phase = phase(machine);
        if in_phase == "Terminating" && !is_deleting(machine) {
            return Some(format!("machine {named} is Terminating without a deletionTimestamp"));
        }
        let provider_id = text(machine, "/spec/providerID");
        let past =
            ["Pending", "Running", "Unknown", "Available"].contains(&in_phase.split(':').next().unwrap_or_default());
        let new_phase = context.before.is_none_or(|before| phase(before) != in_phase);
        if past && new_phase && !context.rules.is_by_user("Machine", named) {
            if provider_id.is_empty() {
                return Some(format!("machine {named} is {in_phase} without a provider id"));
            }
            if in_phase != "Available" && label(machine, keys::NODE_LABEL).is_empty() {
                return Some(format!(
                    "machine {named} is {in_phase} without the label {}",
                    keys::NODE_LABEL
                ));
            }
        }
        if let Some(before) = context.before.map(|before| text(before, "/spec/providerID"))
            && !before.is_empty()
            && before != provider_id
            && !context.rules.is_by_user("Machine", named)
        {
            return Some(format!(
                "machine {named} had the provider id {before} and has {provider_id:?}"
            ));
        }
        let owners = |machine| owner(machine, "MachineSet").map(str::to_owned);
        if let Some(before) = context.before.filter(|before| owners(before) != owners(machine))
            && phase(before) == "InPlaceUpdating"
            && in_phase == "InPlaceUpdating"
        {
            return Some(format!(
                "machine {named} went from set {:?} to {:?} while its update in place goes on",
                owners(before).unwrap_or_default(),
                owners(machine).unwrap_or_default()
            ));
        }
        let shown = in_phase.ends_with(":Preserved");
        let removed = context.rules.ended_by_user.contains(named) && !new_phase;
        (shown && !removed && time(machine, EXPIRY).is_none())
            .then(|| format!("machine {named} is {in_phase} without an expiry"))
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let since = self.apart.values().chain(self.silent.values());
        since.filter_map(|since| rules.due(*since, rules.pass())).min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let is_late = |since: &Timestamp| rules.due(*since, rules.pass()).is_some_and(|due| due <= now);
        let apart = self.apart.iter().filter(|(_, since)| is_late(since));
        let mut apart = apart.filter_map(|(machine, since)| {
            let (own, nodes) = both(world, machine)?;
            Some(format!(
                "machine {machine} names VM {own} and its node names {nodes} since {since}"
            ))
        });
        let silent = self.silent.iter().filter(|(_, since)| is_late(since));
        let mut silent = silent.filter_map(|(machine, since)| {
            let phase = phase(world.object("Machine", machine)?);
            Some(format!(
                "machine {machine} is preserved since {since}, and its phase is {phase} without :Preserved"
            ))
        });
        apart.next().or_else(|| silent.next())
    }
}

impl Coherent {
    fn compare(&mut self, machine: String, context: &CheckContext) {
        if both(context.world, &machine).is_some() {
            self.apart.entry(machine).or_insert(context.at());
        } else {
            self.apart.remove(&machine);
        }
    }
}

/// The provider ids of a Machine that stays and of its Node, which names it, where they differ.
fn both<'a>(world: &'a WorldState, machine: &str) -> Option<(&'a str, &'a str)> {
    let object = world
        .object("Machine", machine)
        .filter(|object| !is_deleting(object) && phase(object) != "Failed")?;
    let claims = |node: &&Value| label(node, keys::MACHINE_NAME_LABEL) == machine;
    let node = world.object("Node", label(object, keys::NODE_LABEL)).filter(claims)?;
    let (own, nodes) = (text(object, "/spec/providerID"), text(node, "/spec/providerID"));
    (!own.is_empty() && !nodes.is_empty() && own != nodes).then_some((own, nodes))
}

/// Whether it runs or has failed, is preserved until its expiry, and its phase does not say so.
fn is_silent(machine: &Value) -> bool {
    let kept = text(machine, "/status/preservation/stage") == "Preserved" && time(machine, EXPIRY).is_some();
    ["Running", "Failed"].contains(&phase(machine)) && kept && !is_deleting(machine)
}
