//! I14: no starvation. The cloud is asked about a Machine at most a minute after it appears, and its deletion begins at
//! most a minute after it was asked for, however many drains are blocked.
//!
//! A Machine that cannot be worked on says so in its last operation, which counts as well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{is_deleting, name, phase, text, time};
use crate::world::WorldState;

/// Who waits since when, and for what; by name.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    begin: BTreeMap<String, Timestamp>,
    end: BTreeMap<String, Timestamp>,
    /// Since when the one waits that waits longest.
    first: Option<Timestamp>,
}

impl Starvation {
    fn waits(&mut self, by: fn(&mut Self) -> &mut BTreeMap<String, Timestamp>, machine: &str, since: Timestamp) {
        let since = *by(self).entry(machine.to_owned()).or_insert(since);
        self.first = Some(self.first.map_or(since, |first| first.min(since)));
    }

    fn waits_no_more(&mut self, by: fn(&mut Self) -> &mut BTreeMap<String, Timestamp>, machine: &str) {
        if by(self).remove(machine).is_some_and(|since| Some(since) == self.first) {
            self.first = self.begin.values().chain(self.end.values()).min().copied();
        }
    }
}

impl Check for Starvation {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(call) = context.call() {
            self.waits_no_more(|this| &mut this.begin, &call.machine);
        }
        if let Some(machine) = context.deleted("Machine") {
            self.waits_no_more(|this| &mut this.begin, name(machine));
            self.waits_no_more(|this| &mut this.end, name(machine));
        }
        let machine = context.applied("Machine")?;
        let named = name(machine);
        let begun = !text(machine, "/status/lastOperation/description").is_empty() || is_deleting(machine);
        if context.before.is_none() && !begun && text(machine, "/spec/providerID").is_empty() {
            self.waits(|this| &mut this.begin, named, context.at());
        } else if begun {
            self.waits_no_more(|this| &mut this.begin, named);
        }
        let finalizers = machine["metadata"]["finalizers"].as_array();
        let ours = finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == keys::MACHINE_FINALIZER));
        match time(machine, "/metadata/deletionTimestamp").filter(|_| ours && phase(machine) != "Terminating") {
            Some(_) => self.waits(|this| &mut this.end, named, context.at()),
            None => self.waits_no_more(|this| &mut this.end, named),
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        rules.due(self.first?, 2 * rules.pass())
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
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
