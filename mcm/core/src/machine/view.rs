//! What a decision about one machine is made from: an owned snapshot, with "unknown" where nothing was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use mcm_api::{
    Code, DriverError, Machine, MachineClass, MachineName, MachineStatus, NodeName, Operation, Phase, VmIdentity,
};

use super::action::Failure;
use super::drain_memory::DrainMemory;
use super::secret::Secret;
use crate::preservation::{Gate, Standing};

/// Everything that is known about one machine at one moment.
///
/// The shell builds it anew for every decision. `machine` is the newest of the cache's copy and
/// what the shell's own writes returned, so that a decision never acts on less than the last one did.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The machine.
    pub machine: Machine,
    /// Its class; `None`: there is none of that name in the machine's namespace.
    pub class: Option<MachineClass>,
    /// The data of the class's Secrets.
    pub secret: Secret,
    /// Whether there is a target cluster that nodes join.
    pub target: bool,
    /// The Node that the machine's label `node` names.
    pub node: NodeView,
    /// Name of a Node whose label says that it is this machine's, whatever the machine's label says.
    pub labelled_node: Option<NodeName>,
    /// The other machine that the Node belongs to: both name each other, so the label `node` of this
    /// machine is wrong.
    pub node_of_other: Option<MachineName>,
    /// The Node of the name that the last answer gives, where the cache has one.
    pub answered_node: Option<Box<Node>>,
    /// The other machines with the same label `name`, in any order; empty without that label. Status
    /// writes of this process that the cache has not seen back are laid over.
    pub siblings: Vec<Sibling>,
    /// The machine's bootstrap token.
    pub bootstrap_token: TokenView,
    /// The pods on the machine's Node; `None`: not known.
    pub pods: Option<Vec<Pod>>,
    /// Whether these are the pods that the API server showed in this pass. Those of a cache may lag, so that no drain ends
    /// on them.
    pub pods_listed: bool,
    /// The PersistentVolumes of these pods by name.
    pub volumes: BTreeMap<String, PersistentVolumeSpec>,
    /// Of the volumes that are on their way from the Node, those that are attached to another one.
    pub attached_elsewhere: BTreeSet<String>,
    /// What this process remembers of the machine's drain.
    pub drain: DrainMemory,
    /// Names of the VolumeAttachments of the Node that are not being deleted.
    pub volume_attachments: Vec<String>,
    /// The cloud calls of this pass that finished, in their order.
    pub answers: Vec<Answer>,
    /// The VM that this process made for the machine and has not seen recorded on it yet.
    pub made: Option<VmIdentity>,
    /// When this process copied the Node's conditions last, without any other change; `None`: not yet.
    pub conditions_copied: Option<Timestamp>,
    /// When a call for the machine failed last in this process; `None`: not yet. The status may still say when the first did.
    pub call_failed: Option<Timestamp>,
    /// What the list of preserved machines says that the machine's owner has.
    pub ledger: Standing,
    /// What became of a claim in that list, in this pass.
    pub claim: Option<Claimed>,
    /// Whether this process knows that the driver has no UpdateMachine.
    pub cannot_update: bool,
    /// Whether somebody changed the machine's spec, its class or its Secrets since the last pass: a
    /// call that waits for its retry period is then made at once.
    pub hurry: bool,
    /// The action of the last plan that failed just now; the actions behind it were not performed.
    pub failure: Option<Failure>,
}

/// The answer to an [`Action::Claim`](super::Action::Claim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Whether it was for one that is kept in any case. It says nothing of one that is kept while there is room.
    pub again: bool,
    /// `Ok`: the machine is entered.
    pub answer: Result<(), Gate>,
}

/// What is known of a machine's Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeView {
    /// Nothing: no target cluster, no label `node`, or caches are not filled.
    #[default]
    Unknown,
    /// There is none of that name, and this process has never seen one.
    Absent,
    /// There was one and it was deleted while this process watched.
    Gone,
    /// There it is.
    Present(Box<Node>),
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
    /// Whether it may be Unknown for as long as it is: its health timeout is disabled.
    pub patient: bool,
    /// When its node joined; `None`: it has not, or something happened to it since.
    pub joined: Option<Timestamp>,
}

impl Sibling {
    /// The machine of that name, of such a status.
    pub fn of(name: MachineName, status: &MachineStatus) -> Self {
        let current = &status.current_status;
        let operation = status.last_operation.as_ref();
        let joined = current.base() == Some(&Phase::Running)
            && operation.is_some_and(|last| last.operation == Some(Operation::Create));
        Self {
            name,
            phase: current.phase.clone(),
            patient: false,
            preserved: status.is_preserved(),
            joined: current.last_update_time.as_ref().map(|time| time.0).filter(|_| joined),
        }
    }
}

/// What is known of a machine's bootstrap token.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum TokenView {
    /// Not looked at in this pass.
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
    /// Its uid; an eviction is for this one only.
    pub uid: String,
    /// Whether a DaemonSet controls it.
    pub daemon: bool,
    /// Whether it only mirrors a static pod of the kubelet.
    pub mirror: bool,
    /// Whether its containers have ended for good.
    pub finished: bool,
    /// When its grace period is over; `None`: nobody deletes it.
    pub ends: Option<Timestamp>,
    /// How long it may take to end.
    pub grace: Duration,
    /// Its priority.
    pub priority: i32,
    /// Whether it has volumes through claims.
    pub claims: bool,
    /// The PersistentVolumes that those claims are bound to.
    pub volumes: Vec<String>,
    /// The disruption budgets that it counts for.
    pub budgets: Vec<Budget>,
}

impl Pod {
    /// Whether it goes in its turn, with its volumes.
    pub(super) fn moves_volumes(&self) -> bool {
        self.claims && !self.finished
    }

    /// A budget of its that allows no eviction, ever.
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
    /// What of a disruption budget matters to a drain.
    ///
    /// It cannot be met when its numbers are of today, all its pods are healthy, none is on its way out, and yet it
    /// allows no disruption.
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

/// A finished cloud call, as data.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// GetMachineStatus.
    Status(Result<VmIdentity, DriverError>),
    /// CreateMachine.
    Create(Result<VmIdentity, DriverError>),
    /// InitializeMachine.
    Initialize(Result<VmIdentity, DriverError>),
    /// DeleteMachine; the driver's memory.
    Delete(Result<Option<String>, DriverError>),
    /// DeleteMachine for a VM whose node name belongs to another machine's Node.
    DeleteStale(Result<Option<String>, DriverError>),
    /// GetVolumeIDs, once for each PersistentVolume: the cloud's name by the volume's; empty where the cloud knows none,
    /// or did not say.
    VolumeIds(BTreeMap<String, String>),
    /// UpdateMachine.
    Update {
        /// The JSON of the provider spec that was to be applied.
        spec: String,
        /// What came of it.
        result: Result<(), DriverError>,
    },
}

impl Answer {
    /// Whether the call is to be repeated after a while. That there is no VM is no failure of the call that asked for it.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Status(answer) => answer.as_ref().is_err_and(|error| error.code != Code::NotFound),
            Self::Create(answer) | Self::Initialize(answer) => answer.is_err(),
            Self::Delete(answer) | Self::DeleteStale(answer) => answer.is_err(),
            Self::VolumeIds(_) => false,
            Self::Update { result, .. } => result.is_err(),
        }
    }
}
