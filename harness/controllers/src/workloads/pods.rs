//! Pod properties (phase, readiness, availability, restarts), and new pods from a template.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};

use super::meta::{self, Owner};

/// The phase; empty before it is set.
pub fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Whether the pod is finished (Succeeded or Failed).
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod is neither finished nor terminating.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !meta::is_deleting(&pod.metadata)
}

/// Whether the pod is terminating and not finished.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && meta::is_deleting(&pod.metadata)
}

/// The Ready condition.
pub fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether its Ready condition is True.
pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when it has been ready.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    ready_condition(pod)
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
}

/// When a ready pod becomes available: `min_ready_seconds` after it became ready.
pub fn available_from(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready_seconds <= 0 {
        return Some(Timestamp::MIN);
    }
    ready_since(pod).map(|since| meta::later(since, i64::from(min_ready_seconds)))
}

/// Whether it has been ready for `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_from(pod, min_ready_seconds).is_some_and(|from| from <= now)
}

/// The earliest time at which another of `pods` becomes available.
pub fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    pods.into_iter()
        .filter_map(|pod| available_from(pod, min_ready_seconds))
        .filter(|from| *from > now)
        .min()
}

/// The node of the pod.
pub fn node(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref()?;
    (!name.is_empty()).then_some(name)
}

/// The highest restart count of its containers.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref());
    statuses
        .unwrap_or_default()
        .iter()
        .map(|status| status.restart_count)
        .max()
        .unwrap_or_default()
}

/// A pod of `owner` from `template`; the API server generates the name from `prefix`.
pub fn from_template(template: &PodTemplateSpec, owner: &Owner, prefix: String) -> Pod {
    let described = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod {
        spec: template.spec.clone(),
        ..Pod::default()
    };
    pod.metadata.namespace = Some(owner.namespace.clone());
    pod.metadata.generate_name = Some(prefix);
    pod.metadata.labels = described.labels;
    pod.metadata.annotations = described.annotations;
    pod.metadata.finalizers = described.finalizers;
    pod.metadata.owner_references = Some(vec![owner.controller_reference()]);
    pod
}
