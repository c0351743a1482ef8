//! The conditions and events of unschedulable pods and of preemption victims.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::place::Diagnosis;
use super::preempt::{NoPreemption, PREEMPTED, Preemption};
use crate::foundation::{Action, Severity};

/// kube-scheduler 1.36 appends this when no node was evaluated: the text of its empty list of preemption
/// candidates.
const NO_CANDIDATES: &str = " not found";
/// kube-scheduler's text about dynamic resources, before the preemption part.
const NO_CLAIMS: &str = " no new claims to deallocate, preemption: ";
const GAVE_WAY: &str = "default-scheduler: preempting to accommodate a higher priority pod";

/// The complete message: why no node fits, and why preemption does not help.
pub fn message(diagnosis: &Diagnosis, preemption: &Result<Preemption, NoPreemption>) -> String {
    let why = diagnosis.message();
    match preemption {
        Ok(_) => why,
        Err(_) if diagnosis.nodes == 0 => why,
        Err(_) if diagnosis.everywhere.is_some() => format!("{why}{NO_CANDIDATES}"),
        Err(text) => format!("{why}{NO_CLAIMS}{text}"),
    }
}

/// Writes the condition of an unschedulable pod and its nominated node; `None` if already written.
pub fn unschedulable(pod: &Pod, message: &str, nominated: Option<&str>, now: Timestamp) -> Option<Action> {
    let status = pod.status.as_ref();
    let known = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "PodScheduled");
    let known_node = status
        .and_then(|status| status.nominated_node_name.as_deref())
        .unwrap_or_default();
    let same = known.is_some_and(|condition| {
        condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
            && condition.message.as_deref() == Some(message)
    });
    let same_node = nominated.is_none_or(|node| node == known_node);
    if same && same_node {
        return None;
    }
    let since = known
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or(Time(now));
    let mut patch = json!({ "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
    }] });
    if let Some(node) = nominated {
        patch["nominatedNodeName"] = json!(node);
    }
    Some(Action::patch_status_as_seen(pod, patch))
}

/// Evicts a victim: writes its condition, deletes it with its grace period, and emits an event.
pub fn evict_victim(victim: &Pod, preemptor: &Pod, node: &str, now: Timestamp) -> Vec<Action> {
    if victim.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let condition: Value = json!({
        "type": "DisruptionTarget", "status": "True", "reason": PREEMPTED, "message": GAVE_WAY,
        "lastTransitionTime": Time(now), "observedGeneration": victim.metadata.generation,
    });
    let by = preemptor.metadata.uid.as_deref().unwrap_or_default();
    vec![
        Action::patch_status(victim, json!({ "conditions": [condition] })),
        Action::delete(victim),
        Action::event(
            victim,
            Severity::Normal,
            "Preempted",
            format!("Preempted by pod {by} on node {node}"),
        ),
    ]
}

/// Clears a pod's nominated node.
pub fn clear_nomination(pod: &Pod) -> Action {
    Action::patch_status(pod, json!({ "nominatedNodeName": null }))
}
