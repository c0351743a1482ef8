//! Decides which rules hit a request on arrival, and whether its client is partitioned. The front end performs the
//! actions.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::live::Live;
use super::{Action, Behind, Class, Cut, Facts, Faults};

/// A hit of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    /// The rule's name.
    pub(crate) rule: String,
    /// Its action.
    pub(crate) action: Action,
    /// Whether a correct client must survive it.
    pub(crate) class: Class,
}

/// Whether a request reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The request reaches it.
    Open,
    /// The connection breaks.
    Refused,
    /// The request waits until the rules change or that time, then checks again.
    Blocked {
        /// When a window next opens or closes.
        until: Option<Timestamp>,
    },
}

impl Hit {
    pub(super) fn of(live: &Live) -> Self {
        Self {
            rule: live.rule.name.clone(),
            action: live.rule.action.clone(),
            class: live.rule.class(),
        }
    }
}

impl Faults {
    /// Whether there are no rules and the server is up.
    pub(crate) fn is_idle(&self) -> bool {
        !self.0.busy.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether no rule can have another hit.
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

    /// Breaks every connection and refuses new ones for `down`.
    pub(crate) fn restart(&self, down: Duration, now: Timestamp) {
        if !down.is_zero() {
            let mut rules = self.lock();
            let down = SignedDuration::try_from(down).unwrap_or(SignedDuration::MAX);
            rules.down_until = Some(now.saturating_add(down).unwrap_or(Timestamp::MAX));
            self.update(&rules);
        }
        self.0.life.restart();
    }

    /// Whether a request reaches the server. `seen` contains the rules that it has already matched; this function
    /// counts new matches and adds them.
    pub(crate) fn passage(&self, facts: &Facts, now: Timestamp, seen: &mut BTreeSet<u64>) -> (Passage, Vec<Hit>) {
        if self.is_down(now) {
            return (Passage::Refused, Vec::new());
        }
        let elapsed = self.elapsed(now);
        let mut hits = Vec::new();
        let (mut refused, mut blocked) = (false, false);
        let mut rules = self.lock();
        for live in &mut rules.live {
            let Action::Partition { how } = live.rule.action else {
                continue;
            };
            if !live.is_open(elapsed) || !live.matches(facts) {
                continue;
            }
            if seen.insert(live.id) {
                live.count_match();
                hits.push(Hit::of(live));
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
        (passage, hits)
    }

    /// The rules that hit a request on arrival, in order. A request ends once: after a rule that drops or rejects it
    /// or restarts the server, further rules of this kind are skipped; after one that does so before the commit, all
    /// further rules are skipped.
    pub(crate) fn decide(&self, facts: &Facts, now: Timestamp) -> Vec<Hit> {
        let elapsed = self.elapsed(now);
        let mut hits = Vec::new();
        let mut ended = false;
        for live in &mut self.lock().live {
            let action = &live.rule.action;
            let considered = match action.ending() {
                Some(_) => !ended,
                None => action.is_on_arrival(),
            };
            if !considered || !live.is_open(elapsed) || !live.matches(facts) || !live.count_match() {
                continue;
            }
            hits.push(Hit::of(live));
            match live.rule.action.ending() {
                Some(super::At::BeforeCommit) => break,
                Some(super::At::AfterCommit) => ended = true,
                None => {}
            }
        }
        hits
    }

    /// The revision that is `by` behind the newest one.
    pub(crate) fn revision_behind(&self, by: Behind) -> u64 {
        let newest = self.revision();
        match by {
            Behind::Revisions(count) => newest.saturating_sub(count),
            Behind::Duration(by) => self.0.marks.revision(by).unwrap_or(newest),
        }
    }

    /// When the window of one of these rules next opens or closes.
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
