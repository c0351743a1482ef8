//! How a scenario ended, with everything that its report needs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::evaluate::short;
use crate::narrative::Narrative;
use crate::world::WorldState;

/// What is left of a run.
#[derive(Debug)]
pub struct ScenarioOutcome {
    /// What happened, in words.
    pub narrative: Narrative,
    /// The world at the end.
    pub world: WorldState,
    /// What is left, without what differs between two clean runs; of a run that failed, nothing.
    pub end: BTreeMap<String, String>,
    /// Why it failed; `None`: every expectation was met and no invariant broken.
    pub failure: Option<Failure>,
    /// By the stage's clock.
    pub lasted: Duration,
}

/// Why a scenario failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, since the start.
    pub after: Duration,
    /// In which step, counted from 1; 0: before the first.
    pub step: usize,
    /// The broken invariant's name, if that is why.
    pub invariant: Option<&'static str>,
    /// Whether an expectation of the scenario was missed.
    pub expectation: bool,
    /// In one sentence.
    pub reason: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} in step {}: {}", short(self.after), self.step, self.reason)
    }
}
