//! The conditions that a Node shows: a healthy kubelet's, and those that were asked for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use runtime::time::time_text;
use serde_json::{Value, json};

use super::facts::NodeFacts;
use crate::model::NodeCondition;

/// A condition as a healthy kubelet reports it.
struct Usual {
    kind: &'static str,
    healthy: &'static str,
    reason: &'static str,
    message: &'static str,
    /// Reason and message of the other status.
    otherwise: (&'static str, &'static str),
}

const USUAL: [Usual; 4] = [
    Usual {
        kind: "MemoryPressure",
        healthy: "False",
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
        otherwise: (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        ),
    },
    Usual {
        kind: "DiskPressure",
        healthy: "False",
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
        otherwise: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    },
    Usual {
        kind: "PIDPressure",
        healthy: "False",
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
        otherwise: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    },
    Usual {
        kind: "Ready",
        healthy: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
        otherwise: ("KubeletNotReady", "container runtime is down"),
    },
];

/// Conditions of other programs, by which reason and message they come: the status that is bad, and
/// what is said then.
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

/// Why a kubelet is not ready by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// It registers.
    Starting,
    /// It recovers from a start or an outage.
    Recovering,
}

/// The conditions that a Node is to show; `None`: is not to show.
pub(super) type Wanted<'a> = BTreeMap<&'a str, Option<(&'a str, &'a str, &'a str)>>;

/// What is to be shown: the usual, less what was asked for.
pub(super) fn wanted(readiness: Readiness, asked: &BTreeMap<String, Option<NodeCondition>>) -> Wanted<'_> {
    let mut wanted: Wanted<'_> = USUAL
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
    for (kind, condition) in asked {
        match condition {
            Some(condition) => {
                let (reason, message) = said(kind, condition);
                wanted.insert(kind, Some((condition.status.as_str(), reason, message)));
            }
            None if wanted.contains_key(kind.as_str()) => {}
            None => {
                wanted.insert(kind, None);
            }
        }
    }
    wanted
}

/// Reason and message: what was asked for, or what goes with type and status.
fn said<'a>(kind: &'a str, condition: &'a NodeCondition) -> (&'a str, &'a str) {
    let usual = USUAL.iter().find(|usual| usual.kind == kind);
    let other = OTHERS
        .iter()
        .find(|(other, bad, ..)| *other == kind && *bad == condition.status);
    let (reason, message) = match (usual, other) {
        (Some(usual), _) if usual.healthy == condition.status => (usual.reason, usual.message),
        (Some(usual), _) => usual.otherwise,
        (None, Some((_, _, reason, message))) => (*reason, *message),
        (None, None) => ("SetOnDemand", "it was set on demand"),
    };
    let or = |text: &'a str, other: &'a str| if text.is_empty() { other } else { text };
    (or(&condition.reason, reason), or(&condition.message, message))
}

/// Whether a Node shows what is wanted.
pub(super) fn are_shown(wanted: &Wanted<'_>, known: &NodeFacts) -> bool {
    wanted.iter().all(|(kind, wanted)| {
        let shown = known.conditions.get(*kind).map(String::as_str);
        shown == wanted.map(|(status, ..)| status)
    })
}

/// The conditions of a strategic merge patch, as of `now` by the kubelet's clock. A transition time
/// is given only where the status differs from what is known.
pub(super) fn patch(wanted: &Wanted<'_>, known: &NodeFacts, now: Timestamp) -> Vec<Value> {
    let time = time_text(now);
    let conditions = wanted.iter().filter_map(|(kind, wanted)| {
        let shown = known.conditions.get(*kind);
        match wanted {
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

/// A patch of a Node's status without the times of its conditions: equal for two that say the same.
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

    fn asked(kind: &str, status: &str) -> BTreeMap<String, Option<NodeCondition>> {
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
    fn a_condition_that_is_asked_for_comes_with_its_usual_reason(
        #[case] kind: &str,
        #[case] status: &str,
        #[case] reason: &str,
    ) {
        let asked = asked(kind, status);
        let wanted = wanted(Readiness::Ready, &asked);
        let (shown, said, _) = wanted[kind].unwrap();
        assert_eq!((shown, said), (status, reason));
    }

    #[test]
    fn a_cleared_condition_of_a_kubelet_is_healthy_again_and_any_other_is_removed() {
        let asked = [("DiskPressure".to_owned(), None), ("KernelDeadlock".to_owned(), None)].into();
        let wanted = wanted(Readiness::Ready, &asked);
        assert_eq!(wanted["DiskPressure"].unwrap().0, "False");
        let shown = ["MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock"]
            .map(|kind| (kind.to_owned(), "False".to_owned()));
        let mut known = NodeFacts {
            conditions: shown.into(),
            ..NodeFacts::default()
        };
        known.conditions.insert("Ready".to_owned(), "True".to_owned());
        assert!(!are_shown(&wanted, &known));
        let patch = patch(&wanted, &known, Timestamp::UNIX_EPOCH);
        assert_eq!(patch.len(), 5);
        assert!(patch.contains(&json!({"type": "KernelDeadlock", "$patch": "delete"})));
        known.conditions.remove("KernelDeadlock");
        assert!(are_shown(&wanted, &known));
    }

    #[rstest]
    #[case(Readiness::Ready, "True")]
    #[case(Readiness::Starting, "False")]
    #[case(Readiness::Recovering, "False")]
    fn readiness_is_shown(#[case] readiness: Readiness, #[case] status: &str) {
        assert_eq!(wanted(readiness, &BTreeMap::new())["Ready"].unwrap().0, status);
    }
}
