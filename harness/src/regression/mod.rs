//! The regression corpus: bugs that machine controllers had, each as a scenario and a mutant that brings the bug back.
//!
//! This module defines entries, jitters their times and evaluates the runs of their cases. The crate `e2e` contains the
//! entries; `cli` performs runs and prints results.

mod document;
mod jitter;
mod verdict;

use defects::Defect;
use scenario::Scenario;

pub use self::document::document;
pub use self::jitter::jittered;
pub use self::verdict::{CaseVerdict, Detection, Verdicts};

/// A known bug.
#[derive(Clone, Debug)]
pub struct Entry {
    /// For example `R04`.
    pub id: &'static str,
    /// For example `lost-lease-leaks-vms`.
    pub name: &'static str,
    /// Where it was reported.
    pub origin: &'static str,
    /// Its group.
    pub group: Group,
    /// How certain its cause is.
    pub confidence: Confidence,
    /// Its variants; the first is the entry itself.
    pub cases: Vec<Case>,
    /// The part that is not covered yet, and the reason; empty: it is covered completely.
    pub open: &'static str,
}

/// A scenario, and the mutant with which it must fail.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case and of its mutant, such as `R04/b`. The name of a case without a mutant has a word after the
    /// slash.
    pub id: &'static str,
    /// The scenario, which must pass without the mutant and fail with it.
    pub scenario: Scenario,
    /// Whether there is a mutant of this name; otherwise the scenario only has to pass.
    pub mutant: bool,
    /// The invariants of which the mutant must violate one; [`EXPECTED`] means an expectation of the scenario.
    pub breaks: &'static [&'static str],
}

impl Case {
    /// Whether its runs are compared with one of the same seed without preservation: I17 is judged over pairs.
    pub fn is_pair(&self) -> bool {
        self.breaks.contains(&"I17")
    }
}

/// In place of an invariant: an expectation of the scenario detected the mutant.
pub const EXPECTED: &str = "expected";

/// The names of all mutants.
pub fn mutants() -> Vec<&'static str> {
    Defect::ALL.iter().map(|defect| defect.id()).collect()
}

/// The group of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Duplicate VMs, leaked VMs, wrongly deleted VMs.
    Ledger,
    /// Freeze, outages, meltdown.
    Freeze,
    /// Drains.
    Drain,
    /// Timeouts and start-up.
    Timeouts,
    /// Scaling, rollouts, cluster-autoscaler.
    Rollouts,
    /// Nodes, finalizers, loops.
    Loops,
    /// Preservation.
    Preservation,
    /// Health checks.
    HealthChecks,
}

impl Group {
    /// Its letter and title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ledger => "A: the VM ledger",
            Self::Freeze => "B: freeze, outages, meltdown",
            Self::Drain => "C: drain",
            Self::Timeouts => "D: timeouts and start-up",
            Self::Rollouts => "E: scaling, rollouts, autoscaler",
            Self::Loops => "F: nodes, finalizers, loops",
            Self::Preservation => "G: preservation",
            Self::HealthChecks => "H: health checks",
        }
    }
}

/// How certain the cause of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Trigger and cause are documented.
    Cause,
    /// The symptom is documented; a part of the cause or the timing is inferred.
    Symptom,
    /// Only the symptom is documented; the cause is an assumption.
    Guess,
}

impl Confidence {
    /// Its letter.
    pub fn letter(self) -> char {
        match self {
            Self::Cause => 'A',
            Self::Symptom => 'B',
            Self::Guess => 'C',
        }
    }
}
