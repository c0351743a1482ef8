//! Decides which rules affect an open watch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::decide::Hit;
use super::{Action, Cut, Facts, Faults};

/// How long a watch lasts at least that a rule ends before its first event. In virtual time a client that requests it again at
/// once would otherwise keep time from passing.
const SHORTEST: Duration = Duration::from_millis(100);

/// A watch and the rules that affect it.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    facts: Box<Facts>,
    /// The rules that the watch has matched: each decides once.
    seen: BTreeSet<u64>,
    active: BTreeMap<u64, ActiveRule>,
}

/// A rule that affects the watch.
#[derive(Debug)]
struct ActiveRule {
    action: Action,
    /// The object events sent since the hit.
    sent: u32,
    /// When the rule hit the watch.
    since: Timestamp,
}

/// The combined effect of the rules on a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchEffect {
    /// The connection breaks.
    pub(crate) cut: bool,
    /// Nothing is delivered, not even the end of the watch.
    pub(crate) silent: bool,
    /// The server sends no events; the watch ends at its timeout.
    pub(crate) frozen: bool,
    /// The delay of each event.
    pub(crate) lag: Duration,
    /// The watch ends now.
    pub(crate) ends: bool,
    /// The connection breaks in the middle of the next event.
    pub(crate) breaks: bool,
    /// Each event is sent duplicates.
    pub(crate) duplicates: bool,
    /// When a window next opens or closes.
    pub(crate) until: Option<Timestamp>,
}

impl OpenWatch {
    /// A watch that has matched no rule.
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            facts: Box::new(facts),
            seen: BTreeSet::new(),
            active: BTreeMap::new(),
        }
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Counts a sent object event.
    pub(crate) fn sent(&mut self) {
        for rule in self.active.values_mut() {
            rule.sent = rule.sent.saturating_add(1);
        }
    }

    /// The current effect, and the new hits.
    pub(crate) fn effect(&mut self, faults: &Faults, now: Timestamp) -> (WatchEffect, Vec<Hit>) {
        if faults.is_idle() {
            self.active.clear();
            return (WatchEffect::default(), Vec::new());
        }
        let elapsed = faults.elapsed(now);
        let mut hits = Vec::new();
        let mut rules = faults.lock();
        let mut open = BTreeSet::new();
        for live in &mut rules.live {
            if !live.rule.action.is_on_watches() || !live.is_open(elapsed) || !live.matches(&self.facts) {
                continue;
            }
            if self.seen.insert(live.id) && live.count_match() {
                hits.push(Hit::of(live));
                let action = live.rule.action.clone();
                let rule = ActiveRule {
                    action,
                    sent: 0,
                    since: now,
                };
                self.active.insert(live.id, rule);
            }
            open.insert(live.id);
        }
        self.active.retain(|id, _| open.contains(id));
        let relevant = rules
            .live
            .iter()
            .filter(|live| live.rule.action.is_on_watches() && live.matches(&self.facts));
        let mut effect = WatchEffect {
            until: faults.next_change(relevant, elapsed),
            ..WatchEffect::default()
        };
        for rule in self.active.values() {
            effect.add(rule, now);
        }
        (effect, hits)
    }
}

impl WatchEffect {
    fn add(&mut self, rule: &ActiveRule, now: Timestamp) {
        let shortest = rule.since.saturating_add(SHORTEST).unwrap_or(rule.since);
        match rule.action {
            Action::Partition { how: Cut::Refuse } => self.cut = true,
            Action::Partition { how: Cut::Hang } => self.silent = true,
            Action::FreezeWatch {} => self.frozen = true,
            Action::LagWatch { by } => self.lag = self.lag.max(by),
            Action::TruncateWatch {
                after_events: 0,
                midway: false,
            } if now < shortest => {
                self.frozen = true;
                self.until = Some(self.until.map_or(shortest, |until| until.min(shortest)));
            }
            Action::TruncateWatch { after_events, midway } if rule.sent >= after_events => {
                self.ends |= !midway;
                self.breaks |= midway;
            }
            Action::DuplicateEvent {} => self.duplicates = true,
            _ => {}
        }
    }
}
