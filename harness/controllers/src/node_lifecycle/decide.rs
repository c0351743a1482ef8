//! The decision about one node: pure, `(view, now, settings) -> plan`.
//!
//! A plan never builds on its own decisions: what follows from a condition that is written now is
//! decided when it is seen written.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::{NEVER_POSTED, NodeView, READY, ready_condition};
use super::zones::Readiness;
use super::{Settings, taints};

const STOPPED_POSTING: &str = "NodeStatusUnknown";

/// The conditions that a kubelet reports and that nobody vouches for once it is silent.
const KUBELET_CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What to do about a node now, and when to look at it again without being told of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do, in order.
    pub decisions: Vec<Decision>,
    /// When silence will have lasted too long; `None` when nothing but a change matters.
    pub deadline: Option<Timestamp>,
}

/// One thing to do about a node; each is idempotent.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Write these conditions, and leave the others as they are.
    SetConditions {
        /// The conditions that change.
        conditions: Vec<NodeCondition>,
        /// Why they do.
        silence: Silence,
    },
    /// Replace the node's taints by these.
    SetTaints(Vec<Taint>),
    /// Set Ready=False on every pod of the node.
    MarkPodsNotReady {
        /// When the node's Ready turned Unknown.
        since: Timestamp,
    },
}

/// How a kubelet is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It posted a status once, and none within the grace period.
    StoppedPosting,
    /// It has never posted one.
    NeverPosted,
}

/// Decides about one node. `now` is the moment of a look ([`super::Settings::monitor_period`]) or of a change.
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
    // A machine that starves its processes of CPU also starves kubelets, whose signs of life are then late.
    let grace = grace + settings.lost_time.since(view.last_sign);
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    view.last_sign.saturating_add(grace).unwrap_or(Timestamp::MAX)
}

/// What the node's Ready condition says once what [`decide`] decides now is written.
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

/// The kubelet's conditions turned Unknown, as far as they are not yet.
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

/// Since when Ready is Unknown. A node whose Ready is False has a kubelet that speaks for its pods.
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
