//! What a stage hands back after a run.

use std::collections::{BTreeMap, BTreeSet};

use judge::ScenarioOutcome;
use scenario::result::Effect;
use scenario::result::{Access, TraceSummary, Write};

use crate::StageError;

/// What a stage hands back: what was told, or why it never began, and what only it knows.
#[derive(Debug)]
pub struct StageResult {
    /// What happened.
    pub outcome: Result<ScenarioOutcome, StageError>,
    /// Of a simulated run.
    pub trace: Option<TraceSummary>,
    /// Of a simulated run.
    pub effects: Vec<Effect>,
    /// Of a simulated run whose job wants them told.
    pub writes: Vec<Write>,
    /// How often each disturbance struck, in the plan's order.
    pub hits: Vec<u64>,
    /// Logs by file name.
    pub logs: BTreeMap<String, Vec<u8>>,
    /// What mcm and fakecloud asked of an API server of ours.
    pub requests: BTreeSet<Access>,
    /// What it refused them: roles of `deploy/rbac` that lack something.
    pub refused: BTreeSet<String>,
}

impl StageResult {
    /// With how tidying up went: where it failed, so did the run. Why the run itself failed stays in front.
    #[must_use]
    pub fn tidied(mut self, tidied: Result<(), StageError>) -> Self {
        let Err(left) = tidied else { return self };
        self.outcome = match self.outcome {
            Ok(mut outcome) => match &mut outcome.failure {
                Some(failure) => {
                    failure.reason = format!("{}; then {left}", failure.reason);
                    Ok(outcome)
                }
                None => Err(left),
            },
            Err(run) => Err(StageError::Untidy {
                run: Box::new(run),
                left: Box::new(left),
            }),
        };
        self
    }

    /// What every stage knows.
    pub fn new(outcome: Result<ScenarioOutcome, StageError>, logs: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            outcome,
            trace: None,
            effects: Vec::new(),
            writes: Vec::new(),
            hits: Vec::new(),
            logs,
            requests: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use judge::Failure;
    use judge::narrative::Narrative;
    use judge::world::WorldState;
    use rstest::rstest;

    use super::*;
    use crate::deploy::DeployError;
    use crate::ports::PortError;

    const NOT_GONE: &str = "not everything that was deleted is gone after 60s";

    fn not_gone() -> StageError {
        DeployError::NotGone.into()
    }

    fn outcome(reason: Option<&str>) -> ScenarioOutcome {
        ScenarioOutcome {
            narrative: Narrative::new(Timestamp::UNIX_EPOCH),
            world: WorldState::default(),
            end: BTreeMap::new(),
            failure: reason.map(|reason| Failure {
                after: Duration::ZERO,
                step: 1,
                invariant: None,
                expectation: true,
                reason: reason.to_owned(),
            }),
            lasted: Duration::ZERO,
        }
    }

    #[rstest]
    #[case::both_well(Ok(outcome(None)), Ok(()), None)]
    #[case::only_the_run(Ok(outcome(Some("no machine"))), Ok(()), Some("no machine"))]
    #[case::only_the_tidy_up(Ok(outcome(None)), Err(not_gone()), Some(NOT_GONE))]
    #[case::both(
        Ok(outcome(Some("no machine"))),
        Err(not_gone()),
        Some("no machine; then not everything that was deleted is gone after 60s")
    )]
    #[case::one_that_did_not_begin(
        Err(PortError::AllTaken.into()),
        Err(not_gone()),
        Some("no port from 21000 to 25999 is free; then not everything that was deleted is gone after 60s")
    )]
    fn a_tidy_up_that_fails_is_said_behind_why_the_run_failed(
        #[case] outcome: Result<ScenarioOutcome, StageError>,
        #[case] tidied: Result<(), StageError>,
        #[case] said: Option<&str>,
    ) {
        let ran = StageResult::new(outcome, BTreeMap::new()).tidied(tidied);
        let reason = match ran.outcome {
            Ok(outcome) => outcome.failure.map(|failure| failure.reason),
            Err(error) => Some(error.to_string()),
        };
        assert_eq!(reason.as_deref(), said);
    }
}
