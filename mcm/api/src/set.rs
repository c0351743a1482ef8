//! MachineSet: a number of machines of one template.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use crate::machine::{ClassSpec, LastOperation, MachineTemplateSpec};
use crate::preservation::PreservationEntry;
use crate::type_meta::{ApiVersion, Kind};

crate::kind!(MachineSet, "machinesets");

/// A number of equal machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSet {
    /// Always the group's only version.
    pub api_version: ApiVersion,
    /// Always `MachineSet`.
    pub kind: Kind<MachineSet>,
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: MachineSetSpec,
    /// Observed state; a subresource.
    pub status: MachineSetStatus,
}

/// The desired state of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetSpec {
    /// Wanted machines; absent means none.
    pub replicas: i32,
    /// Which machines belong to the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Legacy; preserved, never read.
    #[serde(skip_serializing_if = "is_default")]
    pub machine_class: ClassSpec,
    /// The template of new machines.
    pub template: MachineTemplateSpec,
    /// Seconds that a machine must be ready to count as available.
    #[serde(skip_serializing_if = "is_default")]
    pub min_ready_seconds: i32,
    /// How many failed machines may be preserved automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_max: Option<i32>,
    /// Upstream's name of [`Self::auto_preserve_failed_max`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_machine_max: Option<i32>,
}

/// The observed state of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetStatus {
    /// Claimed machines in any phase.
    pub replicas: i32,
    /// Claimed machines that have all labels of the template.
    #[serde(skip_serializing_if = "is_default")]
    pub fully_labeled_replicas: i32,
    /// Claimed machines in phase Running.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Claimed machines in phase Available or Running.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Failed machines that are preserved.
    #[serde(skip_serializing_if = "is_default")]
    pub preserved_failed_replicas: i32,
    /// Upstream's count of automatic preservations.
    #[serde(skip_serializing_if = "is_default")]
    pub auto_preserve_failed_machine_count: i32,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Upstream's name for the list of conditions.
    #[serde(rename = "machineSetCondition", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineSetCondition>,
    /// Only its time is ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// Machines that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_machines: Option<Vec<MachineSummary>>,
    /// Failed machines that are kept; absent: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preservations: Vec<PreservationEntry>,
    /// The maximum of automatic preservations that the controller applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_auto_preserve_failed_max: Option<i32>,
}

/// A condition of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetCondition {
    /// `ReplicaFailure` or `Frozen`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
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

/// A failed machine in its owner's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSummary {
    /// The machine's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The provider id of its VM.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Its last operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// Name of the controlling set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner_ref: String,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
