//! Counts of what occurred in a run: phase transitions, fault hits, reasons of decisions, events of
//! preservations and health checks, and evaluations of invariants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Occurred {
    /// Phase transitions of machines, such as `Pending -> Running`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub transitions: BTreeMap<String, u64>,
    /// Fault hits by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// Reasons of mcm's decisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u64>,
    /// Preservation events by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preservations: BTreeMap<String, u64>,
    /// Events of health checks by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub health_checks: BTreeMap<String, u64>,
    /// Evaluations of invariants by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub invariants: BTreeMap<String, u64>,
}

impl Occurred {
    /// All counts with their groups.
    pub fn all(&self) -> impl Iterator<Item = (Group, &str, u64)> {
        let of = |group: Group, counts| {
            let counts: &BTreeMap<String, u64> = counts;
            counts.iter().map(move |(name, times)| (group, name.as_str(), *times))
        };
        of(Group::Transition, &self.transitions)
            .chain(of(Group::Fault, &self.faults))
            .chain(of(Group::Reason, &self.reasons))
            .chain(of(Group::Preservation, &self.preservations))
            .chain(of(Group::HealthCheck, &self.health_checks))
            .chain(of(Group::Invariant, &self.invariants))
    }
}

/// A group of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// A phase transition.
    Transition,
    /// A fault hit.
    Fault,
    /// A reason of a decision.
    Reason,
    /// A preservation event.
    Preservation,
    /// An event of a health check.
    HealthCheck,
    /// An evaluation of an invariant.
    Invariant,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Transition => "transition",
            Self::Fault => "fault",
            Self::Reason => "reason",
            Self::Preservation => "preservation",
            Self::HealthCheck => "health check",
            Self::Invariant => "invariant",
        })
    }
}
