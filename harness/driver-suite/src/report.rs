//! The results of a run.

use std::fmt;
use std::time::Duration;

use mcm_api::{MachineName, ProviderId};

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The driver keeps the rule.
    Passed,
    /// The driver breaks the rule; contains how.
    Failed(String),
    /// The rule does not apply; contains why.
    Skipped(String),
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case's name.
    pub name: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The duration, including the cleanup.
    pub duration: Duration,
}

/// A VM of the run that still exists at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The VM; `None`: the driver did not return its id.
    pub provider_id: Option<ProviderId>,
    /// Its machine.
    pub machine: MachineName,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider_id {
            Some(id) => write!(f, "VM {id} of machine {}", self.machine),
            None => write!(f, "the VM of machine {}", self.machine),
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One result for each selected case.
    pub results: Vec<CaseResult>,
    /// VMs to delete by hand.
    pub leftovers: Vec<Leftover>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

impl Report {
    /// Whether no case failed, no VM is left over, and the run was complete.
    pub fn is_green(&self) -> bool {
        self.failed().next().is_none() && self.leftovers.is_empty() && !self.stopped
    }

    /// The names of the failed cases.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        let failed = self.results.iter();
        failed
            .filter(|result| matches!(result.outcome, Outcome::Failed(_)))
            .map(|result| result.name)
    }

    /// The names of the skipped cases.
    pub fn skipped(&self) -> impl Iterator<Item = &'static str> {
        let skipped = self.results.iter();
        skipped
            .filter(|result| matches!(result.outcome, Outcome::Skipped(_)))
            .map(|result| result.name)
    }
}
