//! The result of a run on a stage.

use std::collections::{BTreeMap, BTreeSet};

use judge::ScenarioOutcome;
use scenario::result::Effect;
use scenario::result::{Access, TraceSummary, Write};
use sim::Entry;

use crate::StageError;
use crate::plan::schedule::Scheduled;

/// The outcome of a run, or why it did not start, and the information that only the stage has.
#[derive(Debug)]
pub struct StageResult {
    /// The outcome of the scenario, or the error of the stage.
    pub outcome: Result<ScenarioOutcome, StageError>,
    /// The summary of the trace of a simulated run.
    pub trace: Option<TraceSummary>,
    /// The effects of the controller in a simulated run, or if its job requests them.
    pub effects: Vec<Effect>,
    /// The writes of a simulated run, if the job requests them.
    pub writes: Vec<Write>,
    /// The number of hits of each disturbance, in the order of the plan.
    pub hits: Vec<u64>,
    /// The newest entries of the trace of a simulated run that failed or whose job requests a record.
    pub entries: Vec<Entry>,
    /// The entries about processes and faults of such a run, and of a run whose controller passes gates.
    pub processes: Vec<Entry>,
    /// The scheduled disturbances of the plan.
    pub scheduled: Vec<Scheduled>,
    /// Logs by file name.
    pub logs: BTreeMap<String, Vec<u8>>,
    /// The accesses of mcm and fakecloud to an embedded API server.
    pub requests: BTreeSet<Access>,
    /// The requests that it denied because a role of `deploy/rbac` lacks a rule.
    pub refused: BTreeSet<String>,
}

impl StageResult {
    /// Adds the result of the cleanup: if the cleanup failed, the run fails too. A failure of the run itself comes
    /// first in the reason.
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

    /// A result with the fields that every stage has.
    pub fn new(outcome: Result<ScenarioOutcome, StageError>, logs: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            outcome,
            trace: None,
            effects: Vec::new(),
            writes: Vec::new(),
            hits: Vec::new(),
            entries: Vec::new(),
            processes: Vec::new(),
            scheduled: Vec::new(),
            logs,
            requests: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use judge::Failure;
    use judge::world::WorldState;
    use rstest::rstest;
    use scenario::signature::Signature;

    use super::*;
    use crate::deploy::DeployError;
    use crate::ports::PortError;

    const NOT_GONE: &str = "some deleted objects still exist after 60s";

    fn not_gone() -> StageError {
        DeployError::NotGone.into()
    }

    fn outcome(reason: Option<&str>) -> ScenarioOutcome {
        ScenarioOutcome {
            performed: BTreeSet::new(),
            world: WorldState::default(),
            end: BTreeMap::new(),
            failure: reason.map(|reason| Failure {
                after: Duration::ZERO,
                step: 1,
                invariant: None,
                expectation: true,
                reason: reason.to_owned(),
                signature: Signature::default(),
            }),
            misses: Vec::new(),
            lasted: Duration::ZERO,
        }
    }

    #[rstest]
    #[case::both_succeed(Ok(outcome(None)), Ok(()), None)]
    #[case::only_the_run_fails(Ok(outcome(Some("no machine"))), Ok(()), Some("no machine"))]
    #[case::only_the_cleanup_fails(Ok(outcome(None)), Err(not_gone()), Some(NOT_GONE))]
    #[case::both_fail(
        Ok(outcome(Some("no machine"))),
        Err(not_gone()),
        Some("no machine; then some deleted objects still exist after 60s")
    )]
    #[case::the_run_does_not_start(
        Err(PortError::AllTaken.into()),
        Err(not_gone()),
        Some("no port from 21000 to 25999 is free; then some deleted objects still exist after 60s")
    )]
    fn a_failed_cleanup_is_reported_after_the_failure_of_the_run(
        #[case] outcome: Result<ScenarioOutcome, StageError>,
        #[case] tidied: Result<(), StageError>,
        #[case] expected: Option<&str>,
    ) {
        let result = StageResult::new(outcome, BTreeMap::new()).tidied(tidied);
        let reason = match result.outcome {
            Ok(outcome) => outcome.failure.map(|failure| failure.reason),
            Err(error) => Some(error.to_string()),
        };
        assert_eq!(reason.as_deref(), expected);
    }
}
