//! Why a decision was made. Logs, events and tests print the same text.

use std::time::Duration;

use mcm_api::{Code, GoDuration, MachineName, NodeName};

/// The reason of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Before anything is made in the cloud.
    #[error("the machine gets its finalizer")]
    FinalizerMissing,
    /// `spec` is not usable.
    #[error("{0}")]
    InvalidMachine(String),
    /// The class is missing or not usable.
    #[error("{0}")]
    InvalidClass(String),
    /// The class's Secrets are not usable.
    #[error("{0}")]
    InvalidSecret(String),
    /// The machine refers to a class of a provider's own kind.
    #[error("the class {kind} {name} is migrated to a MachineClass")]
    ClassOfFormerTimes {
        /// The kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The class controller has not put its finalizer on the class yet.
    #[error("the machine class {0} has no finalizer yet")]
    ClassWithoutFinalizer(String),

    /// The user data needs a token.
    #[error("a bootstrap token is needed")]
    BootstrapTokenNeeded,
    /// Whatever was done before is found again this way.
    #[error("the cloud is asked whether the machine has a VM")]
    AskForVm,
    /// There is none.
    #[error("the machine has no VM: one is created")]
    CreateVm,
    /// There is one that is not initialised.
    #[error("the VM is initialised")]
    InitializeVm,
    /// A call of the creation failed.
    #[error("{call} failed with {code}; again in {}", GoDuration(*.retry))]
    CreationFailed {
        /// The driver call.
        call: &'static str,
        /// What kind of failure.
        code: Code,
        /// When it is repeated.
        retry: Duration,
    },
    /// A call failed a moment ago.
    #[error("a call failed; it is repeated in {}", GoDuration(*.0))]
    WaitingToRepeat(Duration),
    /// A call of the creation failed and the creation timeout has passed.
    #[error("{call} failed with {code}, and the creation timeout of {} has passed", GoDuration(*.timeout))]
    CreationTimedOut {
        /// The driver call.
        call: &'static str,
        /// What kind of failure.
        code: Code,
        /// The effective creation timeout.
        timeout: Duration,
    },
    /// The driver's answer lacks what every later step needs.
    #[error("the driver's answer lacks a provider id or a node name")]
    IncompleteAnswer,
    /// The node name of the VM belongs to an older Node.
    #[error("a Node of the VM's node name exists already: the VM is deleted")]
    StaleNode,
    /// The VM is there.
    #[error("the VM exists; its node has not joined yet")]
    VmCreated,
    /// The VM is there, and there is no cluster to join.
    #[error("the VM exists; there is no target cluster")]
    VmAvailable,

    /// Nothing to do.
    #[error("the machine is as it should be")]
    Nothing,
    /// The machine waits for its node.
    #[error("the node has {} left to join", GoDuration(*.0))]
    WaitingToJoin(Duration),
    /// The node is healthy for the first time.
    #[error("the node joined in {} and is healthy", GoDuration(*.0))]
    Joined(Duration),
    /// The node is healthy again.
    #[error("the node is healthy again")]
    Rejoined,
    /// A Running machine's node is not healthy.
    #[error("the node is unhealthy: {0}")]
    NodeUnhealthy(String),
    /// A Running machine's node is not there.
    #[error("the Node object is missing")]
    NodeMissing,
    /// The machine may yet recover.
    #[error("the node is unhealthy; {} left to recover", GoDuration(*.0))]
    WaitingToRecover(Duration),
    /// Only the copy of the conditions is behind.
    #[error("the node's conditions changed")]
    ConditionsChanged,
    /// Pending for too long.
    #[error("the node did not join within {}", GoDuration(*.0))]
    JoinTimedOut(Duration),
    /// Unknown for too long.
    #[error("the node was unhealthy for {}", GoDuration(*.0))]
    HealthTimedOut(Duration),
    /// Unknown for too long, and other machines of the deployment are on their way.
    #[error("the node was unhealthy for too long, but {0} is being replaced: one at a time")]
    OthersBeingReplaced(String),
    /// Unknown for too long, and a machine that was replaced meanwhile has joined: whatever kept them all away may be over.
    #[error("the node was unhealthy for too long; a sibling has just joined, and so it has {} to come back", GoDuration(*.0))]
    MayComeBack(Duration),
    /// Somebody deleted the Node.
    #[error("the Node {0} was deleted: so is its machine")]
    NodeDeleted(String),
    /// A person asked for it by an annotation on the Node.
    #[error("the Node {0} asks for its machine's deletion")]
    DeletionTriggered(String),
    /// The machine's label `node` was changed.
    #[error("the label node names the Node of the machine {other}: the own one is {node}")]
    Mislabelled {
        /// The machine's own Node.
        node: NodeName,
        /// The machine that the other Node belongs to.
        other: MachineName,
    },
    /// The Node lacks the machine's name, the finalizer or something that the template wants.
    #[error("the Node {0} is marked as the machine's and made as its template wants")]
    NodeUnclaimed(String),
    /// A Node of the machine's name that ran on a VM of before is to go, and our finalizer held it.
    #[error("the Node {0} is of a VM that the machine had before: it is let go")]
    NodeOfFormerVm(String),

    /// The class's provider spec is another one than the VM has.
    #[error("the class's provider spec changed: the VM is to be updated")]
    UpdateBegun,
    /// The driver is asked to.
    #[error("the VM is updated")]
    UpdateVm,
    /// It is done.
    #[error("the VM has the class's provider spec")]
    VmUpdated,
    /// UpdateMachine failed.
    #[error("UpdateMachine failed with {code}; again in {}", GoDuration(*.retry))]
    UpdateFailed {
        /// What kind of failure.
        code: Code,
        /// When it is repeated.
        retry: Duration,
    },
    /// A step of an update in place.
    #[error("{0}")]
    InPlaceUpdate(String),
    /// What came of an update in place.
    #[error("the update in place ended: {0}")]
    UpdatedInPlace(String),
    /// An update in place took too long.
    #[error("the update in place did not end within {}", GoDuration(*.0))]
    UpdateInPlaceTimedOut(Duration),

    /// Somebody deleted a machine that this controller never touched.
    #[error("the machine is being deleted and does not carry this controller's finalizer")]
    NotOurs,
    /// The machine was marked for deletion while its VM was made.
    #[error("the VM was made while the machine was deleted: it is recorded first")]
    RecordVm,
    /// The first step of a deletion.
    #[error("the machine is being deleted")]
    DeletionStarted,
    /// A deletion goes from one stage to the next.
    #[error("deletion: {0}")]
    Stage(String),
    /// The cache of Nodes is not filled yet.
    #[error("the machine's Node is not known yet")]
    NodeUnknown,
    /// Pods are still there.
    #[error("drain: {waiting} of the node's pods are still there")]
    Draining {
        /// How many.
        waiting: usize,
    },
    /// The pods of the node are not known yet.
    #[error("drain: the node's pods are not known yet")]
    PodsUnknown,
    /// VolumeAttachments are still there.
    #[error("{0} volume attachments of the node are still there")]
    Detaching(usize),
    /// The VM is deleted.
    #[error("the VM is deleted")]
    DeleteVm,
    /// A driver call of the deletion failed.
    #[error("{call} failed with {code}; again in {}", GoDuration(*.retry))]
    DeletionFailed {
        /// The driver call.
        call: &'static str,
        /// What kind of failure.
        code: Code,
        /// When it is repeated.
        retry: Duration,
    },
    /// The last step of a deletion.
    #[error("nothing is left of the machine: its finalizer goes")]
    Released,

    /// A machine is kept.
    #[error("preservation: {0}")]
    Preservation(String),

    /// An action failed.
    #[error("an action failed: {0}")]
    ActionFailed(String),
}

impl Reason {
    /// What kind of reason it is, without what it carries: for counting.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_nothing_of_what_a_reason_carries() {
        assert_eq!(Reason::FinalizerMissing.name(), "FinalizerMissing");
        assert_eq!(Reason::InvalidClass("a { b }".to_owned()).name(), "InvalidClass");
        assert_eq!(Reason::WaitingToRepeat(Duration::ZERO).name(), "WaitingToRepeat");
    }
}
