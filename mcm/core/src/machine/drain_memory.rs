//! What a drain remembers from one decision to the next.
//!
//! The shell keeps the value for as long as the machine is drained. A process that starts anew knows nothing of it, and
//! loses only counts and waits: the limit of the whole drain is counted from the object.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

/// The memory of one machine's drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainMemory {
    /// What was asked of each pod, by uid.
    pub attempts: BTreeMap<String, Attempt>,
    /// The cloud's name of each PersistentVolume that was asked for; empty: the cloud knows none.
    pub volume_ids: BTreeMap<String, String>,
    /// The pod with volumes whose turn it is.
    pub moving: Option<Moving>,
    /// Uids of pods whose volumes did not detach in time: they are waited for no longer.
    pub given_up: BTreeSet<String>,
    /// Uids of the pods that a drain by force found and deletes; `None`: pods are evicted.
    pub by_force: Option<BTreeSet<String>>,
}

/// The eviction or deletion of a pod, as often as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was asked for last.
    pub last: Timestamp,
    /// What came of that.
    pub outcome: EvictionOutcome,
    /// How often a budget refused it, that is whether it has had its chances; refusals of a budget that can never be
    /// met are not counted.
    pub refusals: u32,
    /// Whether the last refusal is counted.
    pub judged: bool,
    /// Whether a refusal was told of: once is enough.
    pub told: bool,
}

/// What an eviction or deletion was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod goes.
    Accepted,
    /// A disruption budget does not allow it now (429).
    Refused,
    /// It failed otherwise.
    Failed(String),
}

/// A pod that takes its volumes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Its uid.
    pub uid: String,
    /// The volumes that it alone uses, with the cloud's names of them.
    pub volumes: BTreeMap<String, String>,
    /// When it was asked to go.
    pub since: Timestamp,
    /// How long it may take to end.
    pub grace: Duration,
    /// When its volumes were detached from the node.
    pub detached: Option<Timestamp>,
}

impl DrainMemory {
    /// What is remembered when another drain of the machine begins: nothing, so that no pod pays for attempts that were
    /// made at a time that is over. `None`: nothing is remembered anyway.
    pub(super) fn begun_anew(&self) -> Option<Self> {
        (*self != Self::default()).then(Self::default)
    }

    /// Takes over what came of an eviction or deletion.
    pub fn attempted(&mut self, uid: &str, now: Timestamp, outcome: EvictionOutcome) {
        let before = self.attempts.get(uid);
        let refusals = before.map_or(0, |attempt| attempt.refusals);
        let told = before.is_some_and(|attempt| attempt.told);
        let judged = outcome == EvictionOutcome::Accepted;
        let attempt = Attempt {
            last: now,
            outcome,
            refusals,
            judged,
            told,
        };
        self.attempts.insert(uid.to_owned(), attempt);
    }
}
