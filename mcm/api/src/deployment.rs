//! MachineDeployment: machines and how they are replaced when their template changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use crate::machine::MachineTemplateSpec;
use crate::preservation::PreservationEntry;
use crate::set::{MachineSummary, is_default};
use crate::type_meta::{ApiVersion, Kind};

crate::kind!(MachineDeployment, "machinedeployments");

/// Machines with a rollout strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeployment {
    /// Always the group's only version.
    pub api_version: ApiVersion,
    /// Always `MachineDeployment`.
    pub kind: Kind<MachineDeployment>,
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: MachineDeploymentSpec,
    /// Observed state; a subresource.
    pub status: MachineDeploymentStatus,
}

/// The desired state of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentSpec {
    /// Wanted machines; absent means none.
    pub replicas: i32,
    /// Which sets and machines belong to the deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The template of new machines.
    pub template: MachineTemplateSpec,
    /// How machines are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// Seconds that a machine must be ready to count as available.
    #[serde(skip_serializing_if = "is_default")]
    pub min_ready_seconds: i32,
    /// How many old sets are kept; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// True: no rollout.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: bool,
    /// If set, requests a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<RollbackConfig>,
    /// Seconds without progress until the rollout counts as failed; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// How machines are replaced that a health check found unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<DeploymentRemediation>,
    /// How many failed machines may be preserved automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_max: Option<i32>,
    /// Upstream's name of [`Self::auto_preserve_failed_max`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_machine_max: Option<i32>,
}

/// How machines are replaced that a health check found unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentRemediation {
    /// How many of them are replaced at the same time, as a number or as a percentage of the replicas, rounded up; absent:
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<IntOrString>,
}

/// How machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate`, `Recreate` or `InPlaceUpdate`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// For `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// For `InPlaceUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<InPlaceUpdate>,
}

/// Bounds of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many machines may be unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many machines may exist beyond `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// Bounds of an update in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InPlaceUpdate {
    /// How many machines may be unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many machines may exist beyond `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// `Auto` or `Manual`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub orchestration_type: String,
}

/// The revision to roll back to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollbackConfig {
    /// 0: the previous revision.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: i64,
}

/// The observed state of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Machines of all sets.
    #[serde(skip_serializing_if = "is_default")]
    pub replicas: i32,
    /// Machines of the newest template.
    #[serde(skip_serializing_if = "is_default")]
    pub updated_replicas: i32,
    /// Machines in phase Running.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Machines in phase Available or Running.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Failed machines that are preserved.
    #[serde(skip_serializing_if = "is_default")]
    pub preserved_failed_replicas: i32,
    /// Wanted machines that are not available.
    #[serde(skip_serializing_if = "is_default")]
    pub unavailable_replicas: i32,
    /// `Available`, `Progressing`, `ReplicaFailure`, `Frozen`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineDeploymentCondition>,
    /// Collisions of template hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Machines that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_machines: Option<Vec<MachineSummary>>,
    /// Failed machines that are kept; absent: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preservations: Vec<PreservationEntry>,
    /// The maximum of automatic preservations that the controller applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_auto_preserve_failed_max: Option<i32>,
    /// Hash of the template that was rolled out last; while it differs from the template's, a rollout is in progress.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rolled_out: String,
}

/// A condition of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentCondition {
    /// `Available`, `Progressing`, `ReplicaFailure` or `Frozen`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the condition changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// A CamelCase reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
