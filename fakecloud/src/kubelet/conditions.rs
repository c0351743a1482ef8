//! Conditions of a Node: those of a healthy kubelet, and those set on demand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use runtime::time::time_text;
use serde_json::{Value, json};

use super::facts::NodeFacts;
use crate::model::NodeCondition;

/// A condition of a healthy kubelet.
struct Usual {
    kind: &'static str,
    healthy: &'static str,
    reason: &'static str,
    message: &'static str,
    /// Reason and message of the opposite status.
    opposite: (&'static str, &'static str),
}

const USUAL: [Usual; 4] = [
    Usual {
        kind: "MemoryPressure",
        healthy: "False",
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
        opposite: (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        ),
    },
    Usual {
        kind: "DiskPressure",
        healthy: "False",
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
        opposite: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    },
    Usual {
        kind: "PIDPressure",
        healthy: "False",
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
        opposite: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    },
    Usual {
        kind: "Ready",
        healthy: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
        opposite: ("KubeletNotReady", "container runtime is down"),
    },
];

/// Reasons and messages of conditions of other programs: the bad status, and its text.
const OTHERS: [(&str, &str, &str, &str); 3] = [
    (
        "KernelDeadlock",
        "True",
        "TaskHung",
        "a kernel task is hung for more than 120 seconds",
    ),
    (
        "ReadonlyFilesystem",
        "True",
        "FilesystemIsReadOnly",
        "the filesystem was remounted read-only",
    ),
    (
        "NetworkUnavailable",
        "True",
        "NoRouteCreated",
        "no route was created for the node",
    ),
];

/// Why a kubelet is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// It is registering.
    Starting,
    /// It recovers from a start or outage.
    Recovering,
}

/// The conditions for a Node; `None`: the condition is removed.
pub(super) type DesiredConditions<'a> = BTreeMap<&'a str, Option<(&'a str, &'a str, &'a str)>>;

/// The conditions for a Node: the usual ones, overridden by those set on demand.
pub(super) fn desired(
    readiness: Readiness,
    on_demand: &BTreeMap<String, Option<NodeCondition>>,
) -> DesiredConditions<'_> {
    let mut desired: DesiredConditions<'_> = USUAL
        .iter()
        .map(|usual| {
            let shown = match (usual.kind, readiness) {
                ("Ready", Readiness::Starting) => ("False", "KubeletNotReady", "kubelet is starting"),
                ("Ready", Readiness::Recovering) => ("False", "KubeletNotReady", "PLEG is not healthy"),
                _ => (usual.healthy, usual.reason, usual.message),
            };
            (usual.kind, Some(shown))
        })
        .collect();
    for (kind, condition) in on_demand {
        match condition {
            Some(condition) => {
                let (reason, message) = reason_and_message(kind, condition);
                desired.insert(kind, Some((condition.status.as_str(), reason, message)));
            }
            None if desired.contains_key(kind.as_str()) => {}
            None => {
                desired.insert(kind, None);
            }
        }
    }
    desired
}

/// Reason and message of a condition: those that were set, or the defaults for type and status.
fn reason_and_message<'a>(kind: &'a str, condition: &'a NodeCondition) -> (&'a str, &'a str) {
    let usual = USUAL.iter().find(|usual| usual.kind == kind);
    let other = OTHERS
        .iter()
        .find(|(other, bad, ..)| *other == kind && *bad == condition.status);
    let (reason, message) = match (usual, other) {
        (Some(usual), _) if usual.healthy == condition.status => (usual.reason, usual.message),
        (Some(usual), _) => usual.opposite,
        (None, Some((_, _, reason, message))) => (*reason, *message),
        (None, None) => ("SetOnDemand", "it was set on demand"),
    };
    let or = |text: &'a str, other: &'a str| if text.is_empty() { other } else { text };
    (or(&condition.reason, reason), or(&condition.message, message))
}

/// Whether a Node has the desired conditions.
pub(super) fn are_current(desired: &DesiredConditions<'_>, known: &NodeFacts) -> bool {
    desired.iter().all(|(kind, desired)| {
        let shown = known.conditions.get(*kind).map(String::as_str);
        shown == desired.map(|(status, ..)| status)
    })
}

/// The conditions of a strategic merge patch at `now` by the kubelet's clock. A transition time is set only if the
/// status changes.
pub(super) fn patch(desired: &DesiredConditions<'_>, known: &NodeFacts, now: Timestamp) -> Vec<Value> {
    let time = time_text(now);
    let conditions = desired.iter().filter_map(|(kind, desired)| {
        let shown = known.conditions.get(*kind);
        match desired {
            Some((status, reason, message)) => {
                let mut condition = json!({
                    "type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": time,
                });
                if shown.is_none_or(|shown| shown != status) {
                    condition["lastTransitionTime"] = Value::String(time.clone());
                }
                Some(condition)
            }
            None => shown.map(|_| json!({"type": kind, "$patch": "delete"})),
        }
    });
    conditions.collect()
}

/// A patch of a Node's status without the times of its conditions, for comparison.
pub(super) fn without_times(patch: &Value) -> String {
    let mut patch = patch.clone();
    let conditions = patch["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.retain(|field, _| !field.ends_with("Time"));
    }
    patch.to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn on_demand(kind: &str, status: &str) -> BTreeMap<String, Option<NodeCondition>> {
        let condition = NodeCondition {
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
        };
        [(kind.to_owned(), Some(condition))].into()
    }

    #[rstest]
    #[case("MemoryPressure", "True", "KubeletHasInsufficientMemory")]
    #[case("DiskPressure", "True", "KubeletHasDiskPressure")]
    #[case("PIDPressure", "True", "KubeletHasInsufficientPID")]
    #[case("PIDPressure", "False", "KubeletHasSufficientPID")]
    #[case("Ready", "False", "KubeletNotReady")]
    #[case("NetworkUnavailable", "True", "NoRouteCreated")]
    #[case("KernelDeadlock", "True", "TaskHung")]
    #[case("ReadonlyFilesystem", "True", "FilesystemIsReadOnly")]
    #[case("MyOwn", "Unknown", "SetOnDemand")]
    fn a_condition_set_on_demand_has_its_usual_reason(#[case] kind: &str, #[case] status: &str, #[case] reason: &str) {
        let on_demand = on_demand(kind, status);
        let desired = desired(Readiness::Ready, &on_demand);
        let (shown, reason_and_message, _) = desired[kind].unwrap();
        assert_eq!((shown, reason_and_message), (status, reason));
    }

    #[test]
    fn a_cleared_condition_of_a_kubelet_becomes_healthy_and_any_other_is_removed() {
        let on_demand = [("DiskPressure".to_owned(), None), ("KernelDeadlock".to_owned(), None)].into();
        let desired = desired(Readiness::Ready, &on_demand);
        assert_eq!(desired["DiskPressure"].unwrap().0, "False");
        let shown = ["MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock"]
            .map(|kind| (kind.to_owned(), "False".to_owned()));
        let mut known = NodeFacts {
            conditions: shown.into(),
            ..NodeFacts::default()
        };
        known.conditions.insert("Ready".to_owned(), "True".to_owned());
        assert!(!are_current(&desired, &known));
        let patch = patch(&desired, &known, Timestamp::UNIX_EPOCH);
        assert_eq!(patch.len(), 5);
        assert!(patch.contains(&json!({"type": "KernelDeadlock", "$patch": "delete"})));
        known.conditions.remove("KernelDeadlock");
        assert!(are_current(&desired, &known));
    }

    #[rstest]
    #[case(Readiness::Ready, "True")]
    #[case(Readiness::Starting, "False")]
    #[case(Readiness::Recovering, "False")]
    fn readiness_is_shown(#[case] readiness: Readiness, #[case] status: &str) {
        assert_eq!(desired(readiness, &BTreeMap::new())["Ready"].unwrap().0, status);
    }
}
