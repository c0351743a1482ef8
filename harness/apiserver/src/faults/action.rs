//! The actions of fault rules, and which of them a correct client must survive.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Facts, Freshness, Verb, period};

/// Whether a correct client must survive a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// The Kubernetes API allows it: a correct client survives it.
    Legal,
    /// No correct server does it.
    Byzantine,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legal => "legal",
            Self::Byzantine => "byzantine",
        })
    }
}

/// Before or after the commit of a request. For a read, the commit is the moment of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// Before the server handles the request.
    #[default]
    BeforeCommit,
    /// After the write is in the store, before the response is sent.
    AfterCommit,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeCommit => "beforeCommit",
            Self::AfterCommit => "afterCommit",
        })
    }
}

/// How stale a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Behind {
    /// The state that long ago, but not from before the rule was added.
    Duration(
        #[serde(with = "period")]
        #[schemars(with = "String")]
        Duration,
    ),
    /// The state that number of changes ago, counted over the whole server.
    Revisions(u64),
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration(by) => f.write_str(&period::text(*by)),
            Self::Revisions(count) => write!(f, "{count} revisions"),
        }
    }
}

/// How a partition affects a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cut {
    /// Connections break immediately, including open watches.
    Refuse,
    /// Requests and watches hang until the partition ends.
    Hang,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Hang => "hang",
        })
    }
}

/// The action of a fault rule. In YAML a key with settings: `drop: {at: afterCommit}`, `freezeWatch: {}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Delays the request before it is handled, or its response.
    Delay {
        /// Whether the request or the response waits.
        #[serde(default)]
        at: At,
        /// The delay.
        #[serde(with = "period")]
        #[schemars(with = "String")]
        by: Duration,
    },
    /// Breaks the connection: the client gets no response.
    Drop {
        /// Whether the server handles the request first.
        #[serde(default)]
        at: At,
    },
    /// Rejects the request.
    Fail {
        /// The HTTP code, one of [`Action::CODES`].
        #[schemars(extend("enum" = Action::CODES))]
        code: u16,
        /// Whether the server handles the request first; legal for 500, 503 and 504, because a component behind the
        /// server can lose a response.
        #[serde(default, skip_serializing_if = "is_before")]
        at: At,
        /// For 429 and 503: the Retry-After time in whole seconds. Absent: one second for 429.
        #[serde(with = "period::optional", default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        retry_after: Option<Duration>,
        /// The message of the response. Absent: the message of a Kubernetes API server for that code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Ends the watch after some events.
    TruncateWatch {
        /// The number of object events that still arrive; bookmarks do not count.
        #[serde(default)]
        after_events: u32,
        /// Whether the connection breaks in the middle of the next event instead of ending after the last one.
        #[serde(default)]
        midway: bool,
    },
    /// The watch stays open without events, until its own timeout or the end of the rule.
    FreezeWatch {},
    /// Delays the events of the watch.
    LagWatch {
        /// The delay.
        #[serde(with = "period")]
        #[schemars(with = "String")]
        by: Duration,
    },
    /// A list returns an earlier state.
    StaleList {
        /// How stale the list is.
        by: Behind,
        /// Whether consistent lists are stale too, which is byzantine. Otherwise the rule applies only to lists that
        /// a cache can serve: those with a minimum `resourceVersion`.
        #[serde(default, skip_serializing_if = "is_false")]
        consistent: bool,
    },
    /// Like [`Action::StaleList`], for reads of one object.
    StaleGet {
        /// How stale the object is.
        by: Behind,
        /// Whether reads without a `resourceVersion` are stale too, which is byzantine.
        #[serde(default, skip_serializing_if = "is_false")]
        consistent: bool,
    },
    /// Cuts the client off: all its requests and open watches.
    Partition {
        /// The effect on the client.
        how: Cut,
    },
    /// Discards all history before handling the request.
    Compact {
        /// Whether only watches that are behind get 410, instead of all open watches.
        #[serde(default, skip_serializing_if = "is_false")]
        behind_only: bool,
    },
    /// The server goes down and restarts: every connection breaks, including that of the request.
    Restart {
        /// Whether the server handles the request first.
        #[serde(default, skip_serializing_if = "is_before")]
        at: At,
        /// Whether the server keeps the history of changes; without it watches cannot resume.
        #[serde(default)]
        keep_history: bool,
        /// The downtime; until its end the server refuses every connection.
        #[serde(with = "period", default, skip_serializing_if = "Duration::is_zero")]
        #[schemars(with = "String")]
        down: Duration,
    },
    /// Sends each event of the watch twice.
    DuplicateEvent {},
}

impl Action {
    /// The allowed codes of [`Action::Fail`].
    pub const CODES: [u16; 9] = [401, 403, 409, 410, 413, 429, 500, 503, 504];

    /// The key of the action in YAML.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Drop { .. } => "drop",
            Self::Fail { .. } => "fail",
            Self::TruncateWatch { .. } => "truncateWatch",
            Self::FreezeWatch {} => "freezeWatch",
            Self::LagWatch { .. } => "lagWatch",
            Self::StaleList { .. } => "staleList",
            Self::StaleGet { .. } => "staleGet",
            Self::Partition { .. } => "partition",
            Self::Compact { .. } => "compact",
            Self::Restart { .. } => "restart",
            Self::DuplicateEvent {} => "duplicateEvent",
        }
    }

    /// Whether a correct client must survive the action, regardless of the request.
    pub fn class(&self) -> Class {
        match self {
            Self::Fail {
                code,
                at: At::AfterCommit,
                ..
            } if !matches!(code, 500 | 503 | 504) => Class::Byzantine,
            Self::StaleList { consistent: true, .. }
            | Self::StaleGet { consistent: true, .. }
            | Self::DuplicateEvent {} => Class::Byzantine,
            _ => Class::Legal,
        }
    }

    /// Whether the action applies to the request, apart from its verb: only requests that can expire get 410, and a
    /// legal stale response needs a read that can be stale.
    pub(super) fn applies_to(&self, facts: &Facts) -> bool {
        match self {
            Self::Fail { code: 410, .. } => match facts.freshness {
                Freshness::Exact => true,
                Freshness::NotOlderThan(revision) => facts.verb == Some(Verb::Watch) && revision > 0,
                Freshness::Newest => false,
            },
            Self::StaleList { consistent, .. } | Self::StaleGet { consistent, .. } => match facts.freshness {
                Freshness::NotOlderThan(_) => true,
                Freshness::Newest => *consistent,
                Freshness::Exact => false,
            },
            _ => true,
        }
    }

    /// Before or after the commit, if the action ends the request.
    pub(super) fn ending(&self) -> Option<At> {
        match self {
            Self::Drop { at } | Self::Fail { at, .. } | Self::Restart { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Whether the action is decided on arrival of a request and does not end it.
    pub(super) fn is_on_arrival(&self) -> bool {
        matches!(
            self,
            Self::Delay { .. } | Self::StaleList { .. } | Self::StaleGet { .. } | Self::Compact { .. }
        )
    }

    /// Whether the action affects open watches.
    pub(super) fn is_on_watches(&self) -> bool {
        matches!(
            self,
            Self::TruncateWatch { .. }
                | Self::FreezeWatch {}
                | Self::LagWatch { .. }
                | Self::DuplicateEvent {}
                | Self::Partition { .. }
        )
    }

    /// How far back the action reads, if it is given as a duration.
    pub(super) fn staleness(&self) -> Option<Duration> {
        match self {
            Self::StaleList {
                by: Behind::Duration(by),
                ..
            }
            | Self::StaleGet {
                by: Behind::Duration(by),
                ..
            } => Some(*by),
            _ => None,
        }
    }

    /// The verbs of the requests that the action applies to.
    pub fn verbs(&self) -> &'static [Verb] {
        match self {
            Self::Fail { code: 409, .. } => &Verb::WRITES,
            Self::Fail { code: 410, .. } => &[Verb::List, Verb::Watch],
            Self::Fail { code: 413, .. } => &[Verb::Create, Verb::Update, Verb::Patch],
            Self::Fail {
                at: At::AfterCommit, ..
            } => &Verb::WRITES,
            Self::TruncateWatch { .. } | Self::FreezeWatch {} | Self::LagWatch { .. } | Self::DuplicateEvent {} => {
                &[Verb::Watch]
            }
            Self::StaleList { .. } => &[Verb::List],
            Self::StaleGet { .. } => &[Verb::Get],
            _ => &Verb::ALL,
        }
    }
}

/// The key and the settings that distinguish it from others with the same key.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Delay { at, by } => write!(f, " {at} by {}", period::text(*by)),
            Self::Drop { at } => write!(f, " {at}"),
            Self::Fail { code, at, .. } => write!(f, " {code} {at}"),
            Self::TruncateWatch { after_events, midway } => {
                let midway = if *midway { " midway" } else { "" };
                write!(f, " after {after_events} events{midway}")
            }
            Self::LagWatch { by } => write!(f, " by {}", period::text(*by)),
            Self::StaleList { by, consistent } | Self::StaleGet { by, consistent } => {
                let consistent = if *consistent { " (consistent ones too)" } else { "" };
                write!(f, " by {by}{consistent}")
            }
            Self::Partition { how } => write!(f, " {how}"),
            Self::Compact { behind_only } => f.write_str(if *behind_only { " behindOnly" } else { "" }),
            Self::Restart { at, keep_history, down } => {
                let history = if *keep_history { "with" } else { "without" };
                write!(f, " {at} {history} history")?;
                if down.is_zero() {
                    Ok(())
                } else {
                    write!(f, ", down for {}", period::text(*down))
                }
            }
            Self::FreezeWatch {} | Self::DuplicateEvent {} => Ok(()),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_before(at: &At) -> bool {
    *at == At::BeforeCommit
}
