//! The arithmetic of a budget. The rules are those of
//! <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How long an evicted pod may take to become terminating.
pub(super) const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// The expected numbers of pods and of healthy pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub pods: i32,
    pub healthy: i32,
}

/// The numbers that a budget requires. `scaled` is the sum of the scales of the pods' controllers.
pub(super) fn expected(budget: &PodDisruptionBudget, pods: usize, scaled: i32) -> Expected {
    let spec = budget.spec.as_ref();
    if let Some(unavailable) = spec.and_then(|spec| spec.max_unavailable.as_ref()) {
        let healthy = scaled.saturating_sub(share(unavailable, scaled)).max(0);
        return Expected { pods: scaled, healthy };
    }
    match spec.and_then(|spec| spec.min_available.as_ref()) {
        Some(IntOrString::Int(least)) => Expected {
            pods: i32::try_from(pods).unwrap_or(i32::MAX),
            healthy: *least,
        },
        Some(least) => Expected {
            pods: scaled,
            healthy: share(least, scaled),
        },
        None => Expected { pods: 0, healthy: 0 },
    }
}

/// Whether the budget depends on the scales of the pods' controllers.
pub(super) fn needs_scales(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

/// An absolute number, or a percentage of `whole`, rounded up.
fn share(value: &IntOrString, whole: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let share = percent
                .saturating_mul(i64::from(whole))
                .saturating_add(99)
                .div_euclid(100);
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

/// The pending evictions of a budget.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Evictions {
    /// Pending: the pod is neither gone nor terminating.
    pub under_way: BTreeMap<String, Time>,
    /// Expired: the pod was not deleted in time.
    pub failed: Vec<String>,
    /// When the next eviction expires.
    pub next: Option<Timestamp>,
}

/// Sorts the `disruptedPods` of a budget's status.
pub(super) fn evictions(budget: &PodDisruptionBudget, pods: &[&Arc<Pod>], now: Timestamp) -> Evictions {
    let remembered = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let mut evictions = Evictions::default();
    for (name, since) in remembered.into_iter().flatten() {
        let pod = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        if pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()) {
            continue;
        }
        let end = since.0.saturating_add(EVICTION_TIMEOUT).unwrap_or(Timestamp::MAX);
        if end < now {
            evictions.failed.push(name.clone());
            continue;
        }
        evictions.under_way.insert(name.clone(), since.clone());
        evictions.next = Some(evictions.next.map_or(end, |known| known.min(end)));
    }
    evictions
}

/// The number of healthy pods: ready, not terminating, not being evicted.
pub(super) fn healthy(pods: &[&Arc<Pod>], under_way: &BTreeMap<String, Time>) -> i32 {
    let healthy = pods.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.deletion_timestamp.is_none() && !under_way.contains_key(name) && is_ready(pod)
    });
    i32::try_from(healthy.count()).unwrap_or(i32::MAX)
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The desired status; `None` when it is already set.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    expected: Expected,
    healthy: i32,
    under_way: BTreeMap<String, Time>,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let room = healthy.saturating_sub(expected.healthy);
    let allowed = if expected.pods <= 0 { 0 } else { room.max(0) };
    let (status, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let old = budget.status.clone().unwrap_or_default();
    let new = PodDisruptionBudgetStatus {
        conditions: Some(with_condition(budget, &old, (status, reason, ""), now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(expected.healthy),
        disrupted_pods: (!under_way.is_empty()).then_some(under_way),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected.pods),
        observed_generation: budget.metadata.generation,
    };
    (new != old).then_some(new)
}

/// The status when the expected numbers cannot be computed: no evictions allowed.
pub(super) fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> Option<PodDisruptionBudgetStatus> {
    let old = budget.status.clone().unwrap_or_default();
    let new = PodDisruptionBudgetStatus {
        conditions: Some(with_condition(budget, &old, ("False", "SyncFailed", why), now)),
        disruptions_allowed: Some(0),
        ..old.clone()
    };
    (new != old).then_some(new)
}

fn with_condition(
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = old.conditions.clone().unwrap_or_default();
    let known = conditions
        .iter()
        .position(|condition| condition.type_ == "DisruptionAllowed");
    let since = known
        .map(|place| &conditions[place])
        .filter(|condition| condition.status == status)
        .map(|condition| condition.last_transition_time.clone());
    let condition = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since.unwrap_or(Time(now)),
        observed_generation: budget.metadata.generation,
    };
    match known {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
    conditions
}
