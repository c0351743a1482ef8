//! I8: frozen means frozen. Without a valid Lease, or while an API server is unreachable for longer than the timeout,
//! no process creates or deletes a VM, and a frozen set creates no Machine.
//!
//! The holder of the Lease is checked where driver calls name their caller: in virtual time. A Lease is invalid when
//! its holder has not renewed it for its duration.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{after, label, name, owner, version};
use crate::world::{Leadership, WorldState};

/// The label of a frozen set or deployment.
const FREEZE: &str = "freeze";

/// How long the watches may take to deliver everything that was written at one moment.
const SEEN: Duration = Duration::from_secs(1);

/// The watches of sets and Machines have no common order: resourceVersions show which write came first.
#[derive(Debug, Default)]
pub(super) struct Frozen {
    /// By kind and name of a frozen object: the resourceVersion at which it was first observed as frozen.
    since: BTreeMap<(&'static str, String), Option<u64>>,
    /// Machines that were created while their owner was frozen by what was observed so far. It may have been thawed
    /// before.
    suspected: Vec<Suspicion>,
}

#[derive(Debug)]
struct Suspicion {
    at: Timestamp,
    /// The created Machine's resourceVersion.
    created: u64,
    of: (&'static str, String),
    text: String,
}

impl Frozen {
    /// Records a set or deployment. Returns the violation if a suspected Machine was certainly created while it was
    /// frozen.
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
            let is_certain = |suspicion: &Suspicion| suspicion.of == key && suspicion.created < seen;
            if let Some(position) = self.suspected.iter().position(is_certain) {
                return Some(self.suspected.remove(position).text);
            }
            self.suspected.retain(|suspicion| frozen || suspicion.of != key);
        }
        None
    }

    /// Records a new Machine. Returns a violation if it is certain.
    fn created(&mut self, context: &CheckContext, machine: &Value) -> Option<String> {
        let set = owner(machine, "MachineSet").and_then(|set| context.world.object("MachineSet", set))?;
        let deployment = context
            .world
            .object("MachineDeployment", label(machine, keys::DEPLOYMENT_LABEL));
        for (kind, object) in [("MachineSet", Some(set)), ("MachineDeployment", deployment)] {
            let Some(object) = object.filter(|object| label(object, FREEZE) == "True") else {
                continue;
            };
            let of = (kind, name(object).to_owned());
            let text = format!("machine {} was created while {} is frozen", name(machine), name(object));
            // An object that was read outside the watches was frozen at that version at the latest.
            let frozen = self.since.get(&of).copied().unwrap_or_else(|| version(object));
            let Some((created, frozen)) = version(machine).zip(frozen) else {
                return Some(text);
            };
            if created > frozen {
                let at = context.at();
                self.suspected.push(Suspicion { at, created, of, text });
            }
        }
        None
    }
}

impl Check for Frozen {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(violation) = self.note(context) {
            return Some(violation);
        }
        if let Some(machine) = context.applied("Machine").filter(|_| context.before.is_none()) {
            return self.created(context, machine);
        }
        let call = context.call().filter(|call| {
            ["CreateMachine", "DeleteMachine"].contains(&call.call.as_str()) && !call.client.is_empty()
        })?;
        if let Some((rule, since)) = long_unreachable(context) {
            return Some(format!(
                "{} called {} for {} at {}, although {rule} has made an API server unreachable since {since}",
                call.client,
                call.call,
                call.machine,
                context.at()
            ));
        }
        // The cloud accepted the call earlier and executes it even if the leader changed since then.
        let late = call.rule.as_ref().is_some_and(|rule| context.rules.late.contains(rule));
        let lease = context.world.leadership.as_ref().filter(|_| !late)?;
        if may_lead(lease, &call.client, context.at()) {
            return None;
        }
        Some(format!(
            "{} called {} for {} at {}, but the Lease is held by {:?}, renewed at {}",
            call.client,
            call.call,
            call.machine,
            context.at(),
            lease.holder,
            lease.renewed
        ))
    }

    fn due(&self, _: &JudgingRules) -> Option<Timestamp> {
        self.suspected.iter().map(|suspicion| after(suspicion.at, SEEN)).min()
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, _: &JudgingRules) -> Option<String> {
        let late = self
            .suspected
            .iter()
            .position(|suspicion| after(suspicion.at, SEEN) <= now)?;
        Some(self.suspected.remove(late).text)
    }
}

/// A rule that has made an API server unreachable for so long that the controller is frozen: for the timeout, counted
/// from the controller's next probe.
fn long_unreachable<'a>(context: &'a CheckContext) -> Option<(&'a String, Timestamp)> {
    let timeouts = &context.rules.timeouts;
    let freeze_delay = timeouts.api_timeout * 3 + timeouts.slack;
    let mut away = context.rules.away.iter().map(|(rule, since)| (rule, *since));
    away.find(|(_, since)| timeouts.deadline(*since, freeze_delay) < context.at())
}

/// Whether `client` holds a valid Lease at `at`.
pub fn may_lead(lease: &Leadership, client: &str, at: Timestamp) -> bool {
    // Renewals are stamped before they are sent.
    let tolerance = Duration::from_secs(1);
    lease.holder == client && after(after(lease.renewed, lease.duration), tolerance) >= at
}
