//! What keeps the controller from its work at a moment: faults of the cloud and of the API server that may still strike,
//! and processes that are down.
//!
//! What must not live here: what an invariant makes of it.

use std::collections::{BTreeMap, BTreeSet};

use scenario::Step;
use scenario::step::{Process, ProcessAction, ZoneFailure};

/// What the scenario does to the controller.
#[derive(Debug, Default)]
pub(super) struct ActiveDisturbances {
    /// Fault rules, and how often each strikes at most.
    rules: BTreeMap<String, Option<u64>>,
    down: BTreeSet<Process>,
}

impl ActiveDisturbances {
    /// A step was performed.
    pub(super) fn performed(&mut self, step: &Step) {
        match step {
            Step::Inject(fault) => drop(self.rules.insert(fault.name.clone(), fault.times.map(u64::from))),
            Step::SlowCreation(slow) => drop(self.rules.insert(slow.name.clone(), Some(1))),
            Step::ApiFault(fault) => {
                let times = fault.rule.matches.times.map(u64::from);
                self.rules.insert(fault.rule.name.clone(), times);
            }
            // A controller works on while VMs stand still.
            Step::FailZone(fail) if fail.failure == ZoneFailure::Compute => {}
            Step::FailZone(fail) => drop(self.rules.insert(of_zone(&fail.zone), None)),
            Step::MendZone(zone) => drop(self.rules.remove(&of_zone(zone))),
            Step::Lift(rule) | Step::LiftApiFault(rule) => drop(self.rules.remove(rule)),
            Step::Process(step) => match step.action {
                ProcessAction::Kill => drop(self.down.insert(step.name)),
                ProcessAction::Start | ProcessAction::Restart => drop(self.down.remove(&step.name)),
                ProcessAction::KillLeader | ProcessAction::RollingRestart => {}
            },
            _ => {}
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

/// Under which name a failed zone stands among the rules.
fn of_zone(zone: &str) -> String {
    format!("zone {zone}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::builder::{fail_call, lift, mcm};
    use scenario::step::CloudCall;

    #[test]
    fn a_rule_disturbs_until_it_is_spent_or_lifted() {
        let mut calm = ActiveDisturbances::default();
        calm.performed(&fail_call(
            "once",
            CloudCall::CreateMachine,
            "m",
            1,
            mcm_api::Code::Internal,
        ));
        assert!(!calm.is_calm(&BTreeMap::new()));
        assert!(calm.is_calm(&BTreeMap::from([("once".to_owned(), 1)])));
        calm.performed(&lift("once"));
        assert!(calm.is_calm(&BTreeMap::new()));
    }

    #[test]
    fn a_process_that_is_down_disturbs_until_it_is_started() {
        let mut calm = ActiveDisturbances::default();
        calm.performed(&mcm(ProcessAction::Kill));
        assert!(!calm.is_calm(&BTreeMap::new()));
        calm.performed(&mcm(ProcessAction::Start));
        assert!(calm.is_calm(&BTreeMap::new()));
    }
}
