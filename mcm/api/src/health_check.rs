//! MachineHealthCheck: when machines are unhealthy, and what is requested for them.
//!
//! A setting may be written in one of two spellings: the flat fields of the Cluster API proposal, which are canonical, or
//! the blocks `checks` and `remediation` of Cluster API's v1beta2. `mcm-core` normalizes both to one policy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;
use crate::set::is_default;
use crate::type_meta::{ApiVersion, Kind};

crate::kind!(MachineHealthCheck, "machinehealthchecks");

/// Health rules for a group of machines, a limit for simultaneous failures, and how machines are remediated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineHealthCheck {
    /// Always the group's only version.
    pub api_version: ApiVersion,
    /// Always `MachineHealthCheck`.
    pub kind: Kind<MachineHealthCheck>,
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The rules.
    pub spec: MachineHealthCheckSpec,
    /// The result of the last pass; a subresource.
    pub status: MachineHealthCheckStatus,
}

/// The rules of a check, in either spelling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineHealthCheckSpec {
    /// Cluster API's name of the cluster: accepted and ignored, because there is no object for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Which machines of the namespace are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Node conditions, each of which makes a machine unhealthy after its timeout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// The same for conditions of the Machine, and for phases as `Phase=PHASE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_machine_conditions: Vec<UnhealthyCondition>,
    /// How long a machine may take until its node joins; zero: for ever; absent, and only next to the other spelling:
    /// [`Self::STARTUP_TIMEOUT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout: Option<GoDuration>,
    /// The number or percentage of machines up to which unhealthy ones are remediated; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<IntOrString>,
    /// The range of numbers of unhealthy machines in which they are remediated, as `[3-5]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_range: Option<String>,
    /// The template of remediation requests to another controller; absent: the owner of a machine replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<TemplateReference>,
    /// Templates that are tried one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalating_remediations: Vec<EscalatingRemediation>,
    /// The number or percentage of machines that are remediated at the same time; absent: no limit besides the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<IntOrString>,
    /// How long no machine is remediated after too many were unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm_cooldown: Option<GoDuration>,
    /// How long a failed machine must be healthy again before it counts as healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_delay: Option<GoDuration>,
    /// v1beta2's spelling of conditions and startup timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
    /// v1beta2's spelling of limits and template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
}

impl MachineHealthCheckSpec {
    /// The default of [`Self::node_startup_timeout`], which an API server adds.
    pub const STARTUP_TIMEOUT: &str = "10m";
}

/// A condition that makes a machine unhealthy when it has lasted longer than the timeout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnhealthyCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status that is unhealthy.
    pub status: String,
    /// How long the condition may have it; zero: not at all.
    pub timeout: GoDuration,
}

/// A reference to a template object in the namespace of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateReference {
    /// API group and version.
    pub api_version: String,
    /// The kind, which ends with `Template`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// Only the namespace of the check is possible.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// One of several templates that are tried in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EscalatingRemediation {
    /// The template.
    pub remediation_template: TemplateReference,
    /// Its rank: the lowest is tried first; each rank occurs once.
    pub order: i32,
    /// How long the machine may take to recover before the next template is tried; at least a minute.
    pub timeout: GoDuration,
}

/// v1beta2's spelling of the health rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Checks {
    /// In seconds; see [`MachineHealthCheckSpec::node_startup_timeout`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout_seconds: Option<i32>,
    /// See [`MachineHealthCheckSpec::unhealthy_conditions`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_node_conditions: Vec<UnhealthyConditionSeconds>,
    /// See [`MachineHealthCheckSpec::unhealthy_machine_conditions`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_machine_conditions: Vec<UnhealthyConditionSeconds>,
}

/// As [`UnhealthyCondition`], with seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnhealthyConditionSeconds {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status that is unhealthy.
    pub status: String,
    /// How many seconds the condition may have it.
    pub timeout_seconds: i32,
}

/// v1beta2's spelling of the limits and the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Remediation {
    /// The limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_if: Option<TriggerIf>,
    /// See [`MachineHealthCheckSpec::remediation_template`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateReference>,
}

/// v1beta2's spelling of the limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriggerIf {
    /// See [`MachineHealthCheckSpec::max_unhealthy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
    /// See [`MachineHealthCheckSpec::unhealthy_range`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_in_range: Option<String>,
}

/// The result of the last pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineHealthCheckStatus {
    /// Machines that are checked.
    pub expected_machines: i32,
    /// Those of them that are healthy.
    pub current_healthy: i32,
    /// How many more machines may become unhealthy before remediation stops; zero while it is stopped.
    pub remediations_allowed: i32,
    /// The names of the checked machines, sorted; at most [`Self::MAX_TARGETS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// The machines that are not healthy, why, and when they are checked again; at most [`Self::MAX_UNHEALTHY`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<UnhealthyMachine>,
    /// Requests to other controllers, from before their creation until they are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediations: Vec<RequestedRemediation>,
    /// Since when too many machines are unhealthy; absent: they are not. It is kept because the limit may change meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_many_since: Option<Time>,
    /// When remediation may begin again after too many machines were unhealthy; absent: it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Time>,
    /// The generation that the last complete pass evaluated.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// `RemediationAllowed`, `Evaluated` and `Paused`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl MachineHealthCheckStatus {
    /// The maximum length of [`Self::targets`].
    pub const MAX_TARGETS: usize = 10_000;
    /// The maximum length of [`Self::unhealthy`].
    pub const MAX_UNHEALTHY: usize = 100;
}

/// A machine that is not healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnhealthyMachine {
    /// The machine's name.
    pub machine: String,
    /// Why: a reason of the condition `HealthCheckSucceeded`, or `Pending` while a timeout runs.
    pub reason: String,
    /// Human-readable text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it has been in this state; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When the check acts or decides again; absent: after a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_check: Option<Time>,
}

/// A request to another controller. It is recorded before it is created, so that no process forgets one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestedRemediation {
    /// The machine's name, which is also that of the request.
    pub machine: String,
    /// The machine's uid.
    pub uid: String,
    /// API group and version of the request.
    pub api_version: String,
    /// The kind of the request.
    pub kind: String,
    /// The name of its template.
    pub template: String,
    /// The rank of its template among those that are tried in order.
    #[serde(skip_serializing_if = "is_default")]
    pub order: i32,
    /// When it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}
