//! The disturbances that may currently affect the controller: active fault rules of the cloud and of the API server,
//! and processes that are down.

use std::collections::{BTreeMap, BTreeSet};

use scenario::step::DisturbanceChange;
use scenario::step::Process;

/// Disturbances that the scenario has started and not ended.
#[derive(Debug, Default)]
pub(super) struct ActiveDisturbances {
    /// Fault rules, and the maximum number of hits of each.
    rules: BTreeMap<String, Option<u64>>,
    down: BTreeSet<Process>,
}

impl ActiveDisturbances {
    /// Applies a change by a step.
    pub(super) fn apply(&mut self, change: DisturbanceChange) {
        match change {
            DisturbanceChange::Begins { rule, at_most } => drop(self.rules.insert(rule, at_most)),
            DisturbanceChange::Ends { rule } => drop(self.rules.remove(&rule)),
            DisturbanceChange::ProcessEnds(process) => drop(self.down.insert(process)),
            DisturbanceChange::ProcessStarts(process) => drop(self.down.remove(&process)),
        }
    }

    /// Removes all fault rules.
    pub(super) fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Whether no disturbance is active, given the number of hits by rule.
    pub(super) fn is_empty(&self, hits: &BTreeMap<String, u64>) -> bool {
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
    fn a_rule_is_active_until_it_is_spent_or_removed() {
        let mut disturbances = ActiveDisturbances::default();
        disturbances.apply(
            fail_call("once", CloudCall::CreateMachine, "m", 1, mcm_api::Code::Internal)
                .disturbance()
                .unwrap(),
        );
        assert!(!disturbances.is_empty(&BTreeMap::new()));
        assert!(disturbances.is_empty(&BTreeMap::from([("once".to_owned(), 1)])));
        disturbances.apply(lift("once").disturbance().unwrap());
        assert!(disturbances.is_empty(&BTreeMap::new()));
    }

    #[test]
    fn a_process_is_a_disturbance_from_its_end_to_its_start() {
        let mut disturbances = ActiveDisturbances::default();
        disturbances.apply(mcm(ProcessAction::Kill).disturbance().unwrap());
        assert!(!disturbances.is_empty(&BTreeMap::new()));
        disturbances.apply(mcm(ProcessAction::Start).disturbance().unwrap());
        assert!(disturbances.is_empty(&BTreeMap::new()));
    }
}
