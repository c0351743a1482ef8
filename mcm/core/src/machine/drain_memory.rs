//! The state of a drain between decisions.
//!
//! The shell keeps the value while the machine is drained. A restart of the process loses only counts and waits: the
//! time limit of the drain is computed from the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

/// The state of one machine's drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainMemory {
    /// The last eviction or deletion of each pod, by uid.
    pub attempts: BTreeMap<String, Attempt>,
    /// The cloud's volume ID by PersistentVolume; empty: the cloud has none.
    pub volume_ids: BTreeMap<String, String>,
    /// The pod whose volumes are moving.
    pub moving: Option<MovingPod>,
    /// Uids of pods whose volumes did not detach in time: the drain no longer waits for them.
    pub given_up: BTreeSet<String>,
    /// Uids of the pods that a forced drain found and deletes; `None`: pods are evicted.
    pub by_force: Option<BTreeSet<String>>,
}

/// The attempts to evict or delete a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When the last attempt was made.
    pub last: Timestamp,
    /// Its result.
    pub outcome: EvictionOutcome,
    /// How often a budget refused it; refusals of a misconfigured budget do not count.
    pub refusals: u32,
    /// Whether the last refusal was counted.
    pub judged: bool,
    /// When a refusal was last reported.
    pub reported: Option<Timestamp>,
}

/// The result of an eviction or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod terminates.
    Accepted,
    /// A disruption budget does not allow it now (429).
    Refused,
    /// Another error.
    Failed(String),
}

/// A pod whose volumes are moving to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingPod {
    /// Its uid.
    pub uid: String,
    /// The volumes that only this pod uses, with the cloud's volume IDs.
    pub volumes: BTreeMap<String, String>,
    /// When its eviction was requested.
    pub since: Timestamp,
    /// Its grace period.
    pub grace: Duration,
    /// When its volumes were detached from the node.
    pub detached: Option<Timestamp>,
}

impl DrainMemory {
    /// The empty memory with which another drain of the machine begins, so that attempts of an earlier drain do not
    /// count. `None`: the memory is empty.
    pub(super) fn reset(&self) -> Option<Self> {
        (*self != Self::default()).then(Self::default)
    }

    /// Records the result of an eviction or deletion.
    pub fn attempted(&mut self, uid: &str, now: Timestamp, outcome: EvictionOutcome) {
        let previous = self.attempts.get(uid);
        let refusals = previous.map_or(0, |attempt| attempt.refusals);
        let reported = previous.and_then(|attempt| attempt.reported);
        let judged = outcome == EvictionOutcome::Accepted;
        let attempt = Attempt {
            last: now,
            outcome,
            refusals,
            judged,
            reported,
        };
        self.attempts.insert(uid.to_owned(), attempt);
    }
}
