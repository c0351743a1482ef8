//! Rules as data: conditions and actions. `check` validates a rule, `live` decides when it has a hit.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Class, Pattern, Verb, period};

/// A fault rule: the requests that it matches, and the action on a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules of a server: letters, digits, `.`, `-` and `_`. The rule's random draws depend only on
    /// the server's seed and this name.
    pub name: String,
    /// The requests. Absent: every request that the action applies to.
    #[serde(rename = "match", default, skip_serializing_if = "Match::is_everything")]
    pub matches: Match,
    /// The action on a hit.
    pub action: Action,
}

/// The conditions of a rule. All must hold; an absent condition holds.
///
/// Of the requests that match, the first `skip` are not affected; then each is a hit with `probability`, up to
/// `times` hits. A watch is one request: it matches when it opens, or when the rule or its window starts while it is
/// open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    /// The user's name or the user agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Pattern>,
    /// The verbs. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
    /// `machines` or `machines.machine.sapcloud.io`; with a subresource `pods/eviction`, `machines/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Pattern>,
    /// The namespace in the path. Lists and watches of all namespaces have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Pattern>,
    /// The object's name; for a creation the name or `generateName` in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Pattern>,
    /// The number of matching requests that are not affected.
    #[serde(skip_serializing_if = "is_zero")]
    pub skip: u32,
    /// The maximum number of hits. Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The probability of a hit, in `0..=1`. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// When the rule is active. Absent: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// A time range since the start of the server, on its clock; includes `from` and excludes `until`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Window {
    /// The start.
    #[serde(with = "period", skip_serializing_if = "Duration::is_zero")]
    #[schemars(with = "String")]
    pub from: Duration,
    /// The end. Absent: none.
    #[serde(with = "period::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Duration>,
}

impl Rule {
    /// A rule for every request that the action applies to.
    pub fn new(name: impl Into<String>, action: Action) -> Self {
        Self {
            name: name.into(),
            matches: Match::default(),
            action,
        }
    }

    /// Whether a correct client must survive the rule.
    pub fn class(&self) -> Class {
        self.action.class()
    }
}

impl Match {
    fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// For instance `failed: fail 503 beforeCommit of create, update on machines by mcm, 2 times after 1, from 1m to 5m`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.name, self.action, self.matches)
    }
}

/// The conditions, each with a leading space; empty without conditions.
impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.verbs.is_empty() {
            let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.word()).collect();
            write!(f, " of {}", verbs.join(", "))?;
        }
        for (word, pattern) in [
            ("on", &self.resource),
            ("in", &self.namespace),
            ("named", &self.object),
            ("by", &self.client),
        ] {
            if let Some(pattern) = pattern {
                write!(f, " {word} {pattern}")?;
            }
        }
        if let Some(times) = self.times {
            write!(f, ", {times} times")?;
        }
        if self.skip > 0 {
            write!(f, ", after {}", self.skip)?;
        }
        if let Some(probability) = self.probability {
            write!(f, ", with probability {probability}")?;
        }
        if let Some(Window { from, until }) = self.window {
            write!(f, ", from {}", period::text(from))?;
            if let Some(until) = until {
                write!(f, " to {}", period::text(until))?;
            }
        }
        Ok(())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
