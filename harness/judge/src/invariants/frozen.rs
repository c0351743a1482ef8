//! I8: frozen means frozen. Without a valid Lease, or while an API server is away for longer than its timeout, no process
//! makes or deletes a VM, and no set that is frozen makes a Machine.
//!
//! The holder of the Lease is judged where calls say who made them: in virtual time. A Lease that its holder does not
//! renew for its duration is not valid.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{after, label, name, owner, version};
use crate::world::{Leadership, WorldState};

/// The label of a set or deployment that is frozen.
const FREEZE: &str = "freeze";

/// How long it may take until everything that was written at one moment has been seen.
const SEEN: Duration = Duration::from_secs(1);

/// Sets and Machines are told of side by side: which was written first their versions say.
#[derive(Debug, Default)]
pub(super) struct Frozen {
    /// By kind and name of what is frozen: the resourceVersion at which it was seen so first.
    since: BTreeMap<(&'static str, String), Option<u64>>,
    /// Machines that were made for what was frozen when it was seen last. It may have been thawed before.
    doubtful: Vec<Doubt>,
}

#[derive(Debug)]
struct Doubt {
    at: Timestamp,
    /// The Machine's resourceVersion.
    made: u64,
    of: (&'static str, String),
    text: String,
}

impl Frozen {
    /// Sees a set or deployment; the Machine that was made while it was frozen.
    fn note(&mut self, context: &CheckContext) -> Option<String> {
        for kind in ["MachineSet", "MachineDeployment"] {
            let Some(object) = context.applied(kind) else { continue };
            let key = (kind, name(object).to_owned());
            let frozen = label(object, FREEZE) == "True";
            if frozen {
                self.since.entry(key.clone()).or_insert_with(|| version(object));
            } else {
                self.since.remove(&key);
            }
            let seen = version(object).unwrap_or(u64::MAX);
            let guilty = |doubt: &Doubt| doubt.of == key && doubt.made < seen;
            if let Some(position) = self.doubtful.iter().position(guilty) {
                return Some(self.doubtful.remove(position).text);
            }
            self.doubtful.retain(|doubt| frozen || doubt.of != key);
        }
        None
    }

    /// A Machine is made; what is wrong, if that is sure.
    fn made(&mut self, context: &CheckContext, machine: &Value) -> Option<String> {
        let set = owner(machine, "MachineSet").and_then(|set| context.world.object("MachineSet", set))?;
        let deployment = context
            .world
            .object("MachineDeployment", label(machine, keys::DEPLOYMENT_LABEL));
        for (kind, object) in [("MachineSet", Some(set)), ("MachineDeployment", deployment)] {
            let Some(object) = object.filter(|object| label(object, FREEZE) == "True") else {
                continue;
            };
            let of = (kind, name(object).to_owned());
            let text = format!("machine {} was made while {} is frozen", name(machine), name(object));
            // What was read beside the watches was frozen by then at the latest.
            let frozen = self.since.get(&of).copied().unwrap_or_else(|| version(object));
            let Some((made, frozen)) = version(machine).zip(frozen) else {
                return Some(text);
            };
            if made > frozen {
                let at = context.at();
                self.doubtful.push(Doubt { at, made, of, text });
            }
        }
        None
    }
}

impl Check for Frozen {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(broken) = self.note(context) {
            return Some(broken);
        }
        if let Some(machine) = context.applied("Machine").filter(|_| context.before.is_none()) {
            return self.made(context, machine);
        }
        let call = context.call().filter(|call| {
            ["CreateMachine", "DeleteMachine"].contains(&call.call.as_str()) && !call.client.is_empty()
        })?;
        if let Some((rule, since)) = long_away(context) {
            return Some(format!(
                "{} called {} for {} at {}, and {rule} keeps an API server from it since {since}",
                call.client,
                call.call,
                call.machine,
                context.at()
            ));
        }
        // The cloud began it when it was asked for, and carries it out whoever leads by then.
        let late = call.rule.as_ref().is_some_and(|rule| context.rules.late.contains(rule));
        let lease = context.world.leadership.as_ref().filter(|_| !late)?;
        if may_lead(lease, &call.client, context.at()) {
            return None;
        }
        Some(format!(
            "{} called {} for {} at {}; the Lease is held by {:?}, renewed at {}",
            call.client,
            call.call,
            call.machine,
            context.at(),
            lease.holder,
            lease.renewed
        ))
    }

    fn due(&self, _: &JudgingRules) -> Option<Timestamp> {
        self.doubtful.iter().map(|doubt| after(doubt.at, SEEN)).min()
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, _: &JudgingRules) -> Option<String> {
        let late = self.doubtful.iter().position(|doubt| after(doubt.at, SEEN) <= now)?;
        Some(self.doubtful.remove(late).text)
    }
}

/// A rule by which an API server has been away for so long that the controller is frozen: for the timeout, counted from
/// the next look at it.
fn long_away<'a>(context: &'a CheckContext) -> Option<(&'a String, Timestamp)> {
    let timeouts = &context.rules.timeouts;
    let noticed = timeouts.api_timeout * 3 + timeouts.slack;
    let mut away = context.rules.away.iter().map(|(rule, since)| (rule, *since));
    away.find(|(_, since)| timeouts.deadline(*since, noticed) < context.at())
}

/// Whether `client` leads at that time, as far as the Lease says.
pub fn may_lead(lease: &Leadership, client: &str, at: Timestamp) -> bool {
    // Renewals are stamped before they are sent.
    let room = Duration::from_secs(1);
    lease.holder == client && after(after(lease.renewed, lease.duration), room) >= at
}
