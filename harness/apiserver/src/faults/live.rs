//! An active rule: decides whether it hits a request, given the earlier requests.
//!
//! The decision is a pure function of the facts, the time and the rule's own random stream. The front end performs
//! the action.

use std::time::Duration;

use clock::Stream;
use serde::{Deserialize, Serialize};

use super::check::matches_verb;
use super::{Class, Facts, Pattern, Rule};
use quantity::Saturating as _;

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The rule.
    pub rule: Rule,
    /// Whether a correct client must survive it.
    pub class: Class,
    /// The number of matching requests.
    pub matched: u64,
    /// The number of matches on which the rule acted. A watch counts when the rule first affects it.
    pub hits: u64,
}

/// A rule with its state.
#[derive(Debug)]
pub(super) struct Live {
    /// Distinguishes the rule from earlier and later rules of the same name.
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

    /// Whether all conditions except the window hold.
    pub(super) fn matches(&self, facts: &Facts) -> bool {
        let matches = &self.rule.matches;
        matches_verb(&self.rule, facts.verb)
            && holds(matches.client.as_ref(), |pattern| {
                pattern.matches(&facts.client) || (!facts.agent.is_empty() && pattern.matches(&facts.agent))
            })
            && holds(matches.resource.as_ref(), |pattern| facts.matches_resource(pattern))
            && holds(matches.namespace.as_ref(), |pattern| {
                !facts.namespace.is_empty() && pattern.matches(&facts.namespace)
            })
            && holds(matches.object.as_ref(), |pattern| {
                !facts.object.is_empty() && pattern.matches(&facts.object)
            })
            && self.rule.action.applies_to(facts)
    }

    /// Whether the window is open, `elapsed` after the server's start.
    pub(super) fn is_open(&self, elapsed: Duration) -> bool {
        let window = self.rule.matches.window.unwrap_or_default();
        window.from <= elapsed && window.until.is_none_or(|until| elapsed < until)
    }

    /// When the window next opens or closes.
    pub(super) fn next_change(&self, elapsed: Duration) -> Option<Duration> {
        let window = self.rule.matches.window.unwrap_or_default();
        [Some(window.from), window.until]
            .into_iter()
            .flatten()
            .find(|edge| *edge > elapsed)
    }

    /// Counts a match and decides whether it is a hit.
    pub(super) fn count_match(&mut self) -> bool {
        let matches = &self.rule.matches;
        self.matched.raise(1);
        if self.matched <= u64::from(matches.skip) || matches.times.is_some_and(|times| self.hits >= u64::from(times)) {
            return false;
        }
        if let Some(probability) = matches.probability
            && !self.stream.chance(probability)
        {
            return false;
        }
        self.hits.raise(1);
        true
    }
}

fn holds(pattern: Option<&Pattern>, condition: impl FnOnce(&Pattern) -> bool) -> bool {
    pattern.is_none_or(condition)
}

impl Facts {
    /// Whether the pattern matches the resource: with or without the group, and with the subresource.
    fn matches_resource(&self, pattern: &Pattern) -> bool {
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
