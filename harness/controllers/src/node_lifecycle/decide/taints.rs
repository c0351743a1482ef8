//! Which taints a node's conditions and its `unschedulable` ask for.
//!
//! Only taints of these keys and effects are added or removed; all others are somebody else's.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::observe::ready_condition;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that are bad when True, and their taint's key.
const PROBLEMS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// The node's taints as they should be, or `None` when they are. A taint that stays keeps its time.
pub(super) fn wanted(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let present = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let asked = asked_for(node);
    let is_asked = |taint: &Taint| {
        asked
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect)
    };
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !is_ours(taint, node) || is_asked(taint))
        .cloned()
        .collect();
    for (key, effect) in &asked {
        if !taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            taints.push(Taint {
                key: (*key).to_owned(),
                effect: (*effect).to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    (taints != present).then_some(taints)
}

fn asked_for(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut asked = Vec::new();
    match ready_condition(node).map(|ready| ready.status.as_str()) {
        Some("False") => asked.extend([(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)]),
        Some("Unknown") => asked.extend([(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)]),
        _ => {}
    }
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    for (kind, key) in PROBLEMS {
        if conditions
            .iter()
            .any(|condition| condition.type_ == kind && condition.status == "True")
        {
            asked.push((key, NO_SCHEDULE));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        asked.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    asked
}

/// Whether the taint is one that this controller takes away. Admission gives a new node a `not-ready`
/// taint; as long as there is no Ready condition nothing is known that would lift it.
fn is_ours(taint: &Taint, node: &Node) -> bool {
    let about_readiness = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
    let about_problems = taint.key == UNSCHEDULABLE || PROBLEMS.iter().any(|(_, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => about_problems || (about_readiness && ready_condition(node).is_some()),
        NO_EXECUTE => about_readiness && ready_condition(node).is_some(),
        _ => false,
    }
}
