//! What happened in a run, by kind: phases that machines went from and to, faults that struck, reasons that were given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How often each thing happened, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Occurred {
    /// Phases of machines: `Pending -> Running`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub transitions: BTreeMap<String, u64>,
    /// Faults that struck, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// Why mcm did what it did, by kind: the reasons of its decisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u64>,
    /// What became of preservations, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preservations: BTreeMap<String, u64>,
}

impl Occurred {
    /// Everything that happened, and how often.
    pub fn all(&self) -> impl Iterator<Item = (Group, &str, u64)> {
        let of = |group: Group, counts| {
            let counts: &BTreeMap<String, u64> = counts;
            counts.iter().map(move |(name, times)| (group, name.as_str(), *times))
        };
        of(Group::Transition, &self.transitions)
            .chain(of(Group::Fault, &self.faults))
            .chain(of(Group::Reason, &self.reasons))
            .chain(of(Group::Preservation, &self.preservations))
    }
}

/// What sort of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// A phase after another.
    Transition,
    /// Something that was done against the world's will.
    Fault,
    /// Why something was done or said.
    Reason,
    /// What became of a preservation.
    Preservation,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Transition => "transition",
            Self::Fault => "fault",
            Self::Reason => "reason",
            Self::Preservation => "preservation",
        })
    }
}
