//! The deletion order of surplus pods, as upstream.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{meta, pods};

/// The annotation with a pod's deletion cost.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts `pods` so that the first is deleted first.
///
/// `neighbours` is the number of active pods of the same workload per node. Ages are compared as powers of two,
/// so that within a bucket neither the youngest nor the oldest is preferred; the uid breaks ties.
pub fn sort_for_deletion(pods: &mut [Arc<Pod>], neighbours: &BTreeMap<String, usize>, now: Timestamp) {
    pods.sort_by(|one, other| first_to_go(one, other, neighbours, now));
}

fn first_to_go(one: &Pod, other: &Pod, neighbours: &BTreeMap<String, usize>, now: Timestamp) -> Ordering {
    let by = |key: &dyn Fn(&Pod) -> i64| key(one).cmp(&key(other));
    by(&|pod| i64::from(pods::node(pod).is_some()))
        .then_with(|| by(&phase_rank))
        .then_with(|| by(&|pod| i64::from(pods::is_ready(pod))))
        .then_with(|| by(&deletion_cost))
        .then_with(|| {
            let pods_on_node = |pod: &Pod| pods::node(pod).and_then(|node| neighbours.get(node)).copied();
            Reverse(pods_on_node(one)).cmp(&Reverse(pods_on_node(other)))
        })
        .then_with(|| by(&|pod| age_bucket(pods::ready_since(pod), now)))
        .then_with(|| by(&|pod| i64::from(pods::restarts(pod)).saturating_neg()))
        .then_with(|| by(&|pod| age_bucket(Some(meta::created(&pod.metadata)), now)))
        .then_with(|| meta::uid(&one.metadata).cmp(meta::uid(&other.metadata)))
        .then_with(|| meta::name(&one.metadata).cmp(meta::name(&other.metadata)))
}

fn phase_rank(pod: &Pod) -> i64 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i64 {
    meta::number(&pod.metadata, DELETION_COST).unwrap_or_default()
}

/// The logarithm of the time since `from`; the lowest value if it is not in the past.
fn age_bucket(from: Option<Timestamp>, now: Timestamp) -> i64 {
    from.map(|from| now.duration_since(from).as_nanos())
        .and_then(|age| u128::try_from(age).ok())
        .and_then(u128::checked_ilog2)
        .map_or(-1, i64::from)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, change: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": { "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": "n", "containers": [] },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z" }],
                "containerStatuses": [
                    { "name": "c", "restartCount": 0, "ready": true, "image": "i", "imageID": "" }
                ],
            },
        });
        json_patch::merge(&mut pod, change);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// By name, pod `a` is deleted last; `b` is deleted first for the reason of the case.
    #[rstest]
    #[case::unassigned(json!({ "spec": { "nodeName": null } }))]
    #[case::pending(json!({ "status": { "phase": "Pending" } }))]
    #[case::not_ready(json!({ "status": { "conditions": [] } }))]
    #[case::cheaper(json!({ "metadata": { "annotations": { "controller.kubernetes.io/pod-deletion-cost": "-5" } } }))]
    #[case::doubled_up(json!({ "spec": { "nodeName": "crowded" } }))]
    #[case::ready_for_a_shorter_time(json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:59:00Z" }
    ] } }))]
    #[case::more_restarts(json!({ "status": { "containerStatuses": [
        { "name": "c", "restartCount": 3, "ready": true, "image": "i", "imageID": "" }
    ] } }))]
    #[case::younger(json!({ "metadata": { "creationTimestamp": "2026-01-01T00:59:00Z" } }))]
    fn goes_first(#[case] change: Value) {
        let mut both = vec![pod("a", &json!({})), pod("b", &change)];
        let neighbours = BTreeMap::from([("n".to_owned(), 1), ("crowded".to_owned(), 2)]);
        sort_for_deletion(&mut both, &neighbours, "2026-01-01T01:00:00Z".parse().unwrap());
        assert_eq!(both[0].metadata.name.as_deref(), Some("b"));
    }
}
