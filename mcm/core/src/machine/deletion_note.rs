//! The notes of a deletion's progress: the text in front of the stage's phrase.

use std::fmt;

/// Declares [`DeletionNote`] with the template of every note, so that rendering and parsing cannot differ. A text that
/// matches several templates parses to the first.
macro_rules! notes {
    ($(
        $(#[$doc:meta])+
        $name:ident $({ $($field:ident),+ })? = $start:literal $($value:ident $after:literal)*;
    )+) => {
        /// A human-readable sentence about a deletion. The note of a failed call also determines its retry period.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) enum DeletionNote {
            $($(#[$doc])+ $name $({ $($field: String),+ })?,)+
            /// Any other text: a problem of the machine's class, or a note of another version.
            Other(String),
        }

        impl DeletionNote {
            /// The note that is rendered as `text`.
            pub(super) fn parse(text: &str) -> Self {
                $(if let Some(values) = values(text, $start, &[$($after),*]) {
                    #[allow(unused_mut, unused_variables)]
                    let mut values = values.into_iter();
                    return Self::$name { $($value: values.next().unwrap_or_default().to_owned()),* };
                })+
                Self::Other(text.to_owned())
            }
        }

        impl fmt::Display for DeletionNote {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name { $($value),* } => {
                        f.write_str($start)?;
                        $(f.write_str($value)?;
                        f.write_str($after)?;)*
                        Ok(())
                    })+
                    Self::Other(text) => f.write_str(text),
                }
            }
        }

        #[cfg(test)]
        pub(super) fn notes(name: &str, error: &str) -> Vec<DeletionNote> {
            let value = |field: &str| if field == "error" { error } else { name }.to_owned();
            vec![$(DeletionNote::$name { $($value: value(stringify!($value))),* }),+]
        }
    };
}

notes! {
    /// There is no target cluster, hence no Node.
    NoTarget = "Running without target cluster, skipping node drain and volume attachment deletion.";
    /// The driver has not confirmed that the VM belongs to the machine.
    Unconfirmed = "The driver has not confirmed the VM of the machine.";
    /// The same, and the driver could not answer; the question is repeated after the short period.
    UnconfirmedRetried = "The driver could not confirm the VM of the machine. It is asked again.";
    /// The same, and the driver could not answer; the question is repeated after the medium period.
    UnconfirmedRefused { error } = "The driver could not confirm the VM of the machine: " error "";
    /// The same, and the class is not usable.
    UnconfirmedBlocked { reason } = "The VM of the machine is not confirmed: " reason "";
    /// GetMachineStatus failed; it is repeated after the short period.
    StatusRetried = "Error occurred with decoding machine error status while getting VM status, aborting with retry.";
    /// GetMachineStatus failed; it is repeated after the medium period.
    StatusRefused { error } =
        "Error occurred with decoding machine error status while getting VM status, aborting without retry. machine code: "
        error "";
    /// GetMachineStatus found no VM.
    NoVmToDrain = "VM was not found at provider. Moving forward to node drain.";
    /// The driver does not confirm that the VM and the Node that the machine names belong to it.
    Forgotten = "The driver does not confirm the VM of the machine, so its node is left alone.";
    /// GetMachineStatus found a VM that is not initialized.
    Uninitialized = "VM instance was not initialized. Moving forward to node drain.";

    /// There is no Node to drain.
    DrainWithoutNode = "Skipping drain as nodeName is not a valid one for machine.";
    /// A label of the machine requests a forced deletion.
    DrainSkipped { label } = "Drain skipped, as the machine has the label " label ".";
    /// The Node's conditions could not be changed.
    ConditionFailed { error } =
        "Drain failed due to failure in update of node conditions - " error ". Will retry in next sync.";
    /// Disruption budgets refuse the eviction of pods.
    DrainBlocked { blocker, pod } = "Drain is blocked: " blocker " does not allow the eviction of pod " pod ".";
    /// Pods could not be removed.
    DrainFailed { error } = "Drain failed due to - " error ". Will retry in next sync.";
    /// The forced drain could not delete pods; the deletion continues.
    ForcedDrainFailed { error } =
        "Drain failed due to - " error ". However, since it's a force deletion shall continue deletion of VM.";
    /// All pods have left.
    Drained = "Drain successful.";
    /// The forced drain deleted all pods.
    DrainedByForce = "Force Drain successful.";
    /// The Node registered again after its drain.
    DrainedAgain = "Pods came to the node after its drain.";

    /// There is no Node to detach volumes from.
    DetachWithoutNode { node } =
        "Skipping deleteNodeVolAttachments due to - node \"" node "\" not found. Moving to VM Deletion.";
    /// The Node has no volumes.
    Detached { node } = "Node Volumes for node: " node " are already detached. Moving to VM Deletion.";
    /// Every VolumeAttachment of the Node is being deleted.
    NoAttachments { node } = "No Live VolumeAttachments for node: " node ". Moving to VM Deletion.";

    /// Pods that must not run twice are on the Node.
    AttachmentsKept { node } =
        "Volume attachments of node " node " are kept until its VM is deleted, because pods that must not run twice use it.";

    /// DeleteMachine failed; it is repeated after the short period.
    VmRetried { error } =
        "VM deletion failed due to - " error ". However, will re-try in the next resync.";
    /// DeleteMachine failed; it is repeated after the long period.
    VmRefused { error } = "VM deletion failed due to - " error ". Aborting operation.";
    /// DeleteMachine found no VM.
    NoVm = "VM not found. Continuing deletion flow.";
    /// DeleteMachine deleted the VM.
    VmDeleted = "VM deletion was successful.";

    /// The machine names no Node.
    NoNodeLabel { machine } = "Label \"node\" not present on machine \"" machine "\", continuing deletion flow.";
    /// There is no Node to delete.
    NoNode { node } = "No node object found for \"" node "\", continuing deletion flow.";
    /// The Node's finalizer could not be removed.
    NodeFinalizerFailed { node, error } =
        "Removal of finalizers from Node Object \"" node "\" failed due to error: " error ", Retrying.";
    /// The Node could not be deleted.
    NodeFailed { node, error } = "Deletion of Node Object \"" node "\" failed due to error: " error ".";
    /// The Node is deleted.
    NodeDeleted { node } = "Deletion of Node Object \"" node "\" is successful.";
}

/// The values of a text between the literals of a template: `start` precedes the first value, an item of `after`
/// follows each.
fn values<'a>(text: &'a str, start: &str, after: &[&str]) -> Option<Vec<&'a str>> {
    let mut rest = text.strip_prefix(start)?;
    let Some((last, between)) = after.split_last() else {
        return rest.is_empty().then(Vec::new);
    };
    let mut values = Vec::with_capacity(after.len());
    for literal in between {
        let (value, right) = rest.split_once(literal)?;
        values.push(value);
        rest = right;
    }
    values.push(rest.strip_suffix(last)?);
    Some(values)
}
