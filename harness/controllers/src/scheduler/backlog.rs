//! The queue of pods without a node: the order of attempts, the backoff, and what each unschedulable pod waits
//! for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use runtime::backoff::doubled;

use super::place::Diagnosis;
use super::reason::Change;
use crate::foundation::ObjectKey;
use quantity::Saturating as _;

/// The backoff after the first failed attempt, doubled with each further one (kube-scheduler's values).
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Pods without a node.
#[derive(Debug, Default)]
pub struct Backlog {
    entries: BTreeMap<ObjectKey, Entry>,
    /// Active pods: highest priority first, then longest waiting.
    active: BTreeSet<(Reverse<i32>, Timestamp, ObjectKey)>,
    /// Pods in backoff, and when it ends.
    resting: BTreeSet<(Timestamp, ObjectKey)>,
    /// Unschedulable pods, which wait for a change.
    waiting: BTreeSet<ObjectKey>,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    since: Timestamp,
    attempts: u32,
    /// When the last attempt ended.
    tried: Timestamp,
    state: State,
}

#[derive(Debug)]
enum State {
    /// In the active queue.
    Active,
    /// An attempt is in progress.
    Tried,
    /// In backoff until this time, then active again.
    Rests(Timestamp),
    /// Waits for a change that may make it schedulable.
    Waits(Diagnosis),
}

impl Backlog {
    /// Adds a new pod. A pod that is already queued is unchanged.
    pub fn add(&mut self, pod: ObjectKey, priority: i32, now: Timestamp) {
        if self.entries.contains_key(&pod) {
            return;
        }
        let entry = Entry {
            priority,
            since: now,
            attempts: 0,
            tried: now,
            state: State::Active,
        };
        self.active.insert((Reverse(priority), now, pod.clone()));
        self.entries.insert(pod, entry);
    }

    /// Removes a pod.
    pub fn remove(&mut self, pod: &ObjectKey) {
        if let Some(entry) = self.entries.remove(pod) {
            self.unlist(pod, &entry);
        }
    }

    /// Whether the pod is queued.
    pub fn contains(&self, pod: &ObjectKey) -> bool {
        self.entries.contains_key(pod)
    }

    fn unlist(&mut self, pod: &ObjectKey, entry: &Entry) {
        match entry.state {
            State::Active => {
                self.active.remove(&(Reverse(entry.priority), entry.since, pod.clone()));
            }
            State::Rests(until) => {
                self.resting.remove(&(until, pod.clone()));
            }
            State::Waits(_) => {
                self.waiting.remove(pod);
            }
            State::Tried => {}
        }
    }

    /// The number of active pods.
    pub fn ready(&self) -> usize {
        self.active.len()
    }

    /// When the next backoff ends.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.resting.first().map(|(until, _)| *until)
    }

    /// Takes the next active pod. It stays queued until it is removed.
    pub fn next(&mut self, now: Timestamp) -> Option<ObjectKey> {
        while let Some((until, _)) = self.resting.first()
            && *until <= now
            && let Some((_, pod)) = self.resting.pop_first()
        {
            self.activate(&pod);
        }
        let (_, _, pod) = self.active.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&pod) {
            entry.state = State::Tried;
            entry.attempts.raise(1);
            entry.tried = now;
        }
        Some(pod)
    }

    fn activate(&mut self, pod: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(pod) {
            entry.state = State::Active;
            self.active.insert((Reverse(entry.priority), entry.since, pod.clone()));
        }
    }

    /// The pod is unschedulable and waits for a change that resolves the diagnosis.
    pub fn wait(&mut self, pod: &ObjectKey, diagnosis: Diagnosis) {
        if let Some(entry) = self.entries.get_mut(pod) {
            entry.state = State::Waits(diagnosis);
            self.waiting.insert(pod.clone());
        }
    }

    /// Retries the pod after its backoff.
    pub fn retry(&mut self, pod: &ObjectKey, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(pod) else { return };
        match entry.state {
            State::Active | State::Rests(_) => return,
            State::Tried | State::Waits(_) => {}
        }
        self.waiting.remove(pod);
        let rest = doubled(SHORTEST_REST, entry.attempts.saturating_sub(1), LONGEST_REST);
        let until = entry.tried.saturating_add(rest).unwrap_or(Timestamp::MAX);
        if until <= now {
            self.activate(pod);
        } else {
            entry.state = State::Rests(until);
            self.resting.insert((until, pod.clone()));
        }
    }

    /// A change occurred: pods that it may make schedulable are retried after their backoff.
    pub fn changed(&mut self, change: Change, now: Timestamp) {
        let helped: Vec<ObjectKey> = self
            .waiting
            .iter()
            .filter(|pod| {
                let state = self.entries.get(*pod).map(|entry| &entry.state);
                matches!(state, Some(State::Waits(diagnosis)) if diagnosis.is_helped_by(change))
            })
            .cloned()
            .collect();
        for pod in helped {
            self.retry(&pod, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::reason::Reason;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(name: &str) -> ObjectKey {
        ObjectKey::new("n", name)
    }

    fn order(backlog: &mut Backlog, now: Timestamp) -> Vec<String> {
        std::iter::from_fn(|| backlog.next(now)).map(|pod| pod.name).collect()
    }

    fn unschedulable_because(reason: Reason) -> Diagnosis {
        Diagnosis {
            nodes: 1,
            reasons: BTreeMap::from([(reason, 1)]),
            ..Diagnosis::default()
        }
    }

    #[test]
    fn higher_priority_comes_first_then_longer_waiting() {
        let mut backlog = Backlog::default();
        for (name, priority, since) in [("c", 0, 1), ("b", 0, 2), ("a", 0, 2), ("d", 9, 3)] {
            backlog.add(pod(name), priority, at(since));
        }
        assert_eq!(order(&mut backlog, at(5)), ["d", "c", "a", "b"]);
    }

    #[test]
    fn a_pod_waits_for_a_helpful_change_and_its_backoff() {
        let mut backlog = Backlog::default();
        backlog.add(pod("a"), 0, at(0));
        backlog.next(at(0));
        backlog.wait(&pod("a"), unschedulable_because(Reason::Taint));
        backlog.changed(Change::PodGone, at(0));
        assert_eq!(backlog.next_wake(), None);
        backlog.changed(Change::Node, at(0));
        assert_eq!(backlog.next_wake(), Some(at(1)));
        assert_eq!(backlog.next(at(0)), None);
        assert_eq!(backlog.next(at(1)), Some(pod("a")));
    }

    #[test]
    fn the_backoff_doubles_up_to_ten_seconds() {
        let mut backlog = Backlog::default();
        backlog.add(pod("a"), 0, at(0));
        let mut now = at(0);
        let mut rests = Vec::new();
        for _ in 0..6 {
            backlog.next(now);
            backlog.retry(&pod("a"), now);
            let wake = backlog.next_wake().unwrap();
            rests.push(wake.duration_since(now).as_secs());
            now = wake;
        }
        assert_eq!(rests, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_removed_pod_is_not_scheduled() {
        let mut backlog = Backlog::default();
        backlog.add(pod("a"), 0, at(0));
        backlog.add(pod("b"), 0, at(0));
        backlog.next(at(0));
        backlog.retry(&pod("a"), at(0));
        backlog.remove(&pod("a"));
        backlog.remove(&pod("b"));
        assert_eq!((backlog.ready(), backlog.next_wake()), (0, None));
    }
}
