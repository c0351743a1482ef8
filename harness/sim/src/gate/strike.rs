//! What may strike a process at one of its effects, and what has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// On which side of an effect a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The request never leaves.
    Before,
    /// The request takes effect, its answer never arrives.
    After,
}

/// A crash at the effect of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrashPoint {
    /// The effect's number, counted from 1.
    pub effect: u64,
    /// Before or after it.
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

/// Watch events arrive late, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// How late.
    pub by: Duration,
    /// For how long from its effect on; absent: for ever.
    pub lasts: Option<Duration>,
}

/// What strikes at an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// The process crashed.
    Crash,
    /// The process stood still.
    Pause,
    /// Its watches began to lag.
    Lag,
}

/// What is armed at one effect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Armed {
    pub(super) crash: Option<Side>,
    pub(super) pause: Option<Duration>,
    pub(super) lag: Option<Lag>,
}

/// Everything that is armed for a group of processes, and what of it has struck.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    armed: BTreeMap<u64, Armed>,
    struck: BTreeSet<(u64, Blow)>,
}

impl Strikes {
    pub(super) fn arm(&mut self, effect: u64) -> &mut Armed {
        self.armed.entry(effect).or_default()
    }

    pub(super) fn at(&self, effect: u64) -> Armed {
        self.armed.get(&effect).copied().unwrap_or_default()
    }

    pub(super) fn note(&mut self, effect: u64, blow: Blow) {
        self.struck.insert((effect, blow));
    }

    pub(super) fn has_struck(&self, effect: u64, blow: Blow) -> bool {
        self.struck.contains(&(effect, blow))
    }
}

/// A lag that has begun.
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

    /// When an event that is there now arrives.
    pub(super) fn arrival(self, now: Timestamp) -> Timestamp {
        if now < self.until { later(now, self.by) } else { now }
    }
}

/// `now` and so much later.
pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}
