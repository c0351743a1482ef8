//! The outcome of a scenario, with everything that its report needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scenario::signature::Signature;

use crate::evaluate::short;
use crate::world::WorldState;

/// The outcome of a run.
#[derive(Debug)]
pub struct ScenarioOutcome {
    /// The world at the end.
    pub world: WorldState,
    /// The final state, without what differs between two clean runs; empty if the run failed.
    pub end: BTreeMap<String, String>,
    /// Why it failed; `None`: every expectation is met and no invariant is violated.
    pub failure: Option<Failure>,
    /// The steps without an effect: they test nothing. The plan of the run decides whether it fails.
    pub misses: Vec<Miss>,
    /// The disturbances of the plan that were performed as steps, by their index.
    pub performed: BTreeSet<usize>,
    /// Duration of the run by the stage's clock.
    pub lasted: Duration,
}

impl ScenarioOutcome {
    /// Whether the run did not fail, and every step had an effect.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none() && self.misses.is_empty()
    }
}

/// A step that had no effect and may not miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Number of the step, from 1.
    pub step: usize,
    /// Why it had no effect, in one sentence.
    pub reason: String,
}

/// Why a scenario failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Time since the start of the run.
    pub after: Duration,
    /// Number of the step, from 1; 0: before the first step.
    pub step: usize,
    /// Name of the violated invariant, if that is the cause.
    pub invariant: Option<&'static str>,
    /// Whether an expectation of the scenario was missed.
    pub expectation: bool,
    /// The cause in one sentence.
    pub reason: String,
    /// The cause without names, numbers and times.
    pub signature: Signature,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} in step {}: {}", short(self.after), self.step, self.reason)
    }
}
