//! The policy of a health check, which both spellings of its spec lead to.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use mcm_api::Phase;
use mcm_api::health_check::TemplateReference;

/// The rules of a health check. Every policy is valid: a spec that is not leads to errors instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Which machines of the namespace are checked; it has at least one requirement.
    pub selector: LabelSelector,
    /// Node conditions, any of which makes a machine unhealthy.
    pub node_rules: Vec<NodeRule>,
    /// The same for conditions and phases of the Machine.
    pub machine_rules: Vec<MachineRule>,
    /// How long a machine may take until its node joins; `None`: for ever.
    pub startup_timeout: Option<Duration>,
    /// When unhealthy machines are remediated.
    pub limit: Limit,
    /// Who remediates.
    pub remediation: Remediation,
    /// How many machines are remediated at the same time; `None`: the check has no limit.
    pub max_in_flight: Option<Amount>,
    /// How long no remediation begins after too many machines were unhealthy.
    pub storm_cooldown: Duration,
    /// How long a failed machine must be healthy before it counts as healthy.
    pub healthy_delay: Duration,
}

/// A Node condition that is unhealthy when it has lasted longer than its timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRule {
    /// The type of the condition.
    pub type_: String,
    /// The unhealthy status.
    pub status: String,
    /// How long the condition may have it.
    pub timeout: Duration,
}

/// A state of a Machine that is unhealthy when it has lasted longer than its timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineRule {
    /// A condition in the machine's status.
    Condition(NodeRule),
    /// The phase of the machine, without the sub-phase Preserved.
    Phase {
        /// The unhealthy phase.
        phase: Phase,
        /// How long the machine may be in it.
        timeout: Duration,
    },
}

/// A number of machines, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Count(u32),
    /// A percentage, at most 100.
    Percent(u32),
}

impl Amount {
    /// The number out of `total`; a percentage is rounded down.
    pub fn rounded_down(self, total: usize) -> usize {
        match self {
            Self::Count(count) => index(count),
            Self::Percent(percent) => total.saturating_mul(index(percent)) / 100,
        }
    }

    /// The number out of `total`; a percentage is rounded up.
    pub fn rounded_up(self, total: usize) -> usize {
        match self {
            Self::Count(count) => index(count),
            Self::Percent(percent) => total.saturating_mul(index(percent)).div_ceil(100),
        }
    }
}

fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The circuit breaker: at which numbers of unhealthy machines they are remediated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At any number.
    None,
    /// Up to this number.
    AtMost(Amount),
    /// In this range, both ends included.
    Range {
        /// The lowest number.
        minimum: u32,
        /// The highest number.
        maximum: u32,
    },
}

/// Who remediates an unhealthy machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Remediation {
    /// Its owner, which replaces it.
    Owner,
    /// Other controllers, which receive requests from these templates, one after the other; at least one.
    External(Vec<Escalation>),
}

/// One template of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Escalation {
    /// The template, in the namespace of the check.
    pub template: TemplateReference,
    /// Its rank in the spec.
    pub order: i32,
    /// How long the machine may take to recover before the next template is used; `None`: there is no next one.
    pub timeout: Option<Duration>,
}
