//! I14: no starvation. The controller calls the cloud for a Machine at most a minute after it appears, and starts its
//! deletion at most a minute after the request, however many drains are blocked.
//!
//! A Machine that cannot be processed shows the reason in its last operation; this counts as well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{is_deleting, name, phase, text, time};
use crate::world::WorldState;

/// Machines that wait, by name, and since when.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    creations: BTreeMap<String, Timestamp>,
    deletions: BTreeMap<String, Timestamp>,
    /// Start of the longest wait.
    first: Option<Timestamp>,
}

impl Starvation {
    fn start_wait(&mut self, by: fn(&mut Self) -> &mut BTreeMap<String, Timestamp>, machine: &str, since: Timestamp) {
        let since = *by(self).entry(machine.to_owned()).or_insert(since);
        self.first = Some(self.first.map_or(since, |first| first.min(since)));
    }

    fn end_wait(&mut self, by: fn(&mut Self) -> &mut BTreeMap<String, Timestamp>, machine: &str) {
        if by(self).remove(machine).is_some_and(|since| Some(since) == self.first) {
            self.first = self.creations.values().chain(self.deletions.values()).min().copied();
        }
    }
}

impl Check for Starvation {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(call) = context.call() {
            self.end_wait(|this| &mut this.creations, &call.machine);
        }
        if let Some(machine) = context.deleted("Machine") {
            self.end_wait(|this| &mut this.creations, name(machine));
            self.end_wait(|this| &mut this.deletions, name(machine));
        }
        let machine = context.applied("Machine")?;
        let named = name(machine);
        let has_started = !text(machine, "/status/lastOperation/description").is_empty() || is_deleting(machine);
        if context.before.is_none() && !has_started && text(machine, "/spec/providerID").is_empty() {
            self.start_wait(|this| &mut this.creations, named, context.at());
        } else if has_started {
            self.end_wait(|this| &mut this.creations, named);
        }
        let finalizers = machine["metadata"]["finalizers"].as_array();
        let ours = finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == keys::MACHINE_FINALIZER));
        match time(machine, "/metadata/deletionTimestamp").filter(|_| ours && phase(machine) != "Terminating") {
            Some(_) => self.start_wait(|this| &mut this.deletions, named, context.at()),
            None => self.end_wait(|this| &mut this.deletions, named),
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        rules.due(self.first?, 2 * rules.pass())
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let begins = self
            .creations
            .iter()
            .map(|(name, since)| (name, since, "the controller has made no driver call for it"));
        let ends = self
            .deletions
            .iter()
            .map(|(name, since)| (name, since, "its deletion has not started"));
        let (name, since, what) = begins.chain(ends).find(|(_, since, _)| late(since))?;
        Some(format!("machine {name} waits since {since}: {what}"))
    }
}
