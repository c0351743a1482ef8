//! The regression corpus: bugs that machine controllers had, each as a scenario and a mutant that brings the bug back.
//!
//! What lives here: what an entry is, how its times are jittered, and what the runs of a case show. What must not: the
//! entries (crate `e2e`), and how runs are performed and shown (`cli`).

mod document;
mod jitter;
mod verdict;

use defects::Defect;
use scenario::Scenario;

pub use self::document::document;
pub use self::jitter::jittered;
pub use self::verdict::{CaseVerdict, Detection, Verdicts};

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// For instance `R04`.
    pub id: &'static str,
    /// For instance `lost-lease-leaks-vms`.
    pub name: &'static str,
    /// Where it happened first.
    pub origin: &'static str,
    /// To what it belongs.
    pub group: Group,
    /// How sure its cause is.
    pub confidence: Confidence,
    /// Its variants; the first is the entry itself.
    pub cases: Vec<Case>,
    /// What of it waits for something that does not exist yet; empty: nothing.
    pub open: &'static str,
}

/// One scenario, with the mutant that must fail it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The switch's name, as in `R04/b`; a case without a mutant has a name of its own behind the slash.
    pub id: &'static str,
    /// Must pass without the mutant, and fail with it.
    pub scenario: Scenario,
    /// Whether there is a mutant of this name; without one the scenario must pass, and that is all.
    pub mutant: bool,
    /// The invariants one of which must break; [`EXPECTED`] stands for what the scenario expects beyond them.
    pub breaks: &'static [&'static str],
}

impl Case {
    /// Whether its runs are compared with one of the same seed without preservation: I17 is judged over pairs.
    pub fn is_pair(&self) -> bool {
        self.breaks.contains(&"I17")
    }
}

/// What found a mutant is no invariant but an expectation of the scenario: that something comes about in time, or never.
pub const EXPECTED: &str = "expected";

/// The names of all mutants.
pub fn mutants() -> Vec<&'static str> {
    Defect::ALL.iter().map(|defect| defect.id()).collect()
}

/// What an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Duplicates, leaks, massacres.
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
}

impl Group {
    /// Its letter and words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ledger => "A: the VM ledger",
            Self::Freeze => "B: freeze, outages, meltdown",
            Self::Drain => "C: drain",
            Self::Timeouts => "D: timeouts and start-up",
            Self::Rollouts => "E: scaling, rollouts, autoscaler",
            Self::Loops => "F: nodes, finalizers, loops",
            Self::Preservation => "G: preservation",
        }
    }
}

/// How sure an entry's cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Trigger and cause were read.
    Cause,
    /// The symptom was read; a part of the cause or the timing is inferred.
    Symptom,
    /// The symptom alone was read: the cause is made up here.
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
