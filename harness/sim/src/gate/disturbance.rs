//! The disturbances that a gate applies at effects: crashes, pauses and lagging watches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Whether a process crashes before or after an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The request is not sent.
    Before,
    /// The server handles the request; the process never receives the response.
    After,
}

/// A crash at one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrashPoint {
    /// The number of the effect, counted from 1.
    pub effect: u64,
    /// Before or after the effect.
    pub side: Side,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(formatter, "crash {side} effect {}", self.effect)
    }
}

/// A delay of watch events, which keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// The delay of each event.
    pub by: Duration,
    /// How long the lag lasts, counted from its effect; `None`: until the end of the run.
    pub lasts: Option<Duration>,
}

/// What happens to the process at an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisturbanceKind {
    /// The process crashes.
    Crash,
    /// The process pauses.
    Pause,
    /// The watches of the process start to lag.
    Lag,
}

/// The disturbances of one effect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Armed {
    pub(super) crash: Option<Side>,
    pub(super) pause: Option<Duration>,
    pub(super) lag: Option<Lag>,
}

/// The disturbances of a group of processes, and which of them have taken effect.
#[derive(Debug, Default)]
pub(super) struct Disturbances {
    armed: BTreeMap<u64, Armed>,
    hits: BTreeSet<(u64, DisturbanceKind)>,
}

impl Disturbances {
    pub(super) fn arm(&mut self, effect: u64) -> &mut Armed {
        self.armed.entry(effect).or_default()
    }

    pub(super) fn at(&self, effect: u64) -> Armed {
        self.armed.get(&effect).copied().unwrap_or_default()
    }

    pub(super) fn record_hit(&mut self, effect: u64, kind: DisturbanceKind) {
        self.hits.insert((effect, kind));
    }

    pub(super) fn has_hit(&self, effect: u64, kind: DisturbanceKind) -> bool {
        self.hits.contains(&(effect, kind))
    }
}

/// An active lag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lagging {
    by: Duration,
    until: Timestamp,
}

impl Lagging {
    pub(super) fn from(now: Timestamp, lag: Lag) -> Self {
        Self {
            by: lag.by,
            until: lag.lasts.map_or(Timestamp::MAX, |lasts| later(now, lasts)),
        }
    }

    /// When the process receives an event that the server sends now.
    pub(super) fn arrival(self, now: Timestamp) -> Timestamp {
        if now < self.until { later(now, self.by) } else { now }
    }
}

pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}
