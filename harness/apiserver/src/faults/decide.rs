//! What the rules do to a request on arrival, and whether its client is cut off.
//!
//! Decisions only: the front end carries them out.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::live::Live;
use super::{Action, Behind, Class, Cut, Facts, Faults};

/// A rule that struck.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strike {
    /// The rule's name.
    pub(crate) rule: String,
    /// What it does.
    pub(crate) action: Action,
    /// Whether a correct client must survive it.
    pub(crate) class: Class,
}

/// Whether a request gets through to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It does.
    Open,
    /// Its connection breaks.
    Refused,
    /// It waits; ask again when the rules change, or at that time.
    Blocked {
        /// When a window opens or closes next.
        until: Option<Timestamp>,
    },
}

impl Strike {
    pub(super) fn of(live: &Live) -> Self {
        Self {
            rule: live.rule.name.clone(),
            action: live.rule.action.clone(),
            class: live.rule.class(),
        }
    }
}

impl Faults {
    /// Whether there is nothing to ask.
    pub(crate) fn is_idle(&self) -> bool {
        !self.0.busy.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether no rule can strike any more.
    pub fn are_over(&self, now: Timestamp) -> bool {
        if self.is_idle() {
            return true;
        }
        let elapsed = self.elapsed(now);
        let ended = |live: &Live| {
            let window = live.rule.matches.window;
            window
                .and_then(|window| window.until)
                .is_some_and(|until| until <= elapsed)
        };
        !self.is_down(now) && self.lock().live.iter().all(ended)
    }

    /// Whether the server is down.
    pub(crate) fn is_down(&self, now: Timestamp) -> bool {
        if self.is_idle() {
            return false;
        }
        let mut rules = self.lock();
        let down = rules.down_until.is_some_and(|until| now < until);
        if !down && rules.down_until.take().is_some() {
            self.update(&rules);
        }
        down
    }

    /// Breaks every connection, and refuses new ones for that long.
    pub(crate) fn restart(&self, down: Duration, now: Timestamp) {
        if !down.is_zero() {
            let mut rules = self.lock();
            let down = SignedDuration::try_from(down).unwrap_or(SignedDuration::MAX);
            rules.down_until = Some(now.saturating_add(down).unwrap_or(Timestamp::MAX));
            self.update(&rules);
        }
        self.0.life.restart();
    }

    /// Whether a request gets through. `met` are the rules that it has met before; those that it meets now
    /// are counted, and added there.
    pub(crate) fn passage(&self, facts: &Facts, now: Timestamp, met: &mut BTreeSet<u64>) -> (Passage, Vec<Strike>) {
        if self.is_down(now) {
            return (Passage::Refused, Vec::new());
        }
        let elapsed = self.elapsed(now);
        let mut strikes = Vec::new();
        let (mut refused, mut blocked) = (false, false);
        let mut rules = self.lock();
        for live in &mut rules.live {
            let Action::Partition { how } = live.rule.action else {
                continue;
            };
            if !live.is_open(elapsed) || !live.is_about(facts) {
                continue;
            }
            if met.insert(live.id) {
                live.meet();
                strikes.push(Strike::of(live));
            }
            match how {
                Cut::Refuse => refused = true,
                Cut::Hang => blocked = true,
            }
        }
        let passage = match (refused, blocked) {
            (true, _) => Passage::Refused,
            (_, true) => Passage::Blocked {
                until: self.next_change(rules.live.iter(), elapsed),
            },
            _ => Passage::Open,
        };
        (passage, strikes)
    }

    /// The rules that strike a request on arrival, in their order. A request has one ending: behind a rule
    /// that drops or refuses it, or restarts the server, rules that would do so too are not asked, and behind
    /// one that does it before the commit none is.
    pub(crate) fn decide(&self, facts: &Facts, now: Timestamp) -> Vec<Strike> {
        let elapsed = self.elapsed(now);
        let mut strikes = Vec::new();
        let mut ended = false;
        for live in &mut self.lock().live {
            let action = &live.rule.action;
            let asked = match action.ending() {
                Some(_) => !ended,
                None => action.is_on_arrival(),
            };
            if !asked || !live.is_open(elapsed) || !live.is_about(facts) || !live.meet() {
                continue;
            }
            strikes.push(Strike::of(live));
            match live.rule.action.ending() {
                Some(super::At::BeforeCommit) => break,
                Some(super::At::AfterCommit) => ended = true,
                None => {}
            }
        }
        strikes
    }

    /// The revision that somebody who is that far behind sees.
    pub(crate) fn revision_behind(&self, by: Behind) -> u64 {
        let newest = self.revision();
        match by {
            Behind::Revisions(count) => newest.saturating_sub(count),
            Behind::Duration(by) => self.0.marks.revision(by).unwrap_or(newest),
        }
    }

    /// When the window of one of these next opens or closes.
    pub(super) fn next_change<'a>(
        &self,
        rules: impl Iterator<Item = &'a Live>,
        elapsed: Duration,
    ) -> Option<Timestamp> {
        let next = rules.filter_map(|live| live.next_change(elapsed)).min()?;
        let next = SignedDuration::try_from(next).unwrap_or(SignedDuration::MAX);
        Some(self.0.start.saturating_add(next).unwrap_or(Timestamp::MAX))
    }
}
