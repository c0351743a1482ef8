//! I19, of the numbers that sets and deployments tell: a failed machine that is kept on purpose is not in `failedMachines`,
//! or whoever watches over the deployment takes it for broken.
//!
//! A status follows the machines, and a deployment's that of its sets: two passes of grace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{is_deleting, name, owner, phase, text, time};
use crate::world::WorldState;

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// By set and deployment: since when it names a machine that is kept among those that failed.
#[derive(Debug, Default)]
pub(super) struct Blame(BTreeMap<(&'static str, String), Timestamp>);

impl Check for Blame {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        for kind in ["MachineSet", "MachineDeployment"] {
            if let Some(object) = context.applied(kind).or_else(|| context.deleted(kind)) {
                self.look(kind, name(object), context);
            }
        }
        let machine = context.applied("Machine").or_else(|| context.deleted("Machine"))?;
        let set = owner(machine, "MachineSet")?;
        self.look("MachineSet", set, context);
        let deployment = owner(context.world.object("MachineSet", set)?, "MachineDeployment")?;
        self.look("MachineDeployment", deployment, context);
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let dues = self.0.values().filter_map(|since| rules.due(*since, 2 * rules.pass()));
        dues.min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let ((kind, named), since) = self.0.iter().find(|(_, since)| late(since))?;
        let machine = blamed(world.object(kind, named)?, world)?;
        Some(format!(
            "{kind} {named} names machine {machine} among those that failed since {since}, and it is kept on purpose"
        ))
    }
}

impl Blame {
    fn look(&mut self, kind: &'static str, named: &str, context: &CheckContext) {
        let object = context.world.object(kind, named).filter(|object| !is_deleting(object));
        let key = (kind, named.to_owned());
        if object.is_some_and(|object| blamed(object, context.world).is_some()) {
            self.0.entry(key).or_insert(context.at());
        } else {
            self.0.remove(&key);
        }
    }
}

/// A machine that is kept, and that its owner says has failed.
fn blamed<'a>(owner: &'a Value, world: &WorldState) -> Option<&'a str> {
    let failed = owner.pointer("/status/failedMachines").and_then(Value::as_array)?;
    let is_kept = |named: &&str| world.object("Machine", named).is_some_and(is_kept);
    failed.iter().map(|one| text(one, "/name")).find(is_kept)
}

/// It has failed and is kept, or is about to be.
fn is_kept(machine: &Value) -> bool {
    let kept = match text(machine, "/status/preservation/stage") {
        "Draining" | "Preserved" => true,
        "" => time(machine, EXPIRY).is_some(),
        _ => false,
    };
    phase(machine).starts_with("Failed") && kept && !is_deleting(machine)
}
