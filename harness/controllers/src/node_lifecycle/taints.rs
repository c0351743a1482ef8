//! The taints that follow from a node's conditions and from `spec.unschedulable`.
//!
//! The controller adds and removes only taints of these keys and effects; it ignores all other taints.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::ready_condition;
use super::zones::Permission;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that are bad when True, with the key of their taint.
const PROBLEMS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// Whether the node has a `NoExecute` taint of this controller.
pub fn has_eviction_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints
        .unwrap_or_default()
        .iter()
        .any(|taint| taint.effect == NO_EXECUTE && is_about_readiness(taint))
}

fn is_about_readiness(taint: &Taint) -> bool {
    [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
}

/// The desired taints of the node, or `None` when they are already set. A taint that stays keeps its
/// `timeAdded`.
pub(super) fn wanted(node: &Node, permission: Permission, now: Timestamp) -> Option<Vec<Taint>> {
    let present = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let required = required_taints(node, permission);
    let is_required = |taint: &Taint| {
        required
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect)
    };
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !is_managed_taint(taint, node, permission) || is_required(taint))
        .cloned()
        .collect();
    for (key, effect) in &required {
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

fn required_taints(node: &Node, permission: Permission) -> Vec<(&'static str, &'static str)> {
    let mut required = Vec::new();
    let key = match ready_condition(node).map(|ready| ready.status.as_str()) {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    if let Some(key) = key {
        required.push((key, NO_SCHEDULE));
        if matches!(permission, Permission::Granted | Permission::Used) {
            required.push((key, NO_EXECUTE));
        }
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
            required.push((key, NO_SCHEDULE));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        required.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    required
}

/// Whether this controller may remove the taint. The zone decides about `NoExecute` taints; they stay on a node
/// that has lost its Ready condition.
fn is_managed_taint(taint: &Taint, node: &Node, permission: Permission) -> bool {
    let about_problems = taint.key == UNSCHEDULABLE || PROBLEMS.iter().any(|(_, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => about_problems || is_about_readiness(taint),
        NO_EXECUTE if is_about_readiness(taint) => match permission {
            Permission::Unsettled => false,
            Permission::Withheld => true,
            Permission::Granted | Permission::Used => ready_condition(node).is_some(),
        },
        _ => false,
    }
}
