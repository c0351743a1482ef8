//! The endpoints through which an object is written.

use super::Entry;
use crate::kinds;
use crate::resource::{Resource, Validate};

/// The endpoint of an update, which determines what it can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself: everything except the status, if that is a subresource.
    Main,
    /// `/status`.
    Status,
    /// `namespaces/finalize`: only `spec.finalizers`.
    Finalize,
    /// `certificatesigningrequests/approval`: only `status.conditions`.
    Approval,
    /// `pods/ephemeralcontainers`: only `spec.ephemeralContainers`.
    EphemeralContainers,
    /// `pods/resize`: only the resources of containers.
    Resize,
}

impl Part {
    /// The name of the subresource; empty for the object itself.
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }

    /// The entry with the checks of this endpoint: parts of pods and approvals have their own.
    pub(super) fn checks(self, entry: &Entry) -> Entry {
        let validate: Validate = match self {
            Self::Main | Self::Status | Self::Finalize => return entry.clone(),
            Self::Approval => kinds::validate_approval,
            Self::EphemeralContainers => kinds::validate_ephemeral,
            Self::Resize => kinds::validate_resize,
        };
        let resource = Resource {
            validate: Some(validate),
            ..(*entry.resource).clone()
        };
        entry.with_resource(resource)
    }
}
