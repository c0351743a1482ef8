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
use super::sight::{Sight, after, label, name, owner};
use crate::engine::world::Leadership;

/// The label of a set or deployment that is frozen.
const FREEZE: &str = "freeze";

/// By kind and name of what is frozen: the resourceVersion at which it was seen so first.
#[derive(Debug, Default)]
pub(super) struct Frozen(BTreeMap<(&'static str, String), Option<u64>>);

impl Frozen {
    fn note(&mut self, sight: &Sight) {
        for kind in ["MachineSet", "MachineDeployment"] {
            let Some(object) = sight.applied(kind) else { continue };
            let key = (kind, name(object).to_owned());
            if label(object, FREEZE) == "True" {
                self.0.entry(key).or_insert_with(|| version(object));
            } else {
                self.0.remove(&key);
            }
        }
    }
}

/// What is written later has a higher one.
fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

impl Check for Frozen {
    fn see(&mut self, sight: &Sight) -> Option<String> {
        self.note(sight);
        if let Some(machine) = sight.applied("Machine").filter(|_| sight.before.is_none()) {
            let set = owner(machine, "MachineSet").and_then(|set| sight.world.object("MachineSet", set))?;
            let deployment = sight
                .world
                .object("MachineDeployment", label(machine, keys::DEPLOYMENT_LABEL));
            // Sets and Machines are told of side by side: which was written first their versions say.
            let before = |kind: &'static str, object: &Value| {
                let frozen = self.0.get(&(kind, name(object).to_owned())).copied().flatten();
                frozen.zip(version(machine)).is_some_and(|(frozen, made)| made < frozen)
            };
            let frozen = [("MachineSet", Some(set)), ("MachineDeployment", deployment)]
                .into_iter()
                .filter_map(|(kind, object)| Some((kind, object?)))
                .find(|(kind, object)| label(object, FREEZE) == "True" && !before(kind, object))
                .map(|(_, object)| object)?;
            return Some(format!(
                "machine {} was made while {} is frozen",
                name(machine),
                name(frozen)
            ));
        }
        let call = sight.call().filter(|call| {
            ["CreateMachine", "DeleteMachine"].contains(&call.call.as_str()) && !call.client.is_empty()
        })?;
        if let Some((rule, since)) = long_away(sight) {
            return Some(format!(
                "{} called {} for {} at {}, and {rule} keeps an API server from it since {since}",
                call.client,
                call.call,
                call.machine,
                sight.at()
            ));
        }
        let lease = sight.world.leadership.as_ref()?;
        if may_lead(lease, &call.client, sight.at()) {
            return None;
        }
        Some(format!(
            "{} called {} for {} at {}; the Lease is held by {:?}, renewed at {}",
            call.client,
            call.call,
            call.machine,
            sight.at(),
            lease.holder,
            lease.renewed
        ))
    }
}

/// A rule by which an API server has been away for so long that the controller is frozen: for the timeout, counted from
/// the next look at it.
fn long_away<'a>(sight: &'a Sight) -> Option<(&'a String, Timestamp)> {
    let timeouts = &sight.terms.timeouts;
    let noticed = timeouts.api_timeout * 3 + timeouts.slack;
    let mut away = sight.terms.away.iter().map(|(rule, since)| (rule, *since));
    away.find(|(_, since)| after(*since, noticed) < sight.at())
}

/// Whether `client` leads at that time, as far as the Lease says.
pub fn may_lead(lease: &Leadership, client: &str, at: Timestamp) -> bool {
    // Renewals are stamped before they are sent.
    let room = Duration::from_secs(1);
    lease.holder == client && after(after(lease.renewed, lease.duration), room) >= at
}
