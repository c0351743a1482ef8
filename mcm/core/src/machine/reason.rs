//! The reasons of plans. Logs, events and tests use the same text.

use std::time::Duration;

use mcm_api::{Code, GoDuration, MachineName, NodeName};

/// The reason of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Before any call that creates something in the cloud.
    #[error("the machine gets its finalizer")]
    FinalizerMissing,
    /// The spec is invalid.
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
    /// The answer shows what earlier attempts created.
    #[error("the cloud is asked whether the machine has a VM")]
    AskForVm,
    /// CreateMachine failed with AlreadyExists, and the driver has no GetMachineStatus.
    #[error("the cloud already has a VM: the VMs of the class are listed to find it")]
    LookForExistingVm,
    /// The driver lacks GetMachineStatus, and the machine names a VM.
    #[error("the VMs of the class are listed: the machine names one of them")]
    ConfirmVm,
    /// There is no VM.
    #[error("the machine has no VM: one is created")]
    CreateVm,
    /// There is a VM that is not initialised.
    #[error("the VM is initialised")]
    InitializeVm,
    /// A call of the creation failed.
    #[error("{call} failed with {code}; retry in {}", GoDuration(*.retry))]
    CreationFailed {
        /// The driver call.
        call: &'static str,
        /// The error code.
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
        /// The error code.
        code: Code,
        /// The creation timeout of the machine.
        timeout: Duration,
    },
    /// The driver's answer lacks a field that later steps need.
    #[error("the driver's answer lacks a provider id or a node name")]
    IncompleteAnswer,
    /// The node name of the VM belongs to an older Node.
    #[error("a Node of the VM's node name exists already: the VM is deleted")]
    StaleNode,
    /// The VM exists.
    #[error("the VM exists; its node has not joined yet")]
    VmCreated,
    /// The VM exists, and there is no cluster to join.
    #[error("the VM exists; there is no target cluster")]
    VmAvailable,

    /// Nothing to do.
    #[error("the machine needs no action")]
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
    /// A Running machine's node does not exist.
    #[error("the Node object is missing")]
    NodeMissing,
    /// The machine may yet recover.
    #[error("the node is unhealthy; {} left to recover", GoDuration(*.0))]
    WaitingToRecover(Duration),
    /// Only the copy of the conditions is outdated.
    #[error("the node's conditions changed")]
    ConditionsChanged,
    /// Pending for too long.
    #[error("the node did not join within {}", GoDuration(*.0))]
    JoinTimedOut(Duration),
    /// Unknown for too long.
    #[error("the node was unhealthy for {}", GoDuration(*.0))]
    HealthTimedOut(Duration),
    /// Unknown for too long, while another machine of the deployment is being replaced.
    #[error("the node was unhealthy for too long, but {0} is being replaced: only one machine at a time may fail")]
    OthersBeingReplaced(String),
    /// Unknown for too long, and the replacement of a sibling has just joined, so the common cause may be over.
    #[error("the node was unhealthy for too long; a sibling has just joined, so it has {} to recover", GoDuration(*.0))]
    MayComeBack(Duration),
    /// A health check requests the replacement.
    #[error("a health check found the machine unhealthy, and it is replaced: {0}")]
    RemediationRequested(String),
    /// The Node was deleted.
    #[error("the Node {0} was deleted: its machine is deleted as well")]
    NodeDeleted(String),
    /// An annotation on the Node requests it.
    #[error("an annotation of the Node {0} requests the deletion of its machine")]
    DeletionTriggered(String),
    /// The machine's label `node` was changed.
    #[error("the label node names the Node of the machine {other}: it is changed to {node}")]
    Mislabelled {
        /// The machine's own Node.
        node: NodeName,
        /// The machine that the other Node belongs to.
        other: MachineName,
    },
    /// The Node lacks the machine's name, the finalizer or fields of the template.
    #[error("the Node {0} gets the machine's name, the finalizer and the fields of the template")]
    NodeUnclaimed(String),
    /// A Node of a former VM of the machine is being deleted, and our finalizer blocks that.
    #[error("the Node {0} belongs to a former VM of the machine: its finalizer is removed")]
    NodeOfFormerVm(String),

    /// The class's provider spec differs from the VM's.
    #[error("the class's provider spec changed: the VM is to be updated")]
    UpdateBegun,
    /// UpdateMachine is called.
    #[error("the VM is updated")]
    UpdateVm,
    /// The update is complete.
    #[error("the VM has the class's provider spec")]
    VmUpdated,
    /// UpdateMachine failed.
    #[error("UpdateMachine failed with {code}; retry in {}", GoDuration(*.retry))]
    UpdateFailed {
        /// The error code.
        code: Code,
        /// When it is repeated.
        retry: Duration,
    },
    /// A step of an update in place.
    #[error("{0}")]
    InPlaceUpdate(String),
    /// The result of an in-place update.
    #[error("the update in place ended: {0}")]
    UpdatedInPlace(String),
    /// An update in place took too long.
    #[error("the update in place did not end within {}", GoDuration(*.0))]
    UpdateInPlaceTimedOut(Duration),

    /// A machine without this controller's finalizer is being deleted.
    #[error("the machine is being deleted and does not carry this controller's finalizer")]
    NotOurs,
    /// The machine was deleted while its VM was created.
    #[error("the VM was created while the machine was deleted: it is recorded first")]
    RecordVm,
    /// The first step of a deletion.
    #[error("the machine is being deleted")]
    DeletionStarted,
    /// A deletion enters the next stage.
    #[error("deletion: {0}")]
    Stage(String),
    /// The cache of Nodes is not filled.
    #[error("the machine's Node is not known yet")]
    NodeUnknown,
    /// Pods remain on the node.
    #[error("drain: {waiting} of the node's pods remain")]
    Draining {
        /// How many.
        waiting: usize,
    },
    /// The pods of the node are not known yet.
    #[error("drain: the node's pods are not known yet")]
    PodsUnknown,
    /// VolumeAttachments of the node remain.
    #[error("{0} volume attachments of the node remain")]
    Detaching(usize),
    /// The VM is deleted.
    #[error("the VM is deleted")]
    DeleteVm,
    /// A driver call of the deletion failed.
    #[error("{call} failed with {code}; retry in {}", GoDuration(*.retry))]
    DeletionFailed {
        /// The driver call.
        call: &'static str,
        /// The error code.
        code: Code,
        /// When it is repeated.
        retry: Duration,
    },
    /// The last step of a deletion.
    #[error("the deletion is complete: the finalizer is removed")]
    Released,

    /// The progress of a remediation is reported.
    #[error("remediation: {0}")]
    Remediation(String),

    /// A step of a preservation.
    #[error("preservation: {0}")]
    Preservation(String),

    /// An action failed.
    #[error("an action failed: {0}")]
    ActionFailed(String),
}

impl Reason {
    /// The name of the variant, without its fields; for counting.
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
    fn the_name_has_no_field_values() {
        assert_eq!(Reason::FinalizerMissing.name(), "FinalizerMissing");
        assert_eq!(Reason::InvalidClass("a { b }".to_owned()).name(), "InvalidClass");
        assert_eq!(Reason::WaitingToRepeat(Duration::ZERO).name(), "WaitingToRepeat");
    }
}
