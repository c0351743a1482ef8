//! I19, second part: sets and deployments do not list a preserved Machine in `failedMachines`, because tools that watch
//! a deployment would consider it broken.
//!
//! The status of a set follows its machines, and that of a deployment follows its sets: two passes of grace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{is_deleting, name, owner, phase, text, time};
use crate::world::WorldState;

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// By set and deployment: since when its `failedMachines` contains a preserved Machine.
#[derive(Debug, Default)]
pub(super) struct Blame(BTreeMap<(&'static str, String), Timestamp>);

impl Check for Blame {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        for kind in ["MachineSet", "MachineDeployment"] {
            if let Some(object) = context.applied(kind).or_else(|| context.deleted(kind)) {
                self.check_object(kind, name(object), context);
            }
        }
        let machine = context.applied("Machine").or_else(|| context.deleted("Machine"))?;
        let set = owner(machine, "MachineSet")?;
        self.check_object("MachineSet", set, context);
        let deployment = owner(context.world.object("MachineSet", set)?, "MachineDeployment")?;
        self.check_object("MachineDeployment", deployment, context);
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let dues = self.0.values().filter_map(|since| rules.due(*since, 2 * rules.pass()));
        dues.min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let ((kind, named), since) = self.0.iter().find(|(_, since)| late(since))?;
        let machine = wrongly_listed(world.object(kind, named)?, world)?;
        Some(format!(
            "{kind} {named} lists machine {machine} in failedMachines since {since}, although it is preserved"
        ))
    }
}

impl Blame {
    fn check_object(&mut self, kind: &'static str, named: &str, context: &CheckContext) {
        let object = context.world.object(kind, named).filter(|object| !is_deleting(object));
        let key = (kind, named.to_owned());
        if object.is_some_and(|object| wrongly_listed(object, context.world).is_some()) {
            self.0.entry(key).or_insert(context.at());
        } else {
            self.0.remove(&key);
        }
    }
}

/// A preserved Machine in the owner's `failedMachines`.
fn wrongly_listed<'a>(owner: &'a Value, world: &WorldState) -> Option<&'a str> {
    let failed = owner.pointer("/status/failedMachines").and_then(Value::as_array)?;
    let is_preserved = |named: &&str| world.object("Machine", named).is_some_and(is_preserved);
    failed.iter().map(|one| text(one, "/name")).find(is_preserved)
}

/// Whether the Machine has failed and is preserved or drains for preservation.
fn is_preserved(machine: &Value) -> bool {
    let kept = match text(machine, "/status/preservation/stage") {
        "Draining" | "Preserved" => true,
        "" => time(machine, EXPIRY).is_some(),
        _ => false,
    };
    phase(machine).starts_with("Failed") && kept && !is_deleting(machine)
}
