//! The rate at which unhealthy nodes get `NoExecute` taints, by zone, with the states and rates of
//! kube-controller-manager's node lifecycle controller
//! (<https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction>).
//!
//! In a partly disrupted zone nodes are tainted slowly, or not at all if the zone is small. When every zone is
//! down, the controller assumes that the control plane is cut off, and taints no node. Pure: the reports of a
//! monitor round in, granted and withdrawn permissions out. Taints themselves belong to `taints`.

use quantity::Saturating as _;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

/// A node with this label does not count for the state of its zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// With at most this many unhealthy nodes, a zone that has a healthy node is normal, whatever the share.
const FEW: usize = 2;

/// The limits by zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The interval between the taints of two nodes of a zone; `--node-eviction-rate`.
    pub interval: Duration,
    /// The interval in a large, partly disrupted zone; `--secondary-node-eviction-rate`.
    pub slow_interval: Duration,
    /// A zone with more nodes is large; no node of a smaller, partly disrupted zone is tainted;
    /// `--large-cluster-size-threshold`.
    pub large_zone: usize,
    /// The percentage of unhealthy nodes from which a zone is partly disrupted; `--unhealthy-zone-threshold`.
    pub unhealthy_percent: usize,
}

impl Default for Limits {
    /// kube-controller-manager's defaults: 0.1 and 0.01 nodes a second, 50 nodes, 55 %.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            slow_interval: Duration::from_secs(100),
            large_zone: 50,
            unhealthy_percent: 55,
        }
    }
}

/// The region and zone labels of a node; both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    region: String,
    zone: String,
}

impl Zone {
    /// The zone of a node. The deprecated labels take precedence, as upstream.
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

/// The value of a node's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// True.
    Good,
    /// False or Unknown.
    Bad,
    /// The condition is missing.
    Unstated,
}

/// The disruption state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fewer nodes than the threshold are unhealthy.
    Normal,
    /// At least the threshold of nodes is unhealthy.
    PartialDisruption,
    /// All nodes are unhealthy.
    FullDisruption,
}

/// Whether a node may have the `NoExecute` taint of its Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permission {
    /// No monitor round has decided yet; existing taints stay.
    #[default]
    Unsettled,
    /// The taint is not permitted.
    Withheld,
    /// The taint is permitted, and has not been observed on the node.
    Granted,
    /// The taint is permitted, and has been observed on the node.
    Used,
}

/// The health of a node in a monitor round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its zone.
    pub zone: Zone,
    /// The value of its Ready condition now, or after this round's write.
    pub readiness: Readiness,
    /// Whether it counts for its zone.
    pub counts: bool,
    /// Its current permission.
    pub permission: Permission,
    /// Whether it has a `NoExecute` taint of this controller.
    pub is_tainted: bool,
}

/// The result of a monitor round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The nodes whose permission changes, with the new permission.
    pub permissions: Vec<(String, Permission)>,
    /// When the next waiting node may be tainted; `None` when no node waits or none may be tainted.
    pub next: Option<Timestamp>,
    /// Whether the cluster recovered from a full disruption. Every grace period then restarts, because silence
    /// during the disruption proves nothing.
    pub recovered: bool,
}

/// The state of the zones, and their waiting nodes.
#[derive(Debug, Default)]
pub struct Zones {
    known: BTreeMap<Zone, Known>,
}

#[derive(Debug)]
struct Known {
    /// As of the last round; `None` before the first.
    state: Option<State>,
    limiter: Limiter,
    /// Unhealthy nodes without permission, ordered by name.
    waiting: Vec<String>,
}

impl Zones {
    /// Evaluates all nodes of the cluster.
    pub fn look(&mut self, reports: &[NodeReport<'_>], now: Timestamp, limits: &Limits) -> Verdict {
        let (counts, present) = count(reports);
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
        let recovered = all_were_down && !all_are_down;
        for (zone, known) in &mut self.known {
            known.waiting.clear();
            let state = states.get(zone).copied();
            if goes_down {
                known.limiter.change(None, now);
            } else if let Some(state) =
                state.filter(|state| recovered || (!all_are_down && known.state != Some(*state)))
            {
                let (good, bad) = counts.get(zone).copied().unwrap_or_default();
                known
                    .limiter
                    .change(interval(state, good.saturating_add(bad), limits), now);
            }
            known.state = state.or(known.state);
        }
        let mut permissions = BTreeMap::new();
        for report in reports {
            let permission = if goes_down { Permission::Withheld } else { after(report) };
            if permission != report.permission {
                permissions.insert(report.name.to_owned(), permission);
            }
            if permission == Permission::Withheld
                && report.readiness == Readiness::Bad
                && let Some(known) = self.known.get_mut(&report.zone)
            {
                known.waiting.push(report.name.to_owned());
            }
        }
        let granted = self.grant(now);
        permissions.extend(granted.permissions);
        Verdict {
            permissions: permissions.into_iter().collect(),
            next: granted.next,
            recovered,
        }
    }

    /// Grants permissions to waiting nodes, up to the rates of their zones.
    pub fn grant(&mut self, now: Timestamp) -> Verdict {
        let mut verdict = Verdict::default();
        for known in self.known.values_mut() {
            let mut allowed = 0;
            while allowed < known.waiting.len() && known.limiter.take(now) {
                allowed.raise(1);
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

/// The permission of a node before this round grants any.
fn after(report: &NodeReport<'_>) -> Permission {
    match (report.permission, report.readiness) {
        (Permission::Unsettled | Permission::Withheld, _) | (_, Readiness::Good) => Permission::Withheld,
        // Someone removed the taint: the node queues for it again.
        (Permission::Used, Readiness::Bad) if !report.is_tainted => Permission::Withheld,
        (permission, Readiness::Bad | Readiness::Unstated) => permission,
    }
}

type Counts<'a> = BTreeMap<&'a Zone, (usize, usize)>;

/// The healthy and unhealthy nodes of each zone that has counted nodes, and all zones.
fn count<'a>(reports: &'a [NodeReport<'_>]) -> (Counts<'a>, std::collections::BTreeSet<&'a Zone>) {
    let mut counts = Counts::new();
    for report in reports.iter().filter(|report| report.counts) {
        let (good, bad) = counts.entry(&report.zone).or_default();
        match report.readiness {
            Readiness::Good => good.raise(1),
            Readiness::Bad | Readiness::Unstated => bad.raise(1),
        }
    }
    (counts, reports.iter().map(|report| &report.zone).collect())
}

/// The state of a zone with these numbers of healthy and unhealthy nodes.
pub fn state(good: usize, bad: usize, limits: &Limits) -> State {
    if good == 0 && bad > 0 {
        State::FullDisruption
    } else if bad > FEW && bad.saturating_mul(100) >= limits.unhealthy_percent.saturating_mul(good.saturating_add(bad))
    {
        State::PartialDisruption
    } else {
        State::Normal
    }
}

/// The interval between two taints in a zone of this state and size; `None` for no taints. A zone that is fully
/// disrupted while another is not has lost its machines, so it is tainted at the normal rate.
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

/// A token bucket with one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limiter {
    /// The time to refill; `None`: never.
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

    /// Changes the rate. A limiter without a token stays without one: the new bucket starts empty.
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
