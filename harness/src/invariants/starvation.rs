//! I14: no starvation. The cloud is asked about a Machine at most a minute after it appears, and its deletion begins at
//! most a minute after it was asked for, however many drains are blocked.
//!
//! A Machine that cannot be worked on says so in its last operation, which counts as well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;

use super::Check;
use super::sight::{Sight, Terms, is_deleting, name, phase, time};
use crate::engine::world::{WorldState, text};

/// Who waits since when, and for what; by name.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    begin: BTreeMap<String, Timestamp>,
    end: BTreeMap<String, Timestamp>,
}

impl Check for Starvation {
    fn see(&mut self, sight: &Sight) -> Option<String> {
        if let Some(call) = sight.call() {
            self.begin.remove(&call.machine);
        }
        if let Some(machine) = sight.deleted("Machine") {
            self.begin.remove(name(machine));
            self.end.remove(name(machine));
        }
        let machine = sight.applied("Machine")?;
        let named = name(machine).to_owned();
        let begun = !text(machine, "/status/lastOperation/description").is_empty() || is_deleting(machine);
        if sight.before.is_none() && !begun && text(machine, "/spec/providerID").is_empty() {
            self.begin.insert(named.clone(), sight.at());
        } else if begun {
            self.begin.remove(&named);
        }
        let finalizers = machine["metadata"]["finalizers"].as_array();
        let ours = finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == keys::MACHINE_FINALIZER));
        match time(machine, "/metadata/deletionTimestamp").filter(|_| ours && phase(machine) != "Terminating") {
            Some(_) => {
                self.end.entry(named).or_insert(sight.at());
            }
            None => drop(self.end.remove(&named)),
        }
        None
    }

    fn due(&self, terms: &Terms) -> Option<Timestamp> {
        let waiting = self.begin.values().chain(self.end.values());
        waiting.filter_map(|since| terms.due(*since, 2 * terms.pass())).min()
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, terms: &Terms) -> Option<String> {
        let late = |since: &Timestamp| terms.due(*since, 2 * terms.pass()).is_some_and(|due| due <= now);
        let begins = self
            .begin
            .iter()
            .map(|(name, since)| (name, since, "and the cloud was not asked about it"));
        let ends = self
            .end
            .iter()
            .map(|(name, since)| (name, since, "to be deleted, and it has not begun"));
        let (name, since, what) = begins.chain(ends).find(|(_, since, _)| late(since))?;
        Some(format!("machine {name} is there since {since}, {what}"))
    }
}
