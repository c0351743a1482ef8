//! The health of one machine at one moment.
//!
//! All conditions are evaluated, so that a timeout that is about to end does not hide one that has ended. A condition that
//! an object does not have is not unhealthy: a new node reports its conditions one after the other.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{GoDuration, Machine, Phase, keys};

use super::policy::{MachineRule, NodeRule, Policy};
use super::view::{Connection, NodeState, Settings, Target};
use crate::remediation::must_remediate;

/// `NodeDeleted`.
pub(super) const NODE_DELETED: &str = "NodeDeleted";
/// `NodeStartupTimeout`.
pub(super) const NODE_STARTUP_TIMEOUT: &str = "NodeStartupTimeout";
/// `UnhealthyNode`.
pub(super) const UNHEALTHY_NODE: &str = "UnhealthyNode";
/// `UnhealthyMachine`.
pub(super) const UNHEALTHY_MACHINE: &str = "UnhealthyMachine";
/// `HasRemediateAnnotation`.
pub(super) const HAS_REMEDIATE_ANNOTATION: &str = "HasRemediateAnnotation";
/// The reasons of failed checks.
pub(super) const REASONS: [&str; 5] = [
    NODE_DELETED,
    NODE_STARTUP_TIMEOUT,
    UNHEALTHY_NODE,
    UNHEALTHY_MACHINE,
    HAS_REMEDIATE_ANNOTATION,
];
/// The start of the message of a failed check, as in Cluster API.
const HEADING: &str = "Health check failed:";

/// The health of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is healthy.
    Healthy,
    /// A timeout runs. It counts as not healthy, and nothing is requested for it.
    Pending {
        /// When it must be evaluated again; `None`: after a change.
        next: Option<Timestamp>,
        /// Since when it has been in this state; `None`: unknown.
        since: Option<Timestamp>,
        /// What it waits for.
        message: String,
    },
    /// It is unhealthy.
    Unhealthy {
        /// The reason of the condition.
        reason: &'static str,
        /// Since when it has been in this state; `None`: unknown.
        since: Option<Timestamp>,
        /// All failed rules.
        message: String,
    },
    /// It is being deleted, or nothing is known about it. It counts as not healthy.
    NotCounted,
}

impl Health {
    /// When the machine must be evaluated again.
    pub fn next(&self) -> Option<Timestamp> {
        match self {
            Self::Pending { next, .. } => *next,
            _ => None,
        }
    }
}

/// The context of the evaluation of one machine.
struct Evaluation<'a> {
    machine: &'a Machine,
    now: Timestamp,
    /// The earliest time at which a timeout may begin, after an outage.
    earliest: Option<Timestamp>,
    found: Found,
}

/// What the rules say so far.
#[derive(Default)]
struct Found {
    failed: Vec<(&'static str, Option<Timestamp>, String)>,
    waiting: Vec<(Timestamp, Timestamp, String)>,
}

/// The health of the machine at `now`.
pub fn evaluate(
    target: &Target,
    policy: &Policy,
    connection: Connection,
    settings: &Settings,
    now: Timestamp,
) -> Health {
    let machine = &*target.machine;
    if machine.metadata.deletion_timestamp.is_some() && !defect!(DyingMachinesAreMarked) {
        return Health::NotCounted;
    }
    if must_remediate(&machine.metadata) {
        return Health::Unhealthy {
            reason: HAS_REMEDIATE_ANNOTATION,
            since: None,
            message: format!("{HEADING}\n  * an annotation requests the remediation"),
        };
    }
    let node = match &target.node {
        NodeState::Present(node) => Some(&**node),
        NodeState::Absent | NodeState::NotObserved => None,
        NodeState::Unreadable(why) => {
            return Health::Pending {
                next: Some(later(now, settings.request_period)),
                since: None,
                message: format!("its Node cannot be read: {why}"),
            };
        }
    };
    if is_updated_in_place(machine, node) {
        return Health::Pending {
            next: None,
            since: None,
            message: "the machine is updated in place".to_owned(),
        };
    }
    let mut evaluation = Evaluation {
        machine,
        now,
        earliest: earliest(connection, settings),
        found: Found::default(),
    };
    evaluation.machine_rules(policy);
    match node {
        Some(node) => evaluation.node_rules(node, policy),
        None if target.node == NodeState::NotObserved => return evaluation.result(None, policy, Health::Healthy),
        None if is_node_observed(machine) => evaluation.node_deleted(),
        None => evaluation.startup(policy),
    }
    evaluation.result(node, policy, Health::NotCounted)
}

/// The earliest time at which a timeout may begin: nothing is known about the time of an outage.
fn earliest(connection: Connection, settings: &Settings) -> Option<Timestamp> {
    let Connection::Up { after_outage, .. } = connection else {
        return None;
    };
    if defect!(OutageIsCharged) {
        return None;
    }
    Some(later(after_outage?, settings.outage_grace))
}

/// Whether mcm has observed the machine's Node. The label `node` is set when the VM is created, before its node joins;
/// the status gets the node's conditions when it has joined.
pub fn is_node_observed(machine: &Machine) -> bool {
    let labels = machine.metadata.labels.as_ref();
    let label = labels.is_some_and(|labels| labels.contains_key(keys::NODE_LABEL));
    label && (machine.status.node_conditions().next().is_some() || defect!(NewbornCountsAsDeleted))
}

/// Whether the machine is drained for an update in place, or being updated: mcm does not judge it then either.
fn is_updated_in_place(machine: &Machine, node: Option<&Node>) -> bool {
    let phase = machine.status.current_status.base();
    if matches!(phase, Some(Phase::InPlaceUpdating)) {
        return true;
    }
    let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        condition.type_ == keys::IN_PLACE_UPDATE_CONDITION && ["ReadyForUpdate", "UpdateFailed"].contains(&reason)
    })
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl Evaluation<'_> {
    /// Compares the time that a state has lasted with its timeout. A state that has lasted exactly that long is not
    /// unhealthy yet.
    fn rule(&mut self, reason: &'static str, since: Timestamp, timeout: Duration, what: &str) {
        let counted = self.earliest.map_or(since, |earliest| earliest.max(since));
        let end = later(counted, timeout);
        if end < self.now {
            let message = format!("{what} for more than {}", GoDuration(timeout));
            return self.found.failed.push((reason, Some(since), message));
        }
        let next = later(end, Duration::from_secs(1));
        let message = format!("{what}; it may be so for {}", GoDuration(timeout));
        self.found.waiting.push((next, since, message));
    }

    /// The time of a transition, or the time since which the object exists.
    fn since(&self, transition: Option<&Time>, created: Option<&Time>) -> Timestamp {
        let created = created.or(self.machine.metadata.creation_timestamp.as_ref());
        transition.or(created).map_or(self.now, |time| time.0)
    }

    fn machine_rules(&mut self, policy: &Policy) {
        for rule in &policy.machine_rules {
            match rule {
                MachineRule::Phase { phase, timeout } => {
                    if self.machine.status.current_status.base() != Some(phase) {
                        continue;
                    }
                    let entered = self.machine.status.current_status.last_update_time.as_ref();
                    let since = self.since(entered, None);
                    self.rule(
                        UNHEALTHY_MACHINE,
                        since,
                        *timeout,
                        &format!("the phase of the Machine is {phase}"),
                    );
                }
                MachineRule::Condition(rule) => {
                    let conditions = &self.machine.status.conditions;
                    let Some(condition) = matching(conditions, rule).cloned() else {
                        continue;
                    };
                    let since = self.since(condition.last_transition_time.as_ref(), None);
                    let what = format!("the condition {} of the Machine is {}", rule.type_, rule.status);
                    self.rule(UNHEALTHY_MACHINE, since, rule.timeout, &what);
                }
            }
        }
    }

    fn node_rules(&mut self, node: &Node, policy: &Policy) {
        let conditions = conditions_of(node);
        for rule in &policy.node_rules {
            let created = node.metadata.creation_timestamp.as_ref();
            let Some(condition) = matching(conditions, rule) else {
                let has = conditions.iter().any(|condition| condition.type_ == rule.type_);
                if !has && defect!(MissingConditionIsBad) {
                    let since = self.since(None, created);
                    self.rule(
                        UNHEALTHY_NODE,
                        since,
                        Duration::ZERO,
                        &format!("the Node has no condition {}", rule.type_),
                    );
                }
                continue;
            };
            let since = self.since(condition.last_transition_time.as_ref(), created);
            let what = format!("the condition {} of the Node is {}", rule.type_, rule.status);
            self.rule(UNHEALTHY_NODE, since, rule.timeout, &what);
            if defect!(FirstMatchHidesRest) {
                break;
            }
        }
    }

    fn node_deleted(&mut self) {
        let labels = self.machine.metadata.labels.as_ref();
        let node = labels.and_then(|labels| labels.get(keys::NODE_LABEL)).cloned();
        let message = format!("the Node {} has been deleted", node.unwrap_or_default());
        self.found.failed.push((NODE_DELETED, None, message));
    }

    fn startup(&mut self, policy: &Policy) {
        let Some(timeout) = policy.startup_timeout else {
            return;
        };
        let since = self.since(None, None);
        self.rule(NODE_STARTUP_TIMEOUT, since, timeout, "the Node has not joined");
    }

    /// `without_node`: the health of a machine without a Node if no rule has failed.
    fn result(self, node: Option<&Node>, policy: &Policy, without_node: Health) -> Health {
        let Found { failed, waiting } = self.found;
        let machine_first = failed.iter().find(|(reason, ..)| *reason == UNHEALTHY_MACHINE);
        if let Some((reason, ..)) = machine_first.or(failed.first()) {
            let bullets = failed.iter().map(|(.., message)| format!("\n  * {message}"));
            return Health::Unhealthy {
                reason,
                since: failed.iter().filter_map(|(_, since, _)| *since).min(),
                message: format!("{HEADING}{}", bullets.collect::<String>()),
            };
        }
        if let Some((next, since, message)) = waiting.iter().min_by_key(|(next, ..)| *next)
            && !defect!(RunningTimeoutCountsAsHealthy)
        {
            return Health::Pending {
                next: Some(*next),
                since: Some(*since),
                message: message.clone(),
            };
        }
        let Some(node) = node else {
            return without_node;
        };
        settling(self.machine, node, policy, self.now).unwrap_or(Health::Healthy)
    }
}

/// A machine that failed its check and has not been healthy for long enough; `None`: it counts as healthy.
fn settling(machine: &Machine, node: &Node, policy: &Policy, now: Timestamp) -> Option<Health> {
    let mut conditions = machine.status.conditions.iter();
    let failed = conditions.any(|one| one.type_ == keys::HEALTH_CHECK_SUCCEEDED && one.status == "False");
    if policy.healthy_delay.is_zero() || !failed {
        return None;
    }
    let watched = |condition: &&NodeCondition| {
        condition.type_ == "Ready" || policy.node_rules.iter().any(|rule| rule.type_ == condition.type_)
    };
    let changes = conditions_of(node).iter().filter(watched);
    let changes = changes.filter_map(|condition| condition.last_transition_time.as_ref());
    let created = node.metadata.creation_timestamp.as_ref();
    let since = changes.chain(created).map(|time| time.0).max()?;
    let next = later(since, policy.healthy_delay);
    (next > now).then(|| Health::Pending {
        next: Some(next),
        since: Some(since),
        message: format!(
            "the machine is healthy again; it counts as healthy after {}",
            GoDuration(policy.healthy_delay)
        ),
    })
}

fn conditions_of(node: &Node) -> &[NodeCondition] {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

fn matching<'a>(conditions: &'a [NodeCondition], rule: &NodeRule) -> Option<&'a NodeCondition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == rule.type_ && condition.status == rule.status)
}
