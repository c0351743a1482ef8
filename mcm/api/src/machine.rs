//! Machine: one VM and the Node that joins from it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, NodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::duration::GoDuration;
use crate::keys;
use crate::preservation::{Preservation, PreservationStage, read_expiry};
use crate::type_meta::{ApiVersion, Kind};
use crate::wire_enum::wire_enum;

crate::kind!(Machine, "machines");

/// The desired and the observed state of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// Always the group's only version.
    pub api_version: ApiVersion,
    /// Always `Machine`.
    pub kind: Kind<Machine>,
    /// Standard metadata; the label `node` links to the Node.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: MachineSpec,
    /// Observed state; a subresource.
    pub status: MachineStatus,
}

/// The desired state of a machine; also the spec part of every machine template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// The class that configures the VM.
    pub class: ClassSpec,
    /// The cloud's id of the VM; written once by the controller.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Labels, annotations and taints for the Node.
    #[serde(rename = "nodeTemplate", skip_serializing_if = "Option::is_none")]
    pub node_template: Option<NodeTemplateSpec>,
    /// Timeouts and health settings; the keys are inlined in the spec.
    #[serde(flatten)]
    pub configuration: MachineConfiguration,
}

/// Settings of one machine that override the controller's flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfiguration {
    /// Overrides `--machine-drain-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<GoDuration>,
    /// Overrides `--machine-health-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_timeout: Option<GoDuration>,
    /// Overrides `--machine-creation-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timeout: Option<GoDuration>,
    /// Overrides `--machine-inplace-update-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_timeout: Option<GoDuration>,
    /// Overrides `--machine-preserve-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_preserve_timeout: Option<GoDuration>,
    /// True: never Failed because of the health timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_health_timeout: Option<bool>,
    /// Overrides `--machine-max-evict-retries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_evict_retries: Option<i32>,
    /// Overrides `--node-conditions`; a comma-separated list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_conditions: Option<String>,
}

/// A reference to a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    /// Not checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// `MachineClass`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The class's name, in the machine's namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Labels, annotations and taints that the controller synchronizes to the Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplateSpec {
    /// Labels and annotations.
    pub metadata: ObjectMeta,
    /// Taints; other fields are preserved but unused.
    pub spec: NodeSpec,
}

/// A template for machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateSpec {
    /// Labels, annotations and finalizers of the machines.
    pub metadata: ObjectMeta,
    /// Spec of the machines.
    pub spec: MachineSpec,
}

/// The observed state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Filled only without a target cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// A copy of the Node's conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// The controller's last operation; its description names the stage of a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// The phase and its timestamps.
    #[serde(skip_serializing_if = "CurrentStatus::is_empty")]
    pub current_status: CurrentStatus,
    /// State that the driver keeps between calls; opaque to the controller.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_known_state: String,
    /// The machine's preservation; absent: it is not preserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preservation: Option<Preservation>,
}

/// Whether a condition of a Machine is copied from its Node. Health checks write the reserved ones. Other controllers write
/// those whose type has the prefix of a domain, as `example.com/Disk`, and that have no `lastHeartbeatTime`; programs on a node
/// set that time.
fn is_of_node(condition: &NodeCondition) -> bool {
    let is_foreign = condition.type_.contains('/') && condition.last_heartbeat_time.is_none();
    !is_foreign && !keys::RESERVED_CONDITIONS.contains(&condition.type_.as_str())
}

impl MachineStatus {
    /// The conditions that are copied from the Node.
    pub fn node_conditions(&self) -> impl Iterator<Item = &NodeCondition> {
        self.conditions.iter().filter(|condition| is_of_node(condition))
    }

    /// The conditions that are not copied from the Node: health checks, owners and other controllers write them.
    pub fn own_conditions(&self) -> impl Iterator<Item = &NodeCondition> {
        self.conditions.iter().filter(|condition| !is_of_node(condition))
    }

    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether a health check requests that the owner of the machine replaces it: the check failed, and the owner has not
    /// reported that it is done.
    pub fn is_remediation_requested(&self) -> bool {
        let is_false = |type_| {
            self.condition(type_)
                .is_some_and(|condition| condition.status == "False")
        };
        is_false(keys::HEALTH_CHECK_SUCCEEDED) && is_false(keys::OWNER_REMEDIATED)
    }

    /// Whether no process has recorded that the machine's VM exists.
    pub fn is_being_created(&self) -> bool {
        matches!(self.current_status.phase, None | Some(Phase::CrashLoopBackOff))
    }

    /// Whether the machine is preserved: it has an expiry, or it failed and its node is drained before it gets one.
    pub fn is_preserved(&self) -> bool {
        let draining = |record: &Preservation| record.stage == PreservationStage::Draining;
        self.current_status.preserve_expiry_time.is_some() || self.preservation.as_ref().is_some_and(draining)
    }

    /// Whether the machine is preserved and its preservation is not ending.
    pub fn is_kept(&self) -> bool {
        let ends = |record: &Preservation| record.stage == PreservationStage::Releasing;
        self.is_preserved() && !self.preservation.as_ref().is_some_and(ends)
    }

    /// Whether the machine is Failed, and [kept](Self::is_kept).
    pub fn is_kept_failed(&self) -> bool {
        self.is_kept() && self.current_status.base() == Some(&Phase::Failed)
    }
}

/// The last operation on a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LastOperation {
    /// A human-readable description; also the wire form of a deletion's stage.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Name of the machine code of a failed creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_code: String,
    /// When the operation or its state changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The state of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The type of the operation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

/// The phase and its timestamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CurrentStatus {
    /// Absent: not processed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Whether a timeout is running.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout_active: bool,
    /// When the phase was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// If set, the machine is preserved. An expiry beyond [`Timestamp::MAX`], in the last days of 9999, becomes that
    /// maximum.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "far_time")]
    pub preserve_expiry_time: Option<Time>,
}

fn far_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let time = text.map(|text| read_expiry(&text)).transpose();
    time.map(|time| time.map(Time)).map_err(D::Error::custom)
}

impl CurrentStatus {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The phase without the sub-phase Preserved; `None`: not processed yet.
    pub fn base(&self) -> Option<&Phase> {
        self.phase.as_ref().map(Phase::base)
    }

    /// When the phase was entered, or `fallback` if no time was recorded.
    pub fn since(&self, fallback: Timestamp) -> Timestamp {
        self.last_update_time.as_ref().map_or(fallback, |time| time.0)
    }
}

wire_enum! {
    /// The phase of a machine.
    Phase {
        /// The VM exists, the node has not joined.
        Pending = "Pending",
        /// The VM exists and there is no target cluster.
        Available = "Available",
        /// Creating the VM failed and will be retried.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// The node is healthy.
        Running = "Running",
        /// It was Running; the node is unhealthy or missing.
        Unknown = "Unknown",
        /// A timeout expired; its set replaces it.
        Failed = "Failed",
        /// Running, and protected from being scaled down.
        RunningPreserved = "Running:Preserved",
        /// Failed, and kept for analysis.
        FailedPreserved = "Failed:Preserved",
        /// Drained for an update in place.
        InPlaceUpdating = "InPlaceUpdating",
        /// The node reported that the update succeeded.
        InPlaceUpdateSuccessful = "InPlaceUpdateSuccessful",
        /// The node reported that the update failed, or reported no result in time.
        InPlaceUpdateFailed = "InPlaceUpdateFailed",
        /// Being deleted.
        Terminating = "Terminating",
    }
}

impl Phase {
    /// The phase without the sub-phase Preserved.
    pub fn base(&self) -> &Self {
        match self {
            Self::RunningPreserved => &Self::Running,
            Self::FailedPreserved => &Self::Failed,
            other => other,
        }
    }

    /// The phase of the machine when it is preserved: only Running and Failed have such a sub-phase.
    pub fn preserved(&self) -> Self {
        match self {
            Self::Running => Self::RunningPreserved,
            Self::Failed => Self::FailedPreserved,
            other => other.clone(),
        }
    }
}

wire_enum! {
    /// The state of an operation.
    State {
        /// In progress.
        Processing = "Processing",
        /// Failed; it may be repeated.
        Failed = "Failed",
        /// Done.
        Successful = "Successful",
    }
}

wire_enum! {
    /// The type of an operation.
    Operation {
        /// Creating the VM and waiting for its node.
        Create = "Create",
        /// Hot update.
        Update = "Update",
        /// Update in place.
        InPlaceUpdate = "InPlaceUpdate",
        /// Draining outside a deletion.
        DrainNode = "DrainNode",
        /// Monitoring the node's health.
        HealthCheck = "HealthCheck",
        /// Draining the node, then deleting VM, node and object.
        Delete = "Delete",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::usual("2026-01-05T03:15:05Z", Some("2026-01-05T03:15:05Z"))]
    #[case::with_an_offset("2026-01-05T03:15:05+01:00", Some("2026-01-05T02:15:05Z"))]
    #[case::the_last_second("9999-12-31T23:59:59Z", Some("9999-12-30T22:00:00Z"))]
    #[case::no_offset("9999-12-31T23:59:59", None)]
    #[case::no_time("9999-12-31", None)]
    #[case::no_such_day("2026-02-31T00:00:00Z", None)]
    #[case::not_a_time("for ever", None)]
    fn an_expiry_in_the_far_future_is_parsed(#[case] text: &str, #[case] expected: Option<&str>) {
        let status = serde_json::json!({ "preserveExpiryTime": text });
        let read = serde_json::from_value::<CurrentStatus>(status).ok();
        let written = read.map(|status| serde_json::to_value(status).unwrap()["preserveExpiryTime"].clone());
        assert_eq!(written.as_ref().and_then(|written| written.as_str()), expected);
    }

    #[rstest]
    #[case::preserved(Phase::FailedPreserved, PreservationStage::Preserved, true)]
    #[case::draining(Phase::Failed, PreservationStage::Draining, true)]
    #[case::releasing(Phase::FailedPreserved, PreservationStage::Releasing, false)]
    #[case::running(Phase::RunningPreserved, PreservationStage::Preserved, false)]
    fn a_failed_machine_is_kept_until_its_preservation_ends(
        #[case] phase: Phase,
        #[case] stage: PreservationStage,
        #[case] kept: bool,
    ) {
        let status = MachineStatus {
            current_status: CurrentStatus {
                phase: Some(phase),
                preserve_expiry_time: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
                ..CurrentStatus::default()
            },
            preservation: Some(Preservation {
                stage,
                ..Preservation::default()
            }),
            ..MachineStatus::default()
        };
        assert_eq!(status.is_kept_failed(), kept);
    }
}
