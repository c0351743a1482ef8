//! The pure decision about one node: `(view, now, settings) -> plan`.
//!
//! A plan never builds on its own decisions: the consequences of a condition are decided after the condition is
//! observed as written.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::{NEVER_POSTED, NodeView, READY, ready_condition};
use super::zones::Readiness;
use super::{Settings, taints};

const STOPPED_POSTING: &str = "NodeStatusUnknown";

/// The conditions that turn Unknown when the kubelet is silent.
const KUBELET_CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The decisions about a node, and the time of the next decision without a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The decisions, in order.
    pub decisions: Vec<Decision>,
    /// When the kubelet will have been silent for too long; `None` when only a change matters.
    pub deadline: Option<Timestamp>,
}

/// One decision about a node; each is idempotent.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Write these conditions and keep the others.
    SetConditions {
        /// The changed conditions.
        conditions: Vec<NodeCondition>,
        /// The reason.
        silence: Silence,
    },
    /// Replace the node's taints.
    SetTaints(Vec<Taint>),
    /// Set Ready=False on every pod of the node.
    MarkPodsNotReady {
        /// When the node's Ready condition turned Unknown.
        since: Timestamp,
    },
}

/// The kind of a kubelet's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The kubelet has posted a status before, but not within the grace period.
    StoppedPosting,
    /// The kubelet has never posted a status.
    NeverPosted,
}

/// Decides about one node. `now` is the time of a monitor round ([`super::Settings::monitor_period`]) or of a
/// change.
pub fn decide(view: &NodeView<'_>, now: Timestamp, settings: &Settings) -> Plan {
    let deadline = deadline(view, settings);
    let silent = now >= deadline;

    let mut decisions = Vec::new();
    if silent {
        decisions.extend(unknown_conditions(view, now));
    }
    if let Some(taints) = taints::wanted(view.node, view.permission, now) {
        decisions.push(Decision::SetTaints(taints));
    }
    if let Some(since) = unknown_since(view.node)
        && view.pods_marked_for != Some(since)
    {
        decisions.push(Decision::MarkPodsNotReady { since });
    }
    Plan {
        decisions,
        deadline: (!silent).then_some(deadline),
    }
}

/// When the node's kubelet will have been silent for too long.
fn deadline(view: &NodeView<'_>, settings: &Settings) -> Timestamp {
    let grace = if view.posted {
        settings.grace
    } else {
        settings.startup_grace
    };
    // A host that starves this process of CPU also starves kubelets, whose signs of life are then late.
    let grace = grace.saturating_add(settings.lost_time.since(view.last_sign));
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    view.last_sign.saturating_add(grace).unwrap_or(Timestamp::MAX)
}

/// The value of the node's Ready condition after the writes that [`decide`] returns for `now`.
pub fn readiness(view: &NodeView<'_>, now: Timestamp, settings: &Settings) -> Readiness {
    if now >= deadline(view, settings) {
        return Readiness::Bad;
    }
    match ready_condition(view.node).map(|ready| ready.status.as_str()) {
        Some("True") => Readiness::Good,
        Some("False" | "Unknown") => Readiness::Bad,
        _ => Readiness::Unstated,
    }
}

/// The kubelet's conditions that are not Unknown yet, as Unknown.
fn unknown_conditions(view: &NodeView<'_>, now: Timestamp) -> Option<Decision> {
    let present = view
        .node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let conditions: Vec<_> = KUBELET_CONDITIONS
        .into_iter()
        .filter_map(|kind| match present.iter().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status == "Unknown" => None,
            Some(condition) => Some(NodeCondition {
                last_heartbeat_time: condition.last_heartbeat_time.clone(),
                ..unknown(kind, STOPPED_POSTING, "Kubelet stopped posting node status.", now)
            }),
            None => Some(NodeCondition {
                last_heartbeat_time: view.node.metadata.creation_timestamp.clone(),
                ..unknown(kind, NEVER_POSTED, "Kubelet never posted node status.", now)
            }),
        })
        .collect();
    let silence = if view.posted {
        Silence::StoppedPosting
    } else {
        Silence::NeverPosted
    };
    (!conditions.is_empty()).then_some(Decision::SetConditions { conditions, silence })
}

fn unknown(kind: &str, reason: &str, message: &str, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: kind.to_owned(),
        status: "Unknown".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        last_heartbeat_time: None,
    }
}

/// Since when Ready is Unknown. If Ready is False, the kubelet is alive and reports on its pods itself.
fn unknown_since(node: &Node) -> Option<Timestamp> {
    let ready = ready_condition(node).filter(|ready| ready.status == "Unknown")?;
    Some(
        ready
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

#[cfg(test)]
mod tests;
