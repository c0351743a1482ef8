//! What keeps the controller from its work at a moment: faults of the cloud and of the API server that may still strike,
//! and processes that are down.

use std::collections::{BTreeMap, BTreeSet};

use scenario::step::DisturbanceChange;
use scenario::step::Process;

/// What the scenario does to the controller.
#[derive(Debug, Default)]
pub(super) struct ActiveDisturbances {
    /// Fault rules, and how often each strikes at most.
    rules: BTreeMap<String, Option<u64>>,
    down: BTreeSet<Process>,
}

impl ActiveDisturbances {
    /// Takes over what a step changes.
    pub(super) fn apply(&mut self, change: DisturbanceChange) {
        match change {
            DisturbanceChange::Begins { rule, at_most } => drop(self.rules.insert(rule, at_most)),
            DisturbanceChange::Ends { rule } => drop(self.rules.remove(&rule)),
            DisturbanceChange::ProcessEnds(process) => drop(self.down.insert(process)),
            DisturbanceChange::ProcessStarts(process) => drop(self.down.remove(&process)),
        }
    }

    /// All faults are lifted.
    pub(super) fn lifted(&mut self) {
        self.rules.clear();
    }

    /// Whether nothing disturbs, when rules have struck so often.
    pub(super) fn is_calm(&self, hits: &BTreeMap<String, u64>) -> bool {
        let spent = |(rule, times): (&String, &Option<u64>)| {
            times.is_some_and(|times| hits.get(rule).is_some_and(|hits| *hits >= times))
        };
        self.down.is_empty() && self.rules.iter().all(spent)
    }
}

#[cfg(test)]
mod tests {
    use scenario::builder::{fail_call, lift, mcm};
    use scenario::step::CloudCall;
    use scenario::step::ProcessAction;

    use super::*;

    #[test]
    fn a_rule_disturbs_until_it_is_spent_or_lifted() {
        let mut calm = ActiveDisturbances::default();
        calm.apply(
            fail_call("once", CloudCall::CreateMachine, "m", 1, mcm_api::Code::Internal)
                .disturbance()
                .unwrap(),
        );
        assert!(!calm.is_calm(&BTreeMap::new()));
        assert!(calm.is_calm(&BTreeMap::from([("once".to_owned(), 1)])));
        calm.apply(lift("once").disturbance().unwrap());
        assert!(calm.is_calm(&BTreeMap::new()));
    }

    #[test]
    fn a_process_that_is_down_disturbs_until_it_is_started() {
        let mut calm = ActiveDisturbances::default();
        calm.apply(mcm(ProcessAction::Kill).disturbance().unwrap());
        assert!(!calm.is_calm(&BTreeMap::new()));
        calm.apply(mcm(ProcessAction::Start).disturbance().unwrap());
        assert!(calm.is_calm(&BTreeMap::new()));
    }
}
