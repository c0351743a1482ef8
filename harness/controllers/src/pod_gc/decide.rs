//! The decision about one pod, and about which finished pods are too many.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::{Action, Plan};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its node is gone.
    NodeGone,
    /// Whether its node is gone has to be asked.
    NodeUnknown,
    /// It was deleted before it had a node.
    NeverScheduled,
    /// It is being deleted on a node that is not ready and has been declared out of service.
    OutOfService,
    /// There are too many finished pods.
    TooManyFinished,
}

/// What is known of a pod's node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host<'a> {
    /// The pod has none.
    None,
    /// It is there.
    Present(&'a Node),
    /// It is missing; whether for good is not known yet.
    Missing,
    /// The server says that there is none.
    Gone,
}

/// Why the pod is to be ended now, if it is.
pub(super) fn verdict(pod: &Pod, host: Host<'_>) -> Option<Reason> {
    let deleting = pod.metadata.deletion_timestamp.is_some();
    match host {
        Host::None => deleting.then_some(Reason::NeverScheduled),
        Host::Gone => Some(Reason::NodeGone),
        Host::Present(node) => (deleting && is_out_of_service(node)).then_some(Reason::OutOfService),
        Host::Missing => None,
    }
}

/// Ends a pod: marks it Failed if it has not finished, and deletes it without grace.
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

/// Whether a pod was evicted by its kubelet; those go first.
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
