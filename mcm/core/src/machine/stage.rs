//! The stages of a deletion and their wire form: the end of `lastOperation.description`.

use mcm_api::MachineStatus;

/// A stage of a deletion. On the wire a stage is the phrase at the end of the last operation's description; the text
/// before it is human-readable and may contain any text of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Finding out which Node and VM the machine has.
    FindVm,
    /// Draining the Node.
    Drain,
    /// Deleting VolumeAttachments that remain after a forced drain.
    VolumeAttachments,
    /// Deleting the VM.
    Vm,
    /// Deleting the Node object.
    Node,
    /// Removing the machine's finalizer.
    Finalizer,
}

impl Stage {
    /// All stages in their order.
    pub const ALL: [Self; 6] = [
        Self::FindVm,
        Self::Drain,
        Self::VolumeAttachments,
        Self::Vm,
        Self::Node,
        Self::Finalizer,
    ];

    /// The phrase on the wire.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::FindVm => "Set machine status to termination. Now, getting VM Status",
            Self::Drain => "Initiate node drain",
            Self::VolumeAttachments => "Delete Volume Attachments",
            Self::Vm => "Initiate VM deletion",
            Self::Node => "Initiate node object deletion",
            Self::Finalizer => "Initiate machine object finalizer removal",
        }
    }

    /// The stage that a description ends with.
    pub fn parse(description: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|stage| description.ends_with(stage.phrase()))
    }

    /// The stage that a status is in.
    pub fn of(status: &MachineStatus) -> Option<Self> {
        status
            .last_operation
            .as_ref()
            .and_then(|operation| Self::parse(&operation.description))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stage_is_parsed_after_any_text(text in ".*", other in 0..6usize, index in 0..6usize) {
            let text = format!("{text} {}", Stage::ALL[other].phrase());
            let text = format!("{text} {}", Stage::ALL[index].phrase());
            prop_assert_eq!(Stage::parse(&text), Some(Stage::ALL[index]));
        }
    }

    #[test]
    fn no_phrase_ends_with_another() {
        for stage in Stage::ALL {
            assert_eq!(Stage::parse(stage.phrase()), Some(stage));
        }
    }
}
