//! Rules as data: what they match and what they do. What makes a rule acceptable is in `check`, when
//! one fires is in `live`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Action, Class, Pattern, Verb, period};

/// Of the requests that match, let some pass, then do something to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules of a server: letters, digits, `.`, `-` and `_`. The rule's random draws
    /// depend on the server's seed and this name alone.
    pub name: String,
    /// Which requests. Absent: every request that the action can strike.
    #[serde(rename = "match", default, skip_serializing_if = "Match::is_everything")]
    pub matches: Match,
    /// What happens to them.
    pub action: Action,
}

/// Which requests a rule is about. Every condition must hold; what is absent holds.
///
/// Of the requests for which the conditions hold (they *match*), the first `skip` pass, then each one is
/// struck with `probability`, until `times` were. A watch is one request: it matches when it is opened,
/// or when the rule or its window comes while it is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    /// The user's name or the user agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Pattern>,
    /// What the request does. Empty: anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
    /// `machines` or `machines.machine.sapcloud.io`; with a subresource `pods/eviction`, `machines/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Pattern>,
    /// The namespace in the address. A list or watch of all namespaces has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Pattern>,
    /// The object's name; of a creation the name or `generateName` in its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Pattern>,
    /// How many matching requests pass first.
    #[serde(skip_serializing_if = "is_zero")]
    pub skip: u32,
    /// How many are struck at most. Absent: without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// How likely one is struck, in `0..=1`. Absent: certainly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// When. Absent: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// A time span since the server was made, on its clock: `from` is in it, `until` is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Window {
    /// When it begins.
    #[serde(with = "period", skip_serializing_if = "Duration::is_zero")]
    pub from: Duration,
    /// When it ends. Absent: never.
    #[serde(with = "period::optional", skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
}

impl Rule {
    /// A rule for every request that the action can strike.
    pub fn new(name: impl Into<String>, action: Action) -> Self {
        Self {
            name: name.into(),
            matches: Match::default(),
            action,
        }
    }

    /// Whether a correct client must survive it.
    pub fn class(&self) -> Class {
        self.action.class()
    }
}

impl Match {
    fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// Such as `failed: fail 503 beforeCommit of create, update on machines by mcm, 2 times after 1, from 1m to 5m`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.name, self.action, self.matches)
    }
}

/// With a space before each condition; empty for a match of everything.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference in")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
