//! Removes `DisruptionTarget` conditions of pods that were not disrupted.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::{Action, Plan};

use super::Reason;

/// How long a `DisruptionTarget` condition stays valid.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// When the pod's `DisruptionTarget` condition becomes stale; `None` if it cannot.
pub(super) fn stale_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let condition = status
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == "DisruptionTarget")?;
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let by_kubelet = condition.reason.as_deref() == Some("TerminationByKubelet");
    if pod.metadata.deletion_timestamp.is_some() || finished || by_kubelet || condition.status != "True" {
        return None;
    }
    let since = condition.last_transition_time.as_ref()?.0;
    Some(since.saturating_add(TIMEOUT).unwrap_or(Timestamp::MAX))
}

/// Sets a stale condition to False.
pub(super) fn decide(pod: &Pod, now: Timestamp) -> Plan<Reason> {
    match stale_at(pod) {
        None => Plan::nothing(),
        Some(at) if at > now => Plan::wait_until(at),
        Some(_) => {
            let condition = json!({
                "type": "DisruptionTarget", "status": "False", "reason": null, "message": null,
                "lastTransitionTime": Time(now), "observedGeneration": pod.metadata.generation,
            });
            let status = json!({ "conditions": [condition] });
            Plan::act(Reason::NotDisrupted, Action::patch_status_as_seen(pod, status))
        }
    }
}
