//! The order in which machines of a deployment are replaced because health checks request it.

use std::cmp::Reverse;

use jiff::Timestamp;
use mcm_api::{Machine, Phase, keys};

use super::{CANNOT_BE_REMEDIATED, is_skipped, must_remediate};

/// The rank of a machine among those whose replacement is requested; the lowest is replaced first: one that a user
/// requests, then the newest, which hosts least, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    not_by_user: bool,
    newest: Reverse<Option<Timestamp>>,
    name: String,
}

impl Rank {
    /// The rank of the machine; `None`: its replacement is not requested, or cannot begin whatever its turn.
    pub fn of(machine: &Machine) -> Option<Self> {
        let status = &machine.status;
        let owner = status.condition(keys::OWNER_REMEDIATED)?;
        let ends = matches!(
            status.current_status.base(),
            Some(Phase::Failed | Phase::Terminating | Phase::InPlaceUpdating)
        ) || machine.metadata.deletion_timestamp.is_some();
        let is_stuck = owner.reason.as_deref() == Some(CANNOT_BE_REMEDIATED)
            || status.is_preserved()
            || is_skipped(&machine.metadata);
        let requested = status.is_remediation_requested() && !ends && !is_stuck;
        let created = machine.metadata.creation_timestamp.as_ref();
        requested.then(|| Self {
            not_by_user: !must_remediate(&machine.metadata),
            newest: Reverse(created.map(|time| time.0)),
            name: machine.metadata.name.clone().unwrap_or_default(),
        })
    }
}
