//! The decision about one pod, and the choice of surplus finished pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::{Action, Plan};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its node does not exist.
    NodeGone,
    /// The API server must be asked whether its node exists.
    NodeUnknown,
    /// It was deleted before it was scheduled.
    NeverScheduled,
    /// It is terminating on a node that is not ready and is marked out of service.
    OutOfService,
    /// There are more finished pods than the threshold.
    TooManyFinished,
}

/// The state of a pod's node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host<'a> {
    /// The pod has no node.
    None,
    /// The node exists.
    Present(&'a Node),
    /// The node is missing; its absence is not confirmed.
    Missing,
    /// The API server confirms that the node does not exist.
    Gone,
}

/// Why the pod must be deleted now; `None` if it must not.
pub(super) fn verdict(pod: &Pod, host: Host<'_>) -> Option<Reason> {
    let deleting = pod.metadata.deletion_timestamp.is_some();
    match host {
        Host::None => deleting.then_some(Reason::NeverScheduled),
        Host::Gone => Some(Reason::NodeGone),
        Host::Present(node) => (deleting && is_out_of_service(node)).then_some(Reason::OutOfService),
        Host::Missing => None,
    }
}

/// Marks the pod Failed if it has not finished, and deletes it without a grace period.
pub(super) fn end(pod: &Pod, reason: Reason, now: Timestamp) -> Plan<Reason> {
    let mut plan = Plan::nothing();
    if !is_finished(pod) && reason != Reason::TooManyFinished {
        let mut status = json!({ "phase": "Failed", "observedGeneration": pod.metadata.generation });
        if reason == Reason::NodeGone {
            status["conditions"] = json!([disruption(pod, now)]);
        }
        plan.push(reason, Action::patch_status(pod, status));
    }
    plan.push(reason, Action::delete_now(pod));
    plan
}

fn disruption(pod: &Pod, now: Timestamp) -> Value {
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists", "lastTransitionTime": Time(now),
        "observedGeneration": pod.metadata.generation,
    })
}

pub(super) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the kubelet evicted the pod; these are deleted first.
pub(super) fn is_evicted(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status
        .is_some_and(|status| status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("Evicted"))
}

fn is_out_of_service(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let ready = conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    !ready
        && taints
            .unwrap_or_default()
            .iter()
            .any(|taint| taint.key == OUT_OF_SERVICE)
}
