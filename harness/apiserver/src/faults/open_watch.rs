//! What the rules do to a watch while it is open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::decide::Strike;
use super::{Action, Cut, Facts, Faults};

/// A watch, and the rules that took hold of it.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    facts: Box<Facts>,
    /// Rules that the watch has met: each decides once.
    met: BTreeSet<u64>,
    grips: BTreeMap<u64, Grip>,
}

/// A rule's hold on a watch.
#[derive(Debug)]
struct Grip {
    action: Action,
    /// Events of objects that were sent since.
    sent: u32,
}

/// What happens to a watch now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Its connection breaks.
    pub(crate) cut: bool,
    /// Nothing gets through, not even its end.
    pub(crate) silent: bool,
    /// The server sends nothing; the watch ends in its time.
    pub(crate) frozen: bool,
    /// Everything arrives that much later.
    pub(crate) lag: Duration,
    /// It ends now.
    pub(crate) over: bool,
    /// It breaks in the middle of the next event.
    pub(crate) breaks: bool,
    /// Each event is sent twice.
    pub(crate) twice: bool,
    /// When a window opens or closes next.
    pub(crate) until: Option<Timestamp>,
}

impl OpenWatch {
    /// A watch that has met no rule.
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            facts: Box::new(facts),
            met: BTreeSet::new(),
            grips: BTreeMap::new(),
        }
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Counts an event of an object that is sent.
    pub(crate) fn sent(&mut self) {
        for grip in self.grips.values_mut() {
            grip.sent = grip.sent.saturating_add(1);
        }
    }

    /// What happens now, and the rules that took hold just now.
    pub(crate) fn weather(&mut self, faults: &Faults, now: Timestamp) -> (Weather, Vec<Strike>) {
        if faults.is_idle() {
            self.grips.clear();
            return (Weather::default(), Vec::new());
        }
        let elapsed = faults.elapsed(now);
        let mut strikes = Vec::new();
        let mut rules = faults.lock();
        let mut holding = BTreeSet::new();
        for live in &mut rules.live {
            if !live.rule.action.is_on_watches() || !live.is_open(elapsed) || !live.is_about(&self.facts) {
                continue;
            }
            if self.met.insert(live.id) && live.meet() {
                strikes.push(Strike::of(live));
                let action = live.rule.action.clone();
                self.grips.insert(live.id, Grip { action, sent: 0 });
            }
            holding.insert(live.id);
        }
        self.grips.retain(|id, _| holding.contains(id));
        let concerned = rules
            .live
            .iter()
            .filter(|live| live.rule.action.is_on_watches() && live.is_about(&self.facts));
        let mut weather = Weather {
            until: faults.next_change(concerned, elapsed),
            ..Weather::default()
        };
        for grip in self.grips.values() {
            weather.add(grip);
        }
        (weather, strikes)
    }
}

impl Weather {
    fn add(&mut self, grip: &Grip) {
        match grip.action {
            Action::Partition { how: Cut::Refuse } => self.cut = true,
            Action::Partition { how: Cut::Hang } => self.silent = true,
            Action::FreezeWatch {} => self.frozen = true,
            Action::LagWatch { by } => self.lag = self.lag.max(by),
            Action::TruncateWatch { after_events, midway } if grip.sent >= after_events => {
                self.over |= !midway;
                self.breaks |= midway;
            }
            Action::DuplicateEvent {} => self.twice = true,
            _ => {}
        }
    }
}
