//! How fast nodes that turned bad may get the `NoExecute` taints that drive their pods away: by zone,
//! with the states and rates of kube-controller-manager's node lifecycle controller
//! (<https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction>).
//!
//! A zone that is partly down gets them slowly, or not at all when it is small; when every zone is
//! down the fault is taken to be on this side, and nobody's pods go. Pure: what a look at all nodes
//! shows comes in, who may and who may no longer be tainted comes out. What must not live here: taints.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

/// A node with this label does not count when the state of its zone is found.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// Down to so many bad nodes a zone with a good one is in order, whatever the share.
const FEW: usize = 2;

/// The limits by zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time between the taints of two nodes of a zone; `--node-eviction-rate`.
    pub interval: Duration,
    /// The same in a large zone that is partly down; `--secondary-node-eviction-rate`.
    pub slow_interval: Duration,
    /// A zone of more nodes than this is large: a smaller one that is partly down gets no taints;
    /// `--large-cluster-size-threshold`.
    pub large_zone: usize,
    /// From this share of bad nodes on a zone is partly down, in percent; `--unhealthy-zone-threshold`.
    pub unhealthy_percent: usize,
}

impl Default for Limits {
    /// kube-controller-manager's: 0.1 and 0.01 nodes a second, 50 nodes, 55 %.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            slow_interval: Duration::from_secs(100),
            large_zone: 50,
            unhealthy_percent: 55,
        }
    }
}

/// Where a node is, by its labels of region and zone; both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    region: String,
    zone: String,
}

impl Zone {
    /// The zone of a node. The old names of the labels come first, as upstream has it.
    pub fn of(node: &Node) -> Self {
        let label = |names: [&str; 2]| {
            let values = names.iter().filter_map(|name| node.labels().get(*name));
            values.map(String::as_str).next().unwrap_or_default().to_owned()
        };
        Self {
            region: label([
                "failure-domain.beta.kubernetes.io/region",
                "topology.kubernetes.io/region",
            ]),
            zone: label(["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"]),
        }
    }
}

/// Whether a node counts for the state of its zone.
pub fn counts(node: &Node) -> bool {
    !node.labels().contains_key(EXCLUDED)
}

/// What a node's Ready condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// True.
    Good,
    /// False or Unknown.
    Bad,
    /// There is no such condition yet.
    Unstated,
}

/// How much of a zone is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well enough.
    Normal,
    /// Much of it is down.
    PartialDisruption,
    /// All of it is down.
    FullDisruption,
}

/// Whether a node may have the `NoExecute` taint that its Ready condition asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permission {
    /// It has not been looked at; what it has it keeps.
    #[default]
    Unsettled,
    /// It may not.
    Withheld,
    /// It may, and has not been seen with it.
    Granted,
    /// It may, and has been seen with it.
    Used,
}

/// What a look at a node shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLook<'a> {
    /// The node.
    pub name: &'a str,
    /// Where it is.
    pub zone: Zone,
    /// What its Ready condition says, or will say at this look.
    pub readiness: Readiness,
    /// Whether it counts for its zone.
    pub counts: bool,
    /// What it may have.
    pub permission: Permission,
    /// Whether it has such a taint.
    pub is_tainted: bool,
}

/// What follows from a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The nodes for which this changes, and what they may have now.
    pub permissions: Vec<(String, Permission)>,
    /// When the next of those that wait may be tainted; `None` when nobody waits or may.
    pub next: Option<Timestamp>,
    /// Whether the cluster came back from being wholly down: then every kubelet has its whole grace
    /// again, for nobody knows how long it could not be heard.
    pub came_back: bool,
}

/// What is remembered of the zones, and who waits in them.
#[derive(Debug, Default)]
pub struct Zones {
    known: BTreeMap<Zone, Known>,
}

#[derive(Debug)]
struct Known {
    /// As of the last look; `None` before the first.
    state: Option<State>,
    limiter: Limiter,
    /// Bad nodes without permission, in order of their names.
    waiting: Vec<String>,
}

impl Zones {
    /// Looks at every node of the cluster.
    pub fn look(&mut self, sights: &[NodeLook<'_>], now: Timestamp, limits: &Limits) -> Verdict {
        let (counts, present) = count(sights);
        self.known.retain(|zone, _| present.contains(&zone));
        for zone in present {
            self.known
                .entry(zone.clone())
                .or_insert_with(|| Known::new(now, limits));
        }
        let states: BTreeMap<&Zone, State> = counts
            .iter()
            .map(|(zone, (good, bad))| (*zone, state(*good, *bad, limits)))
            .collect();
        let down = |state: Option<State>| state == Some(State::FullDisruption);
        let all_are_down = states.values().all(|state| down(Some(*state)));
        let all_were_down = states
            .keys()
            .all(|zone| self.known.get(*zone).is_some_and(|known| down(known.state)));
        let goes_down = all_are_down && !all_were_down;
        let came_back = all_were_down && !all_are_down;
        for (zone, known) in &mut self.known {
            known.waiting.clear();
            let state = states.get(zone).copied();
            if goes_down {
                known.limiter.change(None, now);
            } else if let Some(state) =
                state.filter(|state| came_back || (!all_are_down && known.state != Some(*state)))
            {
                let (good, bad) = counts.get(zone).copied().unwrap_or_default();
                known.limiter.change(interval(state, good + bad, limits), now);
            }
            known.state = state.or(known.state);
        }
        let mut permissions = BTreeMap::new();
        for sight in sights {
            let permission = if goes_down { Permission::Withheld } else { after(sight) };
            if permission != sight.permission {
                permissions.insert(sight.name.to_owned(), permission);
            }
            if permission == Permission::Withheld
                && sight.readiness == Readiness::Bad
                && let Some(known) = self.known.get_mut(&sight.zone)
            {
                known.waiting.push(sight.name.to_owned());
            }
        }
        let granted = self.grant(now);
        permissions.extend(granted.permissions);
        Verdict {
            permissions: permissions.into_iter().collect(),
            next: granted.next,
            came_back,
        }
    }

    /// Gives those who wait what their zones allow by now.
    pub fn grant(&mut self, now: Timestamp) -> Verdict {
        let mut verdict = Verdict::default();
        for known in self.known.values_mut() {
            let mut allowed = 0;
            while allowed < known.waiting.len() && known.limiter.take(now) {
                allowed += 1;
            }
            let granted = known.waiting.drain(..allowed);
            verdict
                .permissions
                .extend(granted.map(|name| (name, Permission::Granted)));
            if !known.waiting.is_empty()
                && let Some(next) = known.limiter.next()
            {
                verdict.next = Some(verdict.next.map_or(next, |other: Timestamp| other.min(next)));
            }
        }
        verdict
    }
}

/// What a node may have before anybody who waits is given anything.
fn after(sight: &NodeLook<'_>) -> Permission {
    match (sight.permission, sight.readiness) {
        (Permission::Unsettled | Permission::Withheld, _) | (_, Readiness::Good) => Permission::Withheld,
        // Somebody took the taint away: it comes back, in its turn.
        (Permission::Used, Readiness::Bad) if !sight.is_tainted => Permission::Withheld,
        (permission, Readiness::Bad | Readiness::Unstated) => permission,
    }
}

type Counts<'a> = BTreeMap<&'a Zone, (usize, usize)>;

/// The good and bad nodes of each zone that has any that count, and every zone.
fn count<'a>(sights: &'a [NodeLook<'_>]) -> (Counts<'a>, std::collections::BTreeSet<&'a Zone>) {
    let mut counts = Counts::new();
    for sight in sights.iter().filter(|sight| sight.counts) {
        let (good, bad) = counts.entry(&sight.zone).or_default();
        match sight.readiness {
            Readiness::Good => *good += 1,
            Readiness::Bad | Readiness::Unstated => *bad += 1,
        }
    }
    (counts, sights.iter().map(|sight| &sight.zone).collect())
}

/// The state of a zone with so many good and bad nodes.
pub fn state(good: usize, bad: usize, limits: &Limits) -> State {
    if good == 0 && bad > 0 {
        State::FullDisruption
    } else if bad > FEW && bad * 100 >= limits.unhealthy_percent * (good + bad) {
        State::PartialDisruption
    } else {
        State::Normal
    }
}

/// The time between two taints in a zone of that state and size; `None` for no taints at all. A zone
/// that is wholly down while another is not has lost its machines: it goes on as if nothing were.
fn interval(state: State, size: usize, limits: &Limits) -> Option<SignedDuration> {
    let interval = match state {
        State::Normal | State::FullDisruption => limits.interval,
        State::PartialDisruption if size > limits.large_zone => limits.slow_interval,
        State::PartialDisruption => return None,
    };
    Some(SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX))
}

impl Known {
    fn new(now: Timestamp, limits: &Limits) -> Self {
        Self {
            state: None,
            limiter: Limiter {
                interval: interval(State::Normal, 0, limits),
                full_at: now,
            },
            waiting: Vec::new(),
        }
    }
}

/// A bucket for one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limiter {
    /// How long it takes to fill; `None`: for ever.
    interval: Option<SignedDuration>,
    full_at: Timestamp,
}

impl Limiter {
    fn next(self) -> Option<Timestamp> {
        self.interval.map(|_| self.full_at)
    }

    fn take(&mut self, now: Timestamp) -> bool {
        match self.interval {
            Some(interval) if now >= self.full_at => {
                self.full_at = now.saturating_add(interval).unwrap_or(Timestamp::MAX);
                true
            }
            _ => false,
        }
    }

    /// Another rate from now on. Who had no token has none: the new bucket begins empty.
    fn change(&mut self, interval: Option<SignedDuration>, now: Timestamp) {
        if self.interval == interval {
            return;
        }
        let was_full = self.take(now);
        *self = Self { interval, full_at: now };
        if !was_full {
            self.take(now);
        }
    }
}

#[cfg(test)]
mod tests;
