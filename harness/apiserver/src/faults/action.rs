//! What a rule does to what it strikes, and which of it a correct client must survive.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Facts, Freshness, Verb, period};

/// Whether clients must live with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Kubernetes' API allows it to happen: a correct client survives it.
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

/// On which side of a request's effect something happens. Of a read the effect is that it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// Nothing has happened yet.
    #[default]
    BeforeCommit,
    /// The write is in the store; the answer is not yet on its way.
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

/// How far behind something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Behind {
    /// As it was that long ago, but not before the rule was added.
    Duration(#[serde(with = "period")] Duration),
    /// That many changes of the whole server ago.
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

/// How a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cut {
    /// Connections break at once, its open watches too.
    Refuse,
    /// Requests and watches stand still; they go on when the partition ends.
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

/// What happens. Written as one word with its settings: `drop: {at: afterCommit}`, `freezeWatch: {}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// The request waits before it is done, or its answer after it.
    Delay {
        /// Where it waits.
        #[serde(default)]
        at: At,
        /// How long.
        #[serde(with = "period")]
        by: Duration,
    },
    /// The connection breaks: the client gets no answer.
    Drop {
        /// Whether the request was done.
        #[serde(default)]
        at: At,
    },
    /// The request is refused.
    Fail {
        /// The HTTP code, one of [`Action::CODES`].
        code: u16,
        /// Whether the request was done all the same; legal for 500, 503 and 504, whose cause may have been a
        /// lost answer further behind.
        #[serde(default, skip_serializing_if = "is_before")]
        at: At,
        /// With 429 and 503: when the client may come again, in whole seconds. Absent: with 429 one second.
        #[serde(with = "period::optional", default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<Duration>,
        /// What the answer says. Absent: what a Kubernetes API server says with that code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The watch ends after some events.
    TruncateWatch {
        /// Events of objects that still arrive; bookmarks do not count.
        #[serde(default)]
        after_events: u32,
        /// Whether the connection breaks in the middle of the next event instead of ending after the last.
        #[serde(default)]
        midway: bool,
    },
    /// The watch stays open and silent, until its own timeout or the end of the rule.
    FreezeWatch {},
    /// What the watch sends arrives later.
    LagWatch {
        /// How much later.
        #[serde(with = "period")]
        by: Duration,
    },
    /// A list shows what was there earlier.
    StaleList {
        /// How far behind.
        by: Behind,
        /// Whether lists that must be up to date are stale too, which is byzantine. Otherwise those are struck
        /// alone that may be served from a cache: with a `resourceVersion` that they must not be older than.
        #[serde(default, skip_serializing_if = "is_false")]
        consistent: bool,
    },
    /// As [`Action::StaleList`], of reading one object.
    StaleGet {
        /// How far behind.
        by: Behind,
        /// Whether reads without a `resourceVersion` are stale too, which is byzantine.
        #[serde(default, skip_serializing_if = "is_false")]
        consistent: bool,
    },
    /// The client is cut off: each of its requests, and the watches that it has open.
    Partition {
        /// How.
        how: Cut,
    },
    /// All history is forgotten before the request is done.
    Compact {
        /// Whether every open watch is told 410, or only those that are behind.
        #[serde(default, skip_serializing_if = "is_false")]
        behind_only: bool,
    },
    /// The server goes down and comes back: every connection breaks, that of the request first.
    Restart {
        /// Whether the request was done before.
        #[serde(default, skip_serializing_if = "is_before")]
        at: At,
        /// Whether the history of changes is still there afterwards; otherwise watches cannot be resumed.
        #[serde(default)]
        keep_history: bool,
        /// How long it is down; until then every connection is refused.
        #[serde(with = "period", default, skip_serializing_if = "Duration::is_zero")]
        down: Duration,
    },
    /// Each event of the watch arrives twice.
    DuplicateEvent {},
}

impl Action {
    /// The codes that [`Action::Fail`] may have.
    pub const CODES: [u16; 9] = [401, 403, 409, 410, 413, 429, 500, 503, 504];

    /// Its word.
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

    /// Whether a correct client must survive it, whatever request it strikes.
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

    /// Whether it can strike that very request, besides its verb: only what may expire is told 410, and a
    /// legally stale answer is for reads that may be stale.
    pub(super) fn can_strike(&self, facts: &Facts) -> bool {
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

    /// On which side of the commit it ends the request, if it does.
    pub(super) fn ending(&self) -> Option<At> {
        match self {
            Self::Drop { at } | Self::Fail { at, .. } | Self::Restart { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Whether it is decided when a request arrives, and ends none.
    pub(super) fn is_on_arrival(&self) -> bool {
        matches!(
            self,
            Self::Delay { .. } | Self::StaleList { .. } | Self::StaleGet { .. } | Self::Compact { .. }
        )
    }

    /// Whether it takes hold of open watches.
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

    /// How long it looks back.
    pub(super) fn looks_back(&self) -> Option<Duration> {
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

    /// The verbs of requests that it can strike.
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

/// The word and what tells it from others of that word.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference in")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference in")]
fn is_before(at: &At) -> bool {
    *at == At::BeforeCommit
}
