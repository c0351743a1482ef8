//! Tells whether a smaller plan fails in the same way as the original one, and collects those that fail differently.

use scenario::plan::Plan;
use scenario::result::FailureResult;
use scenario::signature::{Cause, Signature};

/// A plan that fails in another way than the one that is shrunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The first plan that failed in this way.
    pub plan: Plan,
    /// How it failed.
    pub signature: Signature,
}

/// The failures of smaller plans.
#[derive(Clone, Debug)]
pub struct Findings {
    original: Signature,
    found: Vec<Finding>,
}

impl Findings {
    /// `original` is the failure of the plan that is shrunk.
    pub fn new(original: Signature) -> Self {
        Self {
            original,
            found: Vec::new(),
        }
    }

    /// Whether a smaller plan fails as the original one. Another failure is collected if it is the first of its kind.
    ///
    /// A plan whose step cannot be performed or has no effect is not a finding: shrinking removed what the step needs.
    pub fn is_same(&mut self, plan: &Plan, failure: Option<&FailureResult>) -> bool {
        let Some(signature) = failure.map(|failure| &failure.signature) else {
            return false;
        };
        if self.original.covers(signature) {
            return true;
        }
        let is_invalid = matches!(signature.cause, Cause::Step | Cause::NoEffect);
        let is_known = self.found.iter().any(|known| known.signature.covers(signature));
        if !is_invalid && !is_known {
            self.found.push(Finding {
                plan: plan.clone(),
                signature: signature.clone(),
            });
        }
        false
    }

    /// The failures that differ from the original one, in the order in which they were found.
    pub fn into_found(self) -> Vec<Finding> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;

    use super::*;

    fn failure(cause: Cause, reason: &str) -> FailureResult {
        FailureResult::new(cause, 1.0, reason.to_owned())
    }

    fn invariant(name: &str, reason: &str) -> FailureResult {
        failure(Cause::Invariant(name.to_owned()), reason)
    }

    #[test]
    fn a_plan_that_fails_differently_is_a_finding_and_not_a_smaller_plan() {
        let plan = Plan::new(Scenario::new("story", "A story."), 1);
        let original = invariant("I1", "machine m-1 has 2 VMs");
        let mut findings = Findings::new(original.signature);
        let mut is_same = |failure: Option<FailureResult>| findings.is_same(&plan, failure.as_ref());
        assert!(is_same(Some(invariant("I1", "machine m-2 has 3 VMs"))));
        assert!(!is_same(None), "it passes");
        assert!(
            !is_same(Some(invariant("I1", "deployment d-1 has 2 VMs"))),
            "another kind of object"
        );
        assert!(
            !is_same(Some(invariant("I2", "machine m-1 has 2 VMs"))),
            "another invariant"
        );
        assert!(
            !is_same(Some(invariant("I2", "machine m-9 has 7 VMs"))),
            "the same finding"
        );
        assert!(!is_same(Some(failure(Cause::Expectation, "machine m-1 has 2 VMs"))));
        assert!(
            !is_same(Some(failure(Cause::Step, "machine m-1 has no VM"))),
            "an invalid plan"
        );
        assert!(
            !is_same(Some(failure(Cause::NoEffect, "the fault hit nothing"))),
            "an invalid plan"
        );
        let found: Vec<String> = findings
            .into_found()
            .iter()
            .map(|finding| finding.signature.cause.to_string())
            .collect();
        assert_eq!(found, ["I1", "I2", "expectation"]);
    }
}
