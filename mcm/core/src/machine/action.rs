//! The actions of a plan, and the patches that some of them are.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use mcm_api::{Machine, MachineClass, NodeName, PreservedBy, ProviderId, keys};
use serde_json::{Value, json};

use super::node_patch::{NodePatch, NodeWrite};
use super::secret::SecretData;
use crate::event::EventType;
use crate::finalizer::finalizer_patch;
use crate::preservation::{Refusal, Release};

/// One action of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Adds the controller's finalizer to the machine.
    AddFinalizer,
    /// Removes the controller's finalizer from the machine.
    RemoveFinalizer,
    /// Patches the machine's metadata and spec.
    PatchMachine(MachinePatch),
    /// Converts a class of another kind to a MachineClass, and changes all references to it.
    MigrateClass {
        /// The kind.
        kind: String,
        /// The name of both classes.
        name: String,
    },
    /// Deletes the Machine object, as a user would.
    DeleteMachine,
    /// Calls the driver; the result is added to [`View::answers`](super::View::answers).
    Call(Box<CloudCall>),
    /// Asks the driver for the cloud's volume IDs of these PersistentVolumes, one call for each; answered by
    /// [`Answer::VolumeIds`](super::Answer::VolumeIds).
    AskVolumeIds(BTreeMap<String, PersistentVolumeSpec>),
    /// Lists the pods on the Node at the API server; the result becomes [`View::pods`](super::View::pods).
    ListPods {
        /// The Node.
        node: NodeName,
    },
    /// Creates the bootstrap token in the target cluster unless it exists; its secret part becomes
    /// [`View::bootstrap_token`](super::View::bootstrap_token). If another machine owns a token with that id, the
    /// action fails until that machine has joined.
    EnsureBootstrapToken(BootstrapToken),
    /// Deletes the bootstrap token's Secret from `kube-system` of the target cluster, unless another machine owns it.
    DeleteBootstrapToken(TokenOwner),
    /// Changes the Node's machine label and finalizer, and the fields that the machine's template sets.
    PatchNode {
        /// The Node.
        node: NodeName,
        /// What changes.
        patch: NodePatch,
    },
    /// Changes the capacity in the Node's status; `None` as a value removes the resource.
    SetNodeCapacity {
        /// The Node.
        node: NodeName,
        /// By resource.
        capacity: BTreeMap<String, Option<Quantity>>,
    },
    /// Sets a Node condition to True.
    SetNodeCondition {
        /// The Node.
        node: NodeName,
        /// Its type.
        type_: String,
        /// A CamelCase word.
        reason: String,
        /// Human-readable text.
        message: String,
    },
    /// Sets the Node condition that reports a preservation.
    SetPreservedCondition {
        /// The Node.
        node: NodeName,
        /// Whether the machine is preserved.
        status: bool,
        /// A short text.
        reason: String,
        /// Human-readable text.
        message: String,
    },
    /// Enters the machine in its owner's list of preserved machines; answered by
    /// [`View::claim`](super::View::claim).
    Claim {
        /// Who requested the preservation.
        by: PreservedBy,
        /// Whether the maximum does not apply: the machine was preserved before it failed.
        again: bool,
    },
    /// Takes the machine out of its owner's list of preserved machines.
    LeaveOwnersList,
    /// Sets the Node condition `Terminating` to True; an existing condition keeps its reason and message.
    SetTerminatingCondition {
        /// The Node.
        node: NodeName,
        /// `Unhealthy` or `ScaleDown`.
        reason: String,
        /// Human-readable text.
        message: String,
    },
    /// Makes the Node unschedulable.
    CordonNode {
        /// The Node.
        node: NodeName,
    },
    /// Evicts a pod through `pods/eviction`. The result is [recorded](super::DrainMemory::attempted).
    EvictPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Precondition.
        uid: String,
    },
    /// Deletes a pod. The result is [recorded](super::DrainMemory::attempted).
    DeletePod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Precondition.
        uid: String,
        /// Its grace period in seconds, zero where no kubelet terminates it; `None`: the pod's own.
        grace: Option<u32>,
    },
    /// Deletes a VolumeAttachment.
    DeleteVolumeAttachment(String),
    /// Removes the controller's finalizer from the Node.
    RemoveNodeFinalizer {
        /// The Node.
        node: NodeName,
    },
    /// Deletes the Node object.
    DeleteNode {
        /// The Node.
        node: NodeName,
    },
    /// Records a Kubernetes event on the machine.
    RecordEvent {
        /// Normal or Warning.
        type_: EventType,
        /// A CamelCase word.
        reason: String,
        /// Human-readable text.
        message: String,
    },
    /// Sets a metric of the machine.
    Observe(Metric),
}

impl Action {
    /// Whether the plan continues when the action fails: the machine's state does not depend on it.
    pub fn may_fail(&self) -> bool {
        matches!(
            self,
            Self::DeleteBootstrapToken(_)
                | Self::EvictPod { .. }
                | Self::DeletePod { .. }
                | Self::DeleteVolumeAttachment(_)
                | Self::RecordEvent { .. }
                | Self::Observe(_)
        )
    }

    /// The Node that the action changes.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::PatchNode { node, .. }
            | Self::SetNodeCapacity { node, .. }
            | Self::SetNodeCondition { node, .. }
            | Self::SetPreservedCondition { node, .. }
            | Self::SetTerminatingCondition { node, .. }
            | Self::CordonNode { node }
            | Self::RemoveNodeFinalizer { node }
            | Self::DeleteNode { node } => Some(node),
            _ => None,
        }
    }

    /// The patch of `node` by an action that patches the Node of the machine named `machine`; `None` for every other
    /// action.
    pub fn node_patch(&self, node: &Node, machine: &str) -> Option<NodeWrite> {
        let patch = match self {
            Self::PatchNode { patch, .. } => return Some(patch.write(node, machine)),
            Self::RemoveNodeFinalizer { .. } => finalizer_patch(&node.metadata, keys::NODE_FINALIZER, false),
            Self::CordonNode { .. } => json!({ "metadata": {}, "spec": { "unschedulable": true } }),
            _ => return None,
        };
        Some(NodeWrite::of_version(patch, node))
    }

    /// The JSON merge patch against `machine` of an action that patches the Machine object; `None` for every other
    /// action. It carries the resourceVersion, so that the API server rejects it if the object has changed.
    pub fn machine_patch(&self, machine: &Machine) -> Option<Value> {
        let mut patch = match self {
            Self::AddFinalizer => finalizer_patch(&machine.metadata, keys::MACHINE_FINALIZER, true),
            Self::RemoveFinalizer => finalizer_patch(&machine.metadata, keys::MACHINE_FINALIZER, false),
            Self::PatchMachine(patch) => patch.json(),
            _ => return None,
        };
        patch["metadata"]["resourceVersion"] = json!(machine.metadata.resource_version);
        Some(patch)
    }
}

/// A patch of the machine's metadata and spec; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePatch {
    /// Whether the label `node` is removed, unless the patch sets it.
    pub forgets_node: bool,
    /// Whether `spec.providerID` is removed, unless the patch sets it.
    pub forgets_provider_id: bool,
    /// Label `node`.
    pub node: Option<NodeName>,
    /// The priority annotation.
    pub priority: Option<String>,
    /// `spec.providerID`.
    pub provider_id: Option<ProviderId>,
    /// The annotation with the time that the machine took to join.
    pub join_duration: Option<String>,
    /// The annotation with the provider spec of the VM.
    pub provider_spec: Option<String>,
    /// Other annotations; `None` as a value removes one.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl MachinePatch {
    /// A patch that sets the label `node`.
    pub(super) fn naming(node: NodeName) -> Self {
        Self {
            node: Some(node),
            ..Self::default()
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn json(&self) -> Value {
        let mut patch = json!({ "metadata": {} });
        if self.forgets_node {
            patch["metadata"]["labels"] = json!({ keys::NODE_LABEL: null });
        }
        if self.forgets_provider_id {
            patch["spec"] = json!({ "providerID": null });
        }
        if let Some(node) = &self.node {
            patch["metadata"]["labels"] = json!({ keys::NODE_LABEL: node });
        }
        if let Some(priority) = &self.priority {
            patch["metadata"]["annotations"][keys::PRIORITY_ANNOTATION] = json!(priority);
        }
        if let Some(duration) = &self.join_duration {
            patch["metadata"]["annotations"][keys::JOIN_DURATION_ANNOTATION] = json!(duration);
        }
        if let Some(spec) = &self.provider_spec {
            patch["metadata"]["annotations"][keys::LAST_APPLIED_PROVIDER_SPEC_ANNOTATION] = json!(spec);
        }
        for (key, value) in &self.annotations {
            patch["metadata"]["annotations"][key] = json!(value);
        }
        if let Some(provider_id) = &self.provider_id {
            patch["spec"] = json!({ "providerID": provider_id });
        }
        patch
    }
}

/// The driver calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// GetMachineStatus.
    Status,
    /// CreateMachine.
    Create,
    /// InitializeMachine.
    Initialize,
    /// DeleteMachine.
    Delete,
    /// DeleteMachine; answered by [`Answer::DeleteStale`](super::Answer::DeleteStale).
    DeleteStale,
    /// ListMachines.
    List,
    /// UpdateMachine.
    Update,
    /// StopMachine.
    Stop,
}

/// A driver call with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudCall {
    /// The call.
    pub kind: CallKind,
    /// The machine.
    pub machine: Machine,
    /// Its class.
    pub class: MachineClass,
    /// For UpdateMachine: the JSON of the VM's previous provider spec; `None`: unknown.
    pub last_applied: Option<String>,
    /// The data of the Secrets; during creation, with the placeholders of the user data replaced.
    pub secret: SecretData,
}

/// Identifies the bootstrap token of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    /// The six characters before the point.
    pub id: String,
    /// Names the machine: for users, and to distinguish its token from another machine's.
    pub description: String,
}

impl TokenOwner {
    /// The name of the token's Secret.
    pub fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }
}

/// A required bootstrap token; the shell generates its secret part, 16 characters of `[0-9a-z]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapToken {
    /// The machine's token id and description.
    pub owner: TokenOwner,
    /// When it expires.
    pub expiration: Timestamp,
    /// When the machine must have joined: an existing token that expires earlier is useless.
    pub needed_until: Timestamp,
    /// `auth-extra-groups`; empty: none.
    pub extra_groups: String,
}

/// A measurement of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From the object's creation to the VM's.
    CreateDuration(Duration),
    /// From the object's creation to the end of the initialisation.
    InitializeDuration(Duration),
    /// From the object's creation to the first Running.
    JoinDuration(Duration),
    /// From the object's deletion to the end of the drain.
    DrainDuration(Duration),
    /// From the object's deletion to the VM's.
    DeleteDuration(Duration),
    /// The machine did not join within its creation timeout.
    FailedJoin,
    /// A preservation started, requested by this.
    PreservationStarted(PreservedBy),
    /// A preservation ended for this reason.
    PreservationEnded(Release),
    /// The machine failed and is not preserved, although a user or its deployment requests it.
    PreservationRefused(Refusal),
}

/// An action that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The action.
    pub action: Action,
    /// Whether the object was written concurrently (409).
    pub conflict: bool,
    /// Whether the object does not exist (404).
    pub not_found: bool,
    /// The error's text.
    pub message: String,
}

impl Failure {
    /// Whether a concurrent write of the machine prevented the record of its VM. The view has the newer machine, and
    /// waiting would lose the answers.
    pub(super) fn is_record_conflict(&self) -> bool {
        self.conflict && matches!(self.action, Action::PatchMachine(_))
    }
}
