//! The input of a decision about one machine: an owned snapshot, with "unknown" where nothing was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use mcm_api::cloud::Power;
use mcm_api::{
    Code, DriverError, Machine, MachineClass, MachineName, MachineStatus, NodeName, Operation, Phase, ProviderId,
    VmIdentity,
};

use super::action::{Action, Failure};
use super::drain_memory::DrainMemory;
use super::secret::Secret;
use crate::health_check::owner::OwnerState;
use crate::preservation::{self, Admission};
use crate::remediation::Rank;

/// A snapshot of everything that a decision about one machine uses.
///
/// The shell builds one for every decision. `machine` is the newer of the cached copy and the result of the shell's
/// last write, so that a decision never uses an older state than the previous one.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The machine.
    pub machine: Machine,
    /// Its class; `None`: there is none of that name in the machine's namespace.
    pub class: Option<Arc<MachineClass>>,
    /// What cannot be decoded of the class, which is not usable then.
    pub class_damage: Option<String>,
    /// The data of the class's Secrets.
    pub secret: Secret,
    /// Whether there is a target cluster that nodes join.
    pub target: bool,
    /// The Node that the machine's label `node` names.
    pub node: NodeView,
    /// Name of a Node whose label names this machine, independent of the machine's label.
    pub labelled_node: Option<NodeName>,
    /// The other machine that the Node belongs to: that machine and the Node name each other, so the label `node` of
    /// this machine is wrong.
    pub node_of_other: Option<MachineName>,
    /// The cached Node whose name is in the last answer, if there is one.
    pub answered_node: Option<Arc<Node>>,
    /// The other machines with the same label `name`, in any order; empty without that label. Includes status writes of
    /// this process that the cache does not show yet.
    pub siblings: Vec<Sibling>,
    /// How the machine stands with its set and deployment if a health check requests its replacement.
    pub owner_state: OwnerState,
    /// The machine's bootstrap token.
    pub bootstrap_token: TokenView,
    /// The pods on the machine's Node; `None`: unknown.
    pub pods: Option<Vec<Pod>>,
    /// Whether the API server listed these pods in this pass. A cache may lag, so a drain does not end based on it.
    pub pods_listed: bool,
    /// The PersistentVolumes of these pods by name.
    pub volumes: BTreeMap<String, PersistentVolumeSpec>,
    /// Volumes of evicted pods that are attached to another Node.
    pub attached_elsewhere: BTreeSet<String>,
    /// The state of the machine's drain in this process.
    pub drain: DrainMemory,
    /// Names of the VolumeAttachments of the Node that are not being deleted.
    pub volume_attachments: Vec<String>,
    /// The finished cloud calls of this pass, in order.
    pub answers: Vec<Answer>,
    /// The VM that this process created for the machine, until the machine has its provider ID and a later phase.
    pub created_vm: Option<VmIdentity>,
    /// When this process last wrote only the Node's conditions to the machine; `None`: not yet.
    pub conditions_copied: Option<Timestamp>,
    /// When a call for the machine last failed in this process; `None`: not yet. The status may have the time of the
    /// first failure.
    pub call_failed: Option<Timestamp>,
    /// When the driver last answered GetMachineStatus or StopMachine for the preserved machine; `None`: not in this process.
    pub power_asked: Option<Timestamp>,
    /// Why this process requested the machine's deletion; `None`: it did not.
    pub deletion_reason: Option<String>,
    /// The machine's view of its owner's list.
    pub owners_list: preservation::ListView,
    /// The result of a claim in that list, in this pass.
    pub claim: Option<Claimed>,
    /// Whether the driver has reported that it does not implement UpdateMachine.
    pub cannot_update: bool,
    /// Whether the machine's spec, its class or its Secrets changed since the last pass: a call that waits for its
    /// retry period is then made at once.
    pub hurry: bool,
    /// The action of the last plan that just failed; the actions after it were not performed.
    pub failure: Option<Failure>,
}

/// The answer to an [`Action::Claim`](super::Action::Claim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Whether the claim ignored the maximum. Its answer does not apply to a claim that respects it.
    pub again: bool,
    /// `Ok`: the machine is in the list.
    pub answer: Result<(), Admission>,
}

/// The observed state of a machine's Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeView {
    /// Unknown: no target cluster, no label `node`, or caches are not filled.
    #[default]
    Unknown,
    /// There is no Node of that name, and this process has never observed one.
    Absent,
    /// The Node was deleted while this process watched.
    Gone,
    /// The Node exists.
    Present(Arc<Node>),
}

impl NodeView {
    /// The Node, if there is one.
    pub fn present(&self) -> Option<&Node> {
        match self {
            Self::Present(node) => Some(node),
            Self::Unknown | Self::Absent | Self::Gone => None,
        }
    }
}

/// Another machine of the same deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sibling {
    /// Its name.
    pub name: MachineName,
    /// Its phase; `None`: not processed yet.
    pub phase: Option<Phase>,
    /// Whether it is preserved.
    pub preserved: bool,
    /// Whether its health timeout is disabled.
    pub patient: bool,
    /// When its node joined; `None`: it has not, or its status has changed since.
    pub joined: Option<Timestamp>,
    /// Its rank among the machines whose replacement a health check requests; `None`: it is not one that can be replaced.
    pub requested: Option<Rank>,
}

impl Sibling {
    /// The sibling with that name and status.
    pub fn of(name: MachineName, status: &MachineStatus) -> Self {
        let current = &status.current_status;
        let operation = status.last_operation.as_ref();
        let joined = current.base() == Some(&Phase::Running)
            && operation.is_some_and(|last| last.operation == Some(Operation::Create));
        Self {
            name,
            phase: current.phase.clone(),
            patient: false,
            requested: None,
            preserved: status.is_preserved(),
            joined: current.last_update_time.as_ref().map(|time| time.0).filter(|_| joined),
        }
    }
}

/// The observed state of a machine's bootstrap token.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum TokenView {
    /// Not read in this pass.
    #[default]
    Unknown,
    /// Its Secret exists and has this secret part.
    Present(String),
}

impl fmt::Debug for TokenView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "Unknown",
            Self::Present(_) => "Present",
        })
    }
}

/// A pod on the machine's Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, the precondition of an eviction.
    pub uid: String,
    /// Whether a DaemonSet controls it.
    pub daemon: bool,
    /// Whether a StatefulSet controls it.
    pub stateful: bool,
    /// Whether it is the mirror pod of a static pod.
    pub mirror: bool,
    /// Whether its containers have terminated and will not restart.
    pub finished: bool,
    /// When its grace period ends; `None`: it is not being deleted.
    pub ends: Option<Timestamp>,
    /// Its grace period.
    pub grace: Duration,
    /// Its priority.
    pub priority: i32,
    /// Whether it has volumes through claims.
    pub claims: bool,
    /// The PersistentVolumes that those claims are bound to.
    pub volumes: Vec<String>,
    /// The disruption budgets that select it.
    pub budgets: Vec<Budget>,
}

impl Pod {
    /// Whether it is evicted sequentially, because its volumes move with it.
    pub(super) fn moves_volumes(&self) -> bool {
        self.claims && !self.finished
    }

    /// The request to evict it.
    pub(super) fn eviction(&self) -> Action {
        Action::EvictPod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// The request to delete it; `grace` in seconds, `None`: its own grace period.
    pub(super) fn deletion(&self, grace: Option<u32>) -> Action {
        Action::DeletePod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            grace,
        }
    }

    /// Whether it must not run twice: its StatefulSet starts the next pod of that name, and its volumes may be attached to
    /// another VM, as soon as the API does not have it any more.
    pub(super) fn is_unique(&self) -> bool {
        (self.stateful || self.claims) && !self.finished
    }

    /// A budget of the pod that can never allow an eviction.
    pub(super) fn misconfigured_budget(&self) -> Option<&str> {
        let budget = self.budgets.iter().find(|budget| budget.misconfigured)?;
        Some(&budget.name)
    }
}

/// A disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Namespace and name.
    pub name: String,
    /// Whether it allows no eviction although all its pods are healthy.
    pub misconfigured: bool,
}

impl Budget {
    /// The fields of a disruption budget that a drain needs.
    ///
    /// A budget is misconfigured if its status is up to date, all its pods are healthy, none is being disrupted, and
    /// yet it allows no disruption.
    pub fn of(budget: &PodDisruptionBudget) -> Self {
        let metadata = &budget.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let misconfigured = budget.status.as_ref().is_some_and(|status| {
            status.observed_generation == metadata.generation
                && status.expected_pods.unwrap_or_default() > 0
                && status.current_healthy >= status.expected_pods
                && status.disrupted_pods.as_ref().is_none_or(BTreeMap::is_empty)
                && status.disruptions_allowed.unwrap_or_default() == 0
        });
        Self {
            name: format!("{namespace}/{name}"),
            misconfigured,
        }
    }
}

/// The answer to a finished cloud call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// GetMachineStatus.
    Status(Result<VmIdentity, DriverError>),
    /// CreateMachine.
    Create(Result<VmIdentity, DriverError>),
    /// InitializeMachine.
    Initialize(Result<VmIdentity, DriverError>),
    /// DeleteMachine, with the driver's `lastKnownState`.
    Delete(Result<Option<String>, DriverError>),
    /// DeleteMachine for a VM whose node name belongs to another machine's Node.
    DeleteStale(Result<Option<String>, DriverError>),
    /// GetVolumeIDs, once for each PersistentVolume: the cloud's volume ID by volume name; empty if the cloud has none
    /// or the call failed.
    VolumeIds(BTreeMap<String, String>),
    /// ListMachines.
    List(Result<BTreeMap<ProviderId, MachineName>, DriverError>),
    /// StopMachine.
    Stop(Result<VmIdentity, DriverError>),
    /// UpdateMachine.
    Update {
        /// The JSON of the provider spec that was to be applied.
        spec: String,
        /// The result.
        result: Result<(), DriverError>,
    },
}

impl Answer {
    /// Whether the driver reported the machine's VM as stopped.
    pub fn shows_stopped_vm(&self) -> bool {
        match self {
            Self::Status(Ok(vm)) | Self::Stop(Ok(vm)) => vm.power == Some(Power::Stopped),
            _ => false,
        }
    }

    /// Whether the call failed and is repeated later. NotFound is no failure of GetMachineStatus.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Status(answer) => answer.as_ref().is_err_and(|error| error.code != Code::NotFound),
            Self::Create(answer) | Self::Initialize(answer) | Self::Stop(answer) => answer.is_err(),
            Self::Delete(answer) | Self::DeleteStale(answer) => answer.is_err(),
            // The failure that led to a list counts.
            Self::VolumeIds(_) | Self::List(_) => false,
            Self::Update { result, .. } => result.is_err(),
        }
    }
}
