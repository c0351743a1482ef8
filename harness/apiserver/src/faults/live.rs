//! A rule at work: whether it strikes a request, given what came before.
//!
//! Pure: facts and a time go in, a decision comes out; the rule's own random stream is the only other
//! source. What a strike does is elsewhere.

use std::time::Duration;

use clock::Stream;
use serde::{Deserialize, Serialize};

use super::check::strikes;
use super::{Class, Facts, Pattern, Rule};

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The rule.
    pub rule: Rule,
    /// Whether a correct client must survive it.
    pub class: Class,
    /// Requests for which its conditions held.
    pub matched: u64,
    /// Of these, those that it struck. A watch is struck when the rule takes hold of it.
    pub hits: u64,
}

/// A rule at work.
#[derive(Debug)]
pub(super) struct Live {
    /// Told apart from another rule of the same name that was there earlier or comes later.
    pub(super) id: u64,
    pub(super) rule: Rule,
    stream: Stream,
    matched: u64,
    hits: u64,
}

impl Live {
    pub(super) fn new(id: u64, rule: Rule, stream: Stream) -> Self {
        Self {
            id,
            rule,
            stream,
            matched: 0,
            hits: 0,
        }
    }

    pub(super) fn status(&self) -> Status {
        Status {
            rule: self.rule.clone(),
            class: self.rule.class(),
            matched: self.matched,
            hits: self.hits,
        }
    }

    /// Whether the conditions hold that time does not change.
    pub(super) fn is_about(&self, facts: &Facts) -> bool {
        let matches = &self.rule.matches;
        strikes(&self.rule, facts.verb)
            && holds(matches.client.as_ref(), |pattern| {
                pattern.matches(&facts.client) || (!facts.agent.is_empty() && pattern.matches(&facts.agent))
            })
            && holds(matches.resource.as_ref(), |pattern| facts.is_of(pattern))
            && holds(matches.namespace.as_ref(), |pattern| {
                !facts.namespace.is_empty() && pattern.matches(&facts.namespace)
            })
            && holds(matches.object.as_ref(), |pattern| {
                !facts.object.is_empty() && pattern.matches(&facts.object)
            })
            && self.rule.action.can_strike(facts)
    }

    /// Whether its window is open, `elapsed` after the server's start.
    pub(super) fn is_open(&self, elapsed: Duration) -> bool {
        let window = self.rule.matches.window.unwrap_or_default();
        window.from <= elapsed && window.until.is_none_or(|until| elapsed < until)
    }

    /// When its window next opens or closes.
    pub(super) fn next_change(&self, elapsed: Duration) -> Option<Duration> {
        let window = self.rule.matches.window.unwrap_or_default();
        [Some(window.from), window.until]
            .into_iter()
            .flatten()
            .find(|edge| *edge > elapsed)
    }

    /// Counts a request that matches, and decides whether it is struck.
    pub(super) fn meet(&mut self) -> bool {
        let matches = &self.rule.matches;
        self.matched += 1;
        if self.matched <= u64::from(matches.skip) || matches.times.is_some_and(|times| self.hits >= u64::from(times)) {
            return false;
        }
        if let Some(probability) = matches.probability
            && !self.stream.chance(probability)
        {
            return false;
        }
        self.hits += 1;
        true
    }
}

fn holds(pattern: Option<&Pattern>, condition: impl FnOnce(&Pattern) -> bool) -> bool {
    pattern.is_none_or(condition)
}

impl Facts {
    /// Whether the pattern means its resource: with or without the group, and with the subresource.
    fn is_of(&self, pattern: &Pattern) -> bool {
        if self.resource.is_empty() {
            return false;
        }
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        pattern.matches(&format!("{}{subresource}", self.resource))
            || (!self.group.is_empty() && pattern.matches(&format!("{}.{}{subresource}", self.resource, self.group)))
    }
}

#[cfg(test)]
mod tests;
